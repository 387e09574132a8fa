"""The measured tables in README.md, made from the rows in `benchmarks/results`: `python -m benchmarks.table`.

Rows of a GPU (files that begin with `gpu_`) have a table of their own, with a line a side.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.start import HEADERS, cells
from benchmarks.train.fbgemm import NAME as FBGEMM
from colonnade.errors import ColonnadeError, OptionError
from colonnade.testing.bench import DENSE_ALONE, OURS, THEIRS
from colonnade.testing.timing import human_seconds

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
GPU_BEGIN, GPU_END = "<!-- measured on a gpu: begin -->", "<!-- measured on a gpu: end -->"
START_BEGIN, START_END = "<!-- measured start: begin -->", "<!-- measured start: end -->"
TRAIN_BEGIN, TRAIN_END = "<!-- measured training: begin -->", "<!-- measured training: end -->"
GPU, START, TRAIN = "gpu_", "start", "train"
OTHERS = (START, TRAIN, "features", "features_gpu", "growth", "tables_gpu")
"""Files whose rows have another form."""
Row = Mapping[str, Any]


LEFT_OUT = ("throughput", "co-running")
"""Parts with a line for every number of callers or place of tables: they stand in the rows and on the page."""


def newest(folder: Path, *, on_gpu: bool = False) -> list[Row]:
    """The last row of each (case, part, batch size), in that order; those of a GPU or all others."""
    found: dict[tuple[str, str, int], Row] = {}
    for path in sorted(folder.glob("*.jsonl")):
        if path.name.startswith(GPU) != on_gpu or path.stem in OTHERS:
            continue
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
    places: dict[str, dict[str, None]] = {}
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
        places.setdefault(_place(row), {})[row["case"]] = None
    return "\n".join([*lines, "", "Medians (20th to 80th percentile).", "", *_said(places)])


def _said(places: Mapping[str, Mapping[str, None]]) -> list[str]:
    """Where the rows of which models were measured, an item a place."""
    return [f"* {', '.join(cases)}: {place}" for place, cases in places.items()]


def rendered_start(path: Path) -> str:
    """The last row of each model as a Markdown table: what it takes to begin."""
    found: dict[str, Row] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found[row["case"]] = row
    lines = ["| " + " | ".join(HEADERS) + " |", "|---|" + "---:|" * (len(HEADERS) - 1)]
    places: dict[str, dict[str, None]] = {}
    for row in found.values():
        lines.append("| " + " | ".join(cells(row)) + " |")
        host = row["machine"]
        place = f"{host['cpu']}, {host['cores']} cores; commit {row['commit'] or 'unknown'}, {row['date'][:10]}."
        places.setdefault(place, {})[row["case"]] = None
    return "\n".join([*lines, "", *_said(places)])


def rendered_train(path: Path) -> str:
    """The last row of each measurement of training as a Markdown table: loops, then whole steps, a case's together."""
    found: dict[tuple[str, str, int], Row] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found[row["case"], row["what"], row["batch"]] = row
    lines = [
        "| case | part | ids or rows | Colonnade | an id | torch | ratio | FBGEMM, ids ready | ratio |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    places: dict[str, dict[str, None]] = {}
    order = {case: place for place, case in enumerate(dict.fromkeys(case for case, _, _ in found))}
    for row in sorted(found.values(), key=lambda r: (r["what"] != "loop", order[r["case"]])):
        ours, theirs = row["sides"]["ours"], row["sides"]["torch"]
        each = f"{1e9 * ours['p50'] / row['units']:.1f} ns"
        numbers = (f"{row['units']:,}", _quantiles(ours), each, _quantiles(theirs), f"{row['ratio']:.1f}")
        peer = row["sides"].get(FBGEMM)
        beside = (_quantiles(peer), f"{peer['p50'] / ours['p50']:.1f}") if peer else ("", "")
        lines.append("| " + " | ".join((row["case"], row["what"], *numbers, *beside)) + " |")
        machine, versions = row["machine"], row["versions"]
        where = f"{machine['cpu']}, {machine['cores']} cores, one thread a side; torch {versions['torch']}"
        place = f"{where}, numba {versions['numba']}; commit {row['commit'] or 'unknown'}, {row['date'][:10]}."
        places.setdefault(place, {})[row["case"]] = None
    return "\n".join([*lines, "", *_said(places)])


def rendered_on_gpu(rows: Iterable[Row]) -> str:
    """The rows of a GPU as a Markdown table with a line a side, and below it where they were measured."""
    lines = [
        "| model | part | batch | side | median (20th to 80th percentile) | times the floor |",
        "|---|---|---:|---|---:|---:|",
    ]
    places: dict[str, dict[str, None]] = {}
    for row in rows:
        if row["what"].startswith(LEFT_OUT):
            continue
        least = row["floor"].get("seconds")
        for side, timing in row["sides"].items():
            times = f"{timing['p50'] / least:.2f}" if least else ""
            cells = (row["case"], row["what"], str(row["batch"]), side, _quantiles(timing), times)
            lines.append("| " + " | ".join(cells) + " |")
            places.setdefault(_place_on_gpu(row), {})[f"{row['case']} {row['what']}"] = None
    return "\n".join([*lines, "", *_said(places)])


def _place_on_gpu(row: Row) -> str:
    versions, machine = row["versions"], row["machine"]
    packages = ", ".join(f"{name} {versions[name]}" for name in ("torch", "triton", "cuda") if name in versions)
    where = f"{machine.get('gpu', 'no GPU')}; {machine['cpu']}, {machine['cores']} cores"
    return f"{where}; {packages}; commit {row['commit'] or 'unknown'}, {row['date'][:10]}."


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


def placed(text: str, table: str, marks: tuple[str, str] = (BEGIN, END)) -> str:
    """The page with the table between its markers. Errors: OptionError where they are missing."""
    first, last = marks
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise OptionError("the page has no place for the table", want=f"{first} and {last}, each on a line of its own")
    return f"{before}{first}\n{table}\n{last}{after}"


def main() -> int:
    """Write the tables into README.md."""
    try:
        rows, on_gpu = newest(RESULTS), newest(RESULTS, on_gpu=True)
        if not rows and not on_gpu:
            raise OptionError("there are no results", where=str(RESULTS), help="make bench")
        text = README.read_text(encoding="utf-8")
        text = placed(text, rendered(rows)) if rows else text
        text = placed(text, rendered_on_gpu(on_gpu), (GPU_BEGIN, GPU_END)) if on_gpu else text
        start = RESULTS / f"{START}.jsonl"
        text = placed(text, rendered_start(start), (START_BEGIN, START_END)) if start.is_file() else text
        train = RESULTS / f"{TRAIN}.jsonl"
        text = placed(text, rendered_train(train), (TRAIN_BEGIN, TRAIN_END)) if train.is_file() else text
        README.write_text(text, encoding="utf-8")
    except ColonnadeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
