"""Pooled columns whose rows differ in length: tiles hold equal numbers of *items*, whatever the rows are.

A batch row of n elements is n + 1 items, its elements and its end, so that empty rows count too and no row is without
items. Tile k holds the items k T .. (k + 1) T - 1. A row that lies in several tiles leaves a partial sum of each in the
workspace; the last tile to arrive adds them in the order of the tiles: the same bits each run.
"""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code
from colonnade.backends.gpu.kinds.sums import Sums
from colonnade.backends.gpu.kinds.writer import Writer

ITEM_VALUES = 16384
"""Values of all rows that one tile adds up, roughly."""
STEP_VALUES = 512
"""Values that one step loads."""


def items_of(block: int) -> int:
    """T, given the widest block of a target."""
    return max(64, min(1024, ITEM_VALUES // block))


def lanes_of(block: int) -> int:
    """Elements of one step."""
    return max(4, min(64, STEP_VALUES // block))


def work_of(writer: Writer) -> int:
    """Values of one partial sum: of every target, the count and the divisor."""
    return sum(t.block for t in writer.unit.targets) + 4


def write(writer: Writer) -> None:
    """A loop over the rows of the tile, one after the other, the elements of each in steps of N lanes."""
    code, unit = writer.code, writer.unit
    items = items_of(max(t.block for t in unit.targets))
    code.used.update(("tiles", "lookup"))
    _bounds(writer)
    code.line(f"first_item = tile.to(tl.int64) * {items}")
    code.line(f"last_item = tl.minimum(first_item + {items}, {_end_of(writer, 'rows')})")
    code.line(_first_row(writer))
    code.line("going = first_item < last_item")
    sums = Sums(writer, 1, across=True)
    with code.block("while going:"):
        code.line(f"begin = {_begin_of(writer, 'r')}")
        code.line(f"finish = {_begin_of(writer, 'r + 1')}")
        code.line("at = tl.maximum(begin, first_item - r)")
        code.line("stop = tl.minimum(finish, last_item - r)")
        sums.begin()
        with code.block("while at < stop:"):
            code.line(f"e = at + tl.arange(0, {writer.rows})")
            code.line("live = e < stop")
            evaluator = writer.evaluator()
            sums.add(evaluator, writer.kept(evaluator))
            code.line(f"at += {writer.rows}")
        code.line("is_done = (begin + r >= first_item) & (finish + r < last_item)")
        with code.block("if is_done == 0:"):
            _share(writer, sums, items)
        with code.block("if is_done:"):
            code.line("row = r + tl.arange(0, 1)")
            sums.finish("row", "(row == row)")
        code.line("r += 1")
        code.line("going = finish + r < last_item")


def _bounds(writer: Writer) -> None:
    if writer.unit.offsets is None:
        writer.code.line(f"width = {writer.code.parameter(writer.unit.width)}")
    else:
        offsets = writer.header_pointer(writer.places.words[writer.unit.offsets], "tl.int64")
        writer.code.line(f"begins = {offsets}")


def _begin_of(writer: Writer, row: str) -> str:
    """Where the elements of a row begin."""
    return f"({row}) * width" if writer.unit.offsets is None else f"tl.load(begins + {row})"


def _end_of(writer: Writer, row: str) -> str:
    """The items before a row."""
    return f"({_begin_of(writer, row)} + {row})"


def _first_row(writer: Writer) -> str:
    """Sets `r`, the row that holds the tile's first item."""
    if writer.unit.offsets is None:
        return "r = first_item // (width + 1)"
    return "r = row_of_item(begins, rows, first_item)"


def _share(writer: Writer, sums: Sums, items: int) -> None:
    """Leaves the partial sums of row `r` in the workspace; the last tile to come takes those of all, in order."""
    code = writer.code
    code.line(f"begin_tile = (begin + r) // {items}")
    code.line(f"end_tile = (finish + r) // {items}")
    code.line("side = (begin_tile == tile).to(tl.int64)")
    code.line("mine = work + (program.to(tl.int64) * 2 + side) * WORK")
    at = 0
    for t, target in enumerate(writer.unit.targets):
        code.line(f"put_partial(mine + {at}, sum{t}, {target.block})")
        at += target.block
    code.line(f"tl.store(mine + {at} + tl.arange(0, 1), count.to(tl.float32, bitcast=True))")
    if sums.has_divisor:
        code.line(f"tl.store(mine + {at + 1} + tl.arange(0, 1), divisor)")
    code.line("tl.debug_barrier()")
    code.line("first_program = program - (tile - begin_tile)")
    code.line("arrived = tl.atomic_add(arrivals + first_program, 1)")
    with code.block("if arrived == end_tile - begin_tile:"):
        _gather(code, writer, sums)
        code.line("tl.store(arrivals + first_program, 0)")
        code.line("is_done = r == r")


def _gather(code: Code, writer: Writer, sums: Sums) -> None:
    """The partial sums of all tiles of a row, added in the order of the tiles."""
    code.line("tl.debug_barrier()")
    sums.begin()
    code.line("k = begin_tile")
    with code.block("while k <= end_tile:"):
        code.line("side = (k == begin_tile).to(tl.int64)")
        code.line("theirs = work + ((first_program + (k - begin_tile)).to(tl.int64) * 2 + side) * WORK")
        at = 0
        for t, target in enumerate(writer.unit.targets):
            partial = f"partial(theirs + {at}, {target.block})"
            larger = f"tl.maximum(sum{t}, {partial}, propagate_nan=tl.PropagateNan.ALL)"
            code.line(f"sum{t} = {larger if sums.pooling == 'max' else f'sum{t} + {partial}'}")
            at += target.block
        word = f'tl.load(theirs + {at} + tl.arange(0, 1), cache_modifier=".cg")'
        code.line(f"count += {word}.to(tl.int32, bitcast=True)")
        if sums.has_divisor:
            code.line(f'divisor += tl.load(theirs + {at + 1} + tl.arange(0, 1), cache_modifier=".cg")')
        code.line("k += 1")
