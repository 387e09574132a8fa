"""A unit as the code that it shares with others, and the words that are its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from colonnade.backends.gpu import ops as _ops  # registers what each op writes
from colonnade.backends.gpu.emit import Memory
from colonnade.backends.gpu.kinds import lanes, numeric, single, spread, tiles
from colonnade.backends.gpu.kinds.writer import FEWEST_ROWS, MOST_ROWS, Places, Writer
from colonnade.backends.gpu.units import LANES, NUMERIC, SINGLE, SPREAD, TILES, Unit
from colonnade.core.expr import Apply, walk
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.hash_decimal import HashDecimal
from colonnade.ops.split import Split

assert _ops.__all__

NUM_WARPS = 2
THREADS = 32 * NUM_WARPS
VALUES = 1024
"""Values of a tile: rows times the block of each target."""
WRITERS: Mapping[str, Callable[[Writer], None]] = {
    NUMERIC: numeric.write,
    SINGLE: single.write,
    SPREAD: spread.write,
    LANES: lanes.write,
    TILES: tiles.write,
}


@dataclass(frozen=True)
class Structure:
    """Code that units share.

    items: what is divided by it and rounded up is the number of tiles.   work: values of one partial sum, 0 without.
    """

    kind: str
    body: str
    items: int
    work: int
    num_words: int
    used: frozenset[str]


@dataclass(frozen=True)
class Written:
    """A unit as its structure and the words of its descriptor."""

    structure: Structure
    words: tuple[int, ...]


def write(unit: Unit, places: Places, memory: Memory) -> Written:
    """A unit's structure and words."""
    writer = Writer(unit, places, memory, _lanes(unit))
    WRITERS[unit.kind](writer)
    is_tiled = unit.kind == TILES
    structure = Structure(
        kind=unit.kind,
        body=writer.code.text,
        items=tiles.items_of(_widest(unit)) if is_tiled else writer.rows,
        work=tiles.work_of(writer) if is_tiled else 0,
        num_words=len(writer.code.words),
        used=frozenset(writer.code.used),
    )
    return Written(structure, tuple(writer.code.words))


def _widest(unit: Unit) -> int:
    return max(t.block for t in unit.targets)


def _lanes(unit: Unit) -> int:
    if unit.kind == NUMERIC:
        return MOST_ROWS
    if unit.kind == TILES:
        return tiles.lanes_of(_widest(unit))
    sums = len(unit.targets) if unit.kind == LANES else 1
    most = THREADS if _reads_text(unit) else MOST_ROWS
    return max(FEWEST_ROWS, min(most, VALUES // (_widest(unit) * sums)))


def _reads_text(unit: Unit) -> bool:
    """Whether strings are hashed, searched or compared: that takes the registers of a thread for each lane."""
    column = unit.column
    exprs = [e for root in (column.ids, *column.filters) for e in walk(root) if isinstance(e, Apply)]
    return any(isinstance(e.op, HashBytes | HashDecimal | Split) for e in exprs)
