"""A row of results for each workload that a command names."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_rows(measure: Callable[[str], dict[str, Any] | None], results: Path) -> int:
    """Measure each workload that is named (none: all), and append its row; gives how many have none.

    measure: gives None where the ways do not agree.
    """
    failed = 0
    for name in sys.argv[1:] or ["ad", "search", "lazada"]:
        row = measure(name)
        if row is None:
            print(f"{name}: the ways do not agree, no number", file=sys.stderr)
            failed += 1
            continue
        print(json.dumps(row))
        with results.open("a") as file:
            file.write(json.dumps(row) + "\n")
    return failed
