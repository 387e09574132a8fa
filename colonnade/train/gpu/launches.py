"""Kernels written for a plan: one launch for many groups of segments, a branch each.

The text of a branch is a call of a device function of `kernels/pool.py` or `kernels/spread.py` with the group's own
constants; what differs from batch to batch are arguments, numbered by the group.

Legend: U rows of a matrix; D embedding_dim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import triton

from colonnade.train.gpu.module import WARP, Kernels

FILES = ("pool", "spread")
TEXTS_KEPT = 1024
WIDEST = 128
"""Values of a row that a program holds; of a wider row there are several units."""
NEAR = 64
"""Elements of a bag among which repeated ones are merged."""
REPEATS = 16
"""One sample in so many is of a row of several, where merging pays."""


@dataclass(frozen=True)
class Tuning:
    """How work is cut; as it was fastest on an H200.

    values: of a tile of short bags.   short: the longest of these.   piece: values of a piece, at least; more in large
    batches.   least_piece: elements.   step, programs: values that one step of a piece loads, and programs that share
    the pieces on a multiprocessor; back_step, back_programs: on the way back.   warps: of a program of short bags.
    samples: of the elements.   hot: samples of a hot row.   copies: of a hot row.   most_hot: rows.   top: of these,
    whose elements are added up within a piece.   merged: values of a row from which on elements of any row are.
    wide: whether four values of a piece are added at once, where a device can.
    """

    values: int = 512
    short: int = 8
    piece: int = 8192
    least_piece: int = 32
    step: int = 512
    programs: int = 32
    back_step: int = 256
    back_programs: int = 48
    warps: int = 1
    samples: int = 1024
    hot: int = 4
    copies: int = 64
    most_hot: int = 64
    top: int = 8
    merged: int = 64
    wide: bool = True


@dataclass(frozen=True)
class Branch:
    """A group as its kernels know it. first, units: which of the units.   row: numbers from row to row."""

    first: int
    units: int
    dim: int
    row: int
    align: int
    weighted: bool
    divided: bool
    max: bool
    unpooled: bool

    @property
    def block(self) -> int:
        """Values of a row that a program holds."""
        return block_of(self.dim)

    def tiles(self, count: int, tuning: Tuning) -> int:
        """Programs for `count` short bags of each unit."""
        return -(-count // bags_of(self.block, tuning)) * self.units

    def constants(self, *names: str, **more: Any) -> str:
        """Constants as arguments of a call."""
        known = {
            "FIRST": self.first, "UNITS": self.units, "DIM": self.dim, "ROW": self.row, "BLOCK": self.block,
            "ALIGN": self.align, "WEIGHTED": self.weighted, "DIVIDED": self.divided, "MAX": self.max,
            "UNPOOLED": self.unpooled, **more,
        }  # fmt: skip
        return ", ".join(f"{name}={known[name]}" for name in (*names, *more))


def block_of(dim: int) -> int:
    """Values of a row that a program holds."""
    return int(min(WIDEST, triton.next_power_of_2(dim)))


def bags_of(block: int, tuning: Tuning) -> int:
    """R, bags of a tile."""
    return max(1, tuning.values // block)


def step_of(block: int, values: int) -> int:
    """E, elements of a step of so many values."""
    return max(1, values // block)


@lru_cache(maxsize=TEXTS_KEPT)
def kernels_of(write: Callable[..., str], branches: tuple[Branch, ...], tuning: Tuning, *more: Any) -> Any:
    """The kernels that `write` writes, by whether they are interpreted."""
    text = write(branches, tuning, *more)
    return lru_cache(lambda interpret: Kernels(FILES, text, interpret=interpret))


def write_pool(branches: Sequence[Branch], tuning: Tuning) -> str:
    """`bags` and `pieces`: outputs."""
    pooled = [g for g, x in enumerate(branches) if not x.unpooled]
    wide = max((x.block for x in branches), default=1)
    tiles = [
        f"pool_bags_of(program{_less(g)}, rows{g}, offsets{g}, inverse, weights, out{g}, units, queue, counters, "
        f"count{g}, {_piece(x, tuning)}, R={bags_of(x.block, tuning)}, SHORT={tuning.short}, "
        f"{x.constants('FIRST', 'UNITS', 'DIM', 'ROW', 'BLOCK', 'ALIGN', 'WEIGHTED', 'MAX', 'DIVIDED', 'UNPOOLED')})"
        for g, x in enumerate(branches)
    ]
    pieces = {
        g: f"pool_piece_of(entry, rows{g}, inverse, weights, out{g}, units, counters, partials, count{g}, "
        f"{_piece(x, tuning)}, E={step_of(x.block, tuning.step)}, WIDE={wide}, "
        f"{x.constants('DIM', 'ROW', 'BLOCK', 'ALIGN', 'WEIGHTED', 'MAX', 'DIVIDED')})"
        for g, x in ((g, branches[g]) for g in pooled)
    }
    own = _numbered(branches, "rows", "offsets", "out", "count")
    common = "inverse, weights, units, queue, counters"
    return _bags(f"{common}, step, {own}, {_numbered(branches, 'end')}", tiles) + _pieces(
        f"{common}, partials, step, num, {own}", pieces
    )


def write_spread(branches: Sequence[Branch], tuning: Tuning, is_hot: bool, adds_four: bool) -> str:
    """`bags` and `pieces`: gradients of rows. is_hot: some rows may be.   adds_four: the device adds four at once."""
    hot = {"COPIES": tuning.copies if is_hot else 0, "MOST": tuning.most_hot}
    tiles = [
        f"spread_bags_of(program{_less(g)}, given{g}, offsets{g}, inverse, weights, grads{g}, hot{g}, found, units, "
        f"queue, counters, count{g}, {_piece(x, tuning)}, first{g}, "
        f"R={bags_of(x.block, tuning)}, SHORT={tuning.short}, "
        f"{x.constants('FIRST', 'UNITS', 'DIM', 'BLOCK', 'ALIGN', 'WEIGHTED', 'DIVIDED', 'UNPOOLED', **hot)})"
        for g, x in enumerate(branches)
    ]
    pieces = {
        g: f"spread_piece_of(entry, given{g}, inverse, weights, grads{g}, hot{g}, found, units, count{g}, "
        f"{_piece(x, tuning)}, first{g}, {_steps_back(x, tuning, is_hot)}, "
        f"WIDE={_wide(x, adds_four, tuning.back_step)}, "
        f"{x.constants('DIM', 'BLOCK', 'ALIGN', 'WEIGHTED', 'DIVIDED', **hot)})"
        for g, x in enumerate(branches)
        if not x.unpooled
    }
    own = _numbered(branches, "given", "offsets", "grads", "hot", "count", "first")
    common = "inverse, weights, units, queue, counters, found"
    return _bags(f"{common}, step, {own}, {_numbered(branches, 'end')}", tiles) + _pieces(
        f"{common}, step, num, {own}", pieces
    )


def write_add_copies(dims: Sequence[int], tuning: Tuning) -> str:
    """`add_copies`: those of hot rows, added to the gradients of their rows; a program a hot row."""
    own = ", ".join(f"grads{m}, first{m}" for m in range(len(dims)))
    lines = [f"@kernel\ndef add_copies(listed, {own}):", "    h = tl.program_id(0)"]
    lines += ["    key = tl.load(listed + h) - 1", "    if key >= 0:"]
    for m, dim in enumerate(dims):
        lines.append(f"        if (key >> 32) == {m}:")
        call = f"add_copies_of(h, key & 0xFFFFFFFF, grads{m}, first{m}, DIM={dim}, BLOCK={block_of(dim)}"
        lines.append(f"            {call}, COPIES={tuning.copies}, MOST={tuning.most_hot})")
    return "\n".join(lines) + "\n"


def _piece(branch: Branch, tuning: Tuning) -> str:
    """Elements of a piece, given `step`, values of one."""
    return f"tl.maximum({tuning.least_piece}, step // {branch.block})"


def _steps_back(branch: Branch, tuning: Tuning, is_hot: bool) -> str:
    step = step_of(branch.block, tuning.back_step)
    repeats = tuning.samples // REPEATS if is_hot and branch.block >= tuning.merged else 0
    return f"E={step}, NEAR={max(NEAR, step)}, REPEATS={repeats}, TOP={tuning.top if is_hot and not repeats else 0}"


def _wide(branch: Branch, adds_four: bool, values: int) -> int:
    """Values that are added at once by a warp that holds so many: each thread must have some of its own, for what
    several threads hold they would each add.
    """
    held = max(1, values // branch.block) * branch.block
    return 4 if adds_four and branch.dim % 4 == 0 and held >= 4 * WARP else 1


def _less(group: int) -> str:
    return f" - end{group - 1}" if group else ""


def _numbered(branches: Sequence[Branch], *names: str) -> str:
    return ", ".join(f"{name}{g}" for g in range(len(branches)) for name in names)


def _bags(arguments: str, tiles: Sequence[str]) -> str:
    lines = [f"@kernel\ndef bags({arguments}):", "    program = tl.program_id(0)"]
    for g, call in enumerate(tiles):
        after = f"(program >= end{g - 1}) & " if g else ""
        lines += [f"    if {after}(program < end{g}):", f"        {call}"]
    return "\n".join(lines) + "\n\n\n"


def _pieces(arguments: str, pieces: dict[int, str]) -> str:
    """step: values of a piece.   num: programs that share the work."""
    if not pieces:
        return ""
    lines = [f"@kernel\ndef pieces({arguments}):", "    work = tl.load(counters)", "    i = tl.program_id(0)"]
    lines += ["    while i < work:", "        entry = queue + i.to(tl.int64) * ENTRY"]
    if len(pieces) > 1:
        lines.append("        group = tl.load(units + tl.load(entry).to(tl.int64) * 8 + 6)")
    for g, call in pieces.items():
        branch = f"        if group == {g}:\n    " if len(pieces) > 1 else ""
        lines.append(f"{branch}        {call}")
    return "\n".join([*lines, "        i += num"]) + "\n"
