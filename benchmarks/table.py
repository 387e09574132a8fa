"""The measured table in README.md, made from the rows in `benchmarks/results`: `python -m benchmarks.table`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from colonnade.errors import ColonnadeError, OptionError
from colonnade.testing.bench import DENSE_ALONE, OURS, THEIRS
from colonnade.testing.timing import human_seconds

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"

Row = Mapping[str, Any]


def newest(folder: Path) -> list[Row]:
    """The last row of each (case, part, batch size), in that order."""
    found: dict[tuple[str, str, int], Row] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            key = row["case"], row["what"], row["batch"]
            if key not in found or found[key]["date"] <= row["date"]:
                found[key] = row
    return [found[key] for key in sorted(found, key=lambda k: (k[0], k[1] != "whole", k[2]))]


def rendered(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table, and below it where they were measured."""
    lines = [
        "| model | part | batch | Colonnade | TensorFlow | ratio | floor of the columns | dense rest alone |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    places: dict[str, None] = {}
    for row in rows:
        sides = row["sides"]
        cells = [
            row["case"],
            row["what"],
            str(row["batch"]),
            _quantiles(sides.get(OURS)),
            _quantiles(sides.get(THEIRS)),
        ]
        cells.append(f"{row['ratio']:.1f}" if row["ratio"] else "")
        cells.append(human_seconds(row["floor"]["seconds"]) if row["what"] == "columns" else "")
        cells.append(_quantiles(sides.get(DENSE_ALONE)))
        lines.append("| " + " | ".join(cells) + " |")
        places[_place(row)] = None
    return "\n".join([*lines, "", "Medians (20th to 80th percentile). " + " ".join(places)])


def _quantiles(timing: Mapping[str, float] | None) -> str:
    if timing is None:
        return ""
    return f"{human_seconds(timing['p50'])} ({human_seconds(timing['p20'])} to {human_seconds(timing['p80'])})"


def _place(row: Row) -> str:
    versions = row["versions"]
    tensorflow = versions.get("tensorflow-cpu") or versions.get("tensorflow") or "absent"
    machine = f"{row['machine']['cpu']}, {row['machine']['cores']} cores, {row['threads']} threads a side"
    packages = f"TensorFlow {tensorflow}, torch {versions['torch']}, numba {versions['numba']}"
    return f"{machine}; {packages}; commit {row['commit'] or 'unknown'}, {row['date'][:10]}."


def placed(text: str, table: str) -> str:
    """The page with the table between its markers. Errors: OptionError where they are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise OptionError("the page has no place for the table", want=f"{BEGIN} and {END}, each on a line of its own")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> int:
    """Write the table into README.md."""
    try:
        rows = newest(RESULTS)
        if not rows:
            raise OptionError("there are no results", where=str(RESULTS), help="make bench")
        README.write_text(placed(README.read_text(encoding="utf-8"), rendered(rows)), encoding="utf-8")
    except ColonnadeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
