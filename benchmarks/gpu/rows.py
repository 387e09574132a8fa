"""Rows: what was measured of one case, stored as a JSON line, printed as a compact table and as an HTML page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from colonnade.testing import html
from colonnade.testing.rows import Row
from colonnade.testing.rows import machine as machine_with
from colonnade.testing.timing import Timing, human_seconds

PREFIX = "gpu_"
HEADERS = ("case", "what", "batch", "side", "p20", "p50", "p80", "of floor", "more")
NUMBERS = (2, 4, 5, 6, 7)

Stored = Mapping[str, Any]


@dataclass(frozen=True)
class Check:
    """An answer compared with a reference before it is timed.   outside: elements outside the tolerance."""

    reference: str
    elements: int
    outside: int
    worst: float = 0.0
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether something was compared and nothing was outside."""
        return self.elements > 0 and self.outside == 0


@dataclass(frozen=True)
class Refused:
    """A side that gets no number, since its check is red."""

    case: str
    what: str
    batch: int
    side: str
    check: Check

    def __str__(self) -> str:
        c = self.check
        if c.ok:
            return f"{self.case}, {self.what}, batch {self.batch}, {self.side}: no number: {c.note}"
        found = f"{c.outside} of {c.elements} elements outside, worst error {c.worst:.3g} {c.note}"
        return f"{self.case}, {self.what}, batch {self.batch}, {self.side}: no number, for the check is red: {found}"


Found = Row | Refused


def timed(
    case: str, what: str, batch: int, checks: Mapping[str, Check], times: Mapping[str, Callable[[], Timing]]
) -> tuple[dict[str, Timing], list[Refused]]:
    """The times of the sides whose check is green, and those that get none.

    Facts: a side that cannot be timed (what it does cannot be captured, say) costs no other side its number.
    """
    refused = [Refused(case, what, batch, side, check) for side, check in checks.items() if not check.ok]
    found = {}
    for side, time_it in times.items():
        if not checks[side].ok:
            continue
        try:
            found[side] = time_it()
        except RuntimeError as error:
            note = "timing failed: " + str(error).partition("\n")[0]
            refused.append(Refused(case, what, batch, side, replace(checks[side], note=note)))
    return found, refused


def here() -> torch.device:
    """The device that is measured: the first where there is one, else the host."""
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def machine() -> dict[str, Any]:
    """The host, and the device where there is one. Units: bytes."""
    return machine_with(here())


def append(folder: Path, row: Row, commit: str = "") -> Path:
    """Add a row to `<folder>/gpu_<case>.jsonl`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{PREFIX}{row.case}.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row.placed(here(), commit).row(), allow_nan=False) + "\n")
    return path


def read(folder: Path) -> list[Stored]:
    """Every row stored in a folder, file by file."""
    paths = sorted(folder.glob(f"{PREFIX}*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]


def table_rows(rows: Iterable[Stored]) -> list[tuple[str, ...]]:
    """A line a side, under `HEADERS`; parts and the floor below them."""
    return [line for row in rows for line in _lines(row)]


def _lines(row: Stored) -> Iterator[tuple[str, ...]]:
    head = (row["case"], row["what"], str(row["batch"]))
    least = row["floor"].get("seconds")
    more = ", ".join(f"{k} {_number(v)}" for k, v in row["facts"].items())
    for kind, group in (("", row["sides"]), ("- ", row["parts"])):
        for name, t in group.items():
            times = tuple(human_seconds(t[q]) for q in ("p20", "p50", "p80"))
            of_floor = f"{t['p50'] / least:.2f}" if least and not kind else ""
            yield (*head, kind + name, *times, of_floor, more)
            more = ""
    if more:
        yield (*head, "", "", "", "", "", more)
    if least:
        floor = row["floor"]
        moved = f"{floor['bytes'] / 1e6:.4g} MB at {floor['bytes_per_second'] / 1e12:.3g} TB/s"
        yield (*head, "floor", "", human_seconds(least), "", "1", moved)


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def text_table(lines: Sequence[tuple[str, ...]]) -> str:
    """The lines under `HEADERS`, in columns that no terminal's width cuts."""
    table = [HEADERS, *lines]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADERS))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i in NUMBERS else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    )


def report(title: str, rows: Sequence[Stored]) -> str:
    """The rows as one HTML page: bars with the 20th to 80th percentile, then tables."""
    if not rows:
        return html.page(title, [])
    groups = [(f"{r['case']}, {r['what']}, batch {r['batch']}", _bars(r)) for r in rows if r["sides"]]
    checks = [
        (r["case"], r["what"], r["batch"], side, *(c[k] for k in ("reference", "elements", "outside", "worst", "note")))
        for r in rows
        for side, c in r["checks"].items()
    ]
    heads = ("case", "what", "batch", "side", "reference", "elements", "outside", "worst error", "note")
    lead = "Bars: median seconds a call; whiskers: 20th to 80th percentile. Answers were compared before the timing."
    return html.page(
        title,
        [
            *(html.paragraph(place, note=True) for place in dict.fromkeys(map(_place, rows))),
            html.paragraph(lead, note=True),
            html.bars(groups),
            html.section("Times", html.table(HEADERS, table_rows(rows), NUMBERS)),
            html.section("Checked before", html.table(heads, checks, (2, 5, 6, 7))),
        ],
    )


def _bars(row: Stored) -> list[html.Bar]:
    bars = [
        html.Bar(name, t["p50"], t["p20"], t["p80"], human_seconds(t["p50"]), color)
        for color, (name, t) in enumerate(row["sides"].items())
    ]
    if least := row["floor"].get("seconds"):
        bars.append(html.Bar("floor (bytes moved)", least, least, least, human_seconds(least), 2))
    return bars


def _place(row: Stored) -> str:
    where = row["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
    device = where.get("gpu", "no CUDA device")
    return f"{device}; {where['cpu']}, {where['cores']} cores; {packages}; commit {row['commit'] or 'unknown'}"
