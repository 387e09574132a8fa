"""What it takes to begin is measured in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.start import HEADERS, cells, measured
from benchmarks.table import rendered_start
from colonnade.cli.common import Progress
from colonnade.testing import golden


def test_a_model_is_compiled_saved_and_loaded(tmp_path: Path) -> None:
    with Progress(False) as say:
        row = measured("tiny", golden.load("tiny", tmp_path / "tiny").model, say)
    assert set(row["compile"]) == {"import", "compile", "anonymous bytes", "save"}
    assert set(row["load"]) == set(row["load without caches"])
    assert all(value > 0 for part in ("compile", "load") for value in row[part].values())
    assert len(cells(row)) == len(HEADERS)
    path = tmp_path / "start.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in (row | {"commit": "old"}, row)))
    table = rendered_start(path)
    assert table.count("| tiny |") == 1 and "old" not in table
