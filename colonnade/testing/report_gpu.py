"""Measurements on a GPU as bars, tables and one HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from colonnade.testing import html
from colonnade.testing.bench import Refused, refusals
from colonnade.testing.rows import Row
from colonnade.testing.timing import human_seconds

HEADERS = ("case", "what", "batch", "side or part", "p20", "p50", "p80", "of the floor")
NUMBERS = (2, 4, 5, 6, 7)
NOTE = (
    "Bars: median seconds; whiskers: 20th to 80th percentile. Answers were compared before anything was timed. Parts "
    "are those of a request that runs piece by piece, without a CUDA graph. The floor of the columns is the time to "
    "move their inputs, the table rows that they need and their output, each once, at the bandwidth of a large copy "
    "within the device's memory; no computation is in it."
)


def groups(rows: Sequence[Row]) -> list[html.Group]:
    """The bars of a page or picture: sides, then parts, of each row."""
    made: list[html.Group] = []
    for m in rows:
        title = f"{m.case}, {m.what}, batch {m.batch}"
        bars = html.bars_of(m.sides)
        if m.floor:
            bars.append(html.floor_bar(m.floor["seconds"]))
        made.append((title, bars))
        if m.parts:
            made.append((f"{title}: parts, piece by piece", html.bars_of(m.parts)))
    return made


def table_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """A line a side, part and floor, for a table under `HEADERS`."""
    return [line for m in rows for line in _lines(m)]


def _lines(m: Row) -> Iterator[tuple[str, ...]]:
    head = (m.case, m.what, str(m.batch))
    least = m.floor.get("seconds")
    for mark, timings in (("", m.sides), ("- ", m.parts)):
        for name, t in timings.items():
            of_floor = f"{t.p50 / least:.2f}" if least and not mark else ""
            yield (*head, mark + name, *map(human_seconds, (t.p20, t.p50, t.p80)), of_floor)
    if least:
        yield (*head, "floor", "", human_seconds(least), "", "1")


def fact_rows(rows: Sequence[Row]) -> list[tuple[str, str, str, str, str]]:
    """Case, part, batch, name and value of every other number."""
    return [(m.case, m.what, str(m.batch), name, shown(value)) for m in rows for name, value in _facts(m).items()]


def _facts(m: Row) -> dict[str, Any]:
    if not m.floor:
        return dict(m.facts)
    moved = {"bytes that must move": m.floor["bytes"], "GB/s of copying": m.floor["bytes_per_second"] / 1e9}
    return {**m.facts, **moved}


def shown(value: Any) -> str:
    """A number as a reader wants it."""
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def place(m: Row) -> str:
    """Where and with what a row was measured."""
    packages = ", ".join(f"{name} {version}" for name, version in m.versions.items())
    device = m.machine.get("gpu", "no CUDA device")
    return f"{device}; {m.machine['cpu']}, {m.machine['cores']} cores; {packages}; commit {m.commit or 'unknown'}"


def report(title: str, rows: Sequence[Row], refused: Sequence[Refused] = ()) -> str:
    """The measurements as one HTML page."""
    checks = [
        (m.case, m.batch, side, *(check[k] for k in ("reference", "elements", "outside", "worst", "note")))
        for m in rows
        for side, check in m.checks.items()
    ]
    heads = ("case", "batch", "side", "reference", "elements", "outside", "worst error", "note")
    body = [
        *(html.paragraph(where, note=True) for where in dict.fromkeys(map(place, rows))),
        html.paragraph(NOTE, note=True),
        html.bars(groups(rows)),
        html.section("Times", html.table(HEADERS, table_rows(rows), NUMBERS)),
        html.section("Facts", html.table(("case", "what", "batch", "fact", "value"), fact_rows(rows), (2, 4))),
        html.section("Checked before", html.table(heads, checks, (1, 4, 5, 6))),
    ]
    return html.page(title, [*(body if rows else []), *refusals(refused)])
