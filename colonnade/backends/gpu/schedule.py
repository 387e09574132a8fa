"""Which units share code, with which tiles, and how the programs of one launch are given to them.

The units whose tiles are cut from elements come first: a request's header says how many tiles each has. The programs of
every other structure follow, tiles outermost: neighbouring programs then write neighbouring slots.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from colonnade.backends.gpu.kinds.writer import BUFFERS, MOST_ROWS
from colonnade.backends.gpu.source import module_text
from colonnade.backends.gpu.structure import NUM_WARPS, Structure, Written
from colonnade.backends.gpu.units import LANES, NUMERIC, SPREAD, TILES, Unit
from colonnade.errors import FeedError

OPTIONS: Mapping[str, Any] = {"num_warps": NUM_WARPS, "enable_fp_fusion": False}
"""How the kernel is compiled. A product and a sum are rounded one after the other, as on a CPU."""
MOST = 1 << 31
"""Programs of a launch, and elements of a dense field that are counted in 32 bits, stay below."""


@dataclass(frozen=True)
class Group:
    """The units of one structure.

    first: word of the descriptors where the first unit begins.   width: elements a batch row that tiles are cut from,
    of the widest unit.
    """

    structure: Structure
    units: tuple[Unit, ...]
    first: int
    width: int

    @property
    def is_tiled(self) -> bool:
        """Whether the number of its tiles depends on a request's elements."""
        return self.structure.kind == TILES

    def programs(self, rows: int) -> int:
        """Programs for a number of batch rows, where that decides."""
        return len(self.units) * -(-rows * self.width // self.structure.items)


@dataclass(frozen=True)
class Schedule:
    """All groups, in the order of their programs. prefix: the header's word where the tiles before each unit stand."""

    groups: tuple[Group, ...]
    output_widths: tuple[int, ...]
    prefix: int

    @cached_property
    def tiled(self) -> tuple[Group, ...]:
        """The groups whose tiles are cut from elements."""
        return tuple(g for g in self.groups if g.is_tiled)

    @cached_property
    def plain(self) -> tuple[Group, ...]:
        """The others."""
        return tuple(g for g in self.groups if not g.is_tiled)

    @cached_property
    def work(self) -> int:
        """Values of one partial sum. Units: float32 values; each program of a tile has room for two."""
        return max([0, *(g.structure.work for g in self.tiled)])

    def numbers(self, rows: int, tiles: int) -> tuple[int, ...]:
        """The kernel's numbers for a number of batch rows and of tiles cut from elements; the last is the grid.

        Errors: FeedError where the kernel cannot count the elements or the programs.
        """
        found = [tiles, self.prefix, sum(len(g.units) for g in self.tiled)] if self.tiled else []
        end = 0
        for group in self.tiled:
            end += len(group.units)
            found += [group.first, end - len(group.units), end]
        end = tiles if self.tiled else 0
        for group in self.plain:
            end += group.programs(rows)
            found += [group.first, len(group.units), end]
        self._check(rows, end)
        return (*found, end)

    def _check(self, rows: int, programs: int) -> None:
        widest = max((u.width for g in self.plain for u in g.units), default=0)
        if max(rows * max(widest, 1) + MOST_ROWS, programs) >= MOST:
            raise FeedError(
                "a batch of more elements than one launch can count",
                got=f"{rows:,} rows of up to {widest:,} elements, {programs:,} programs",
                want=f"less than {MOST:,} elements of a dense field, and as many programs",
                help="send smaller batches",
            )

    @cached_property
    def text(self) -> str:
        """The kernel's module: equal for programs whose columns have equal structures."""
        used = frozenset().union(*(g.structure.used for g in self.groups))
        constants = [f"WORK = tl.constexpr({self.work})"] if self.tiled else []
        return module_text(sorted(used), "\n\n".join([*constants, *self._structures(), self._kernel()]))

    @property
    def strides(self) -> tuple[int, ...]:
        """What the kernel gets as each output's row stride."""
        return tuple(width // math.gcd(4, width) for width in self.output_widths)

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """The names of the kernel's arguments."""
        tiles = ("tiles", "prefix", "units_in_tiles") if self.tiled else ()
        groups = (f"{kind}{k}" for k in range(len(self.groups)) for kind in ("first", "num", "end"))
        return (*(a for a in self._shared if a != "rows"), *tiles, *groups)

    @cached_property
    def _shared(self) -> tuple[str, ...]:
        """Arguments of every structure."""
        outputs = (f"{kind}{k}" for k in range(len(self.output_widths)) for kind in ("out", "stride"))
        return ("header", "rows", "units", "status", "work", "arrivals", *BUFFERS.values(), "offsets", "text", *outputs)

    def _structures(self) -> list[str]:
        head = ", ".join(["unit", "tile", "program", *self._shared])
        return [f"@jit\ndef structure{k}({head}):\n{g.structure.body}\n" for k, g in enumerate(self.groups)]

    def _kernel(self) -> str:
        lines = [f"@kernel\ndef columns({', '.join(self.arguments)}):", "    pid = tl.program_id(0)"]
        lines.append("    rows = tl.load(header).to(tl.int32)")
        for k, width in enumerate(self.output_widths):
            # A product with a literal is how the compiler learns by what a row's address is a multiple.
            lines.append(f"    stride{k} = stride{k} * {math.gcd(4, width)}")
        if self.tiled:
            lines.append("    if pid < tiles:")
            lines.append("        which = unit_of(header + prefix, units_in_tiles, pid)")
            lines.append("        tile = pid - tl.load(header + prefix + which)")
        for k in range(len(self.tiled)):
            lines.append(f"        if (which >= num{k}) & (which < end{k}):")
            lines += self._call(k, f"(which - num{k})", "tile", "            ")
        begin = "tiles" if self.tiled else "0"
        for k in range(len(self.tiled), len(self.groups)):
            lines.append(f"    if (pid >= {begin}) & (pid < end{k}):")
            lines += self._call(k, f"((pid - {begin}) % num{k})", f"(pid - {begin}) // num{k}", "        ")
            begin = f"end{k}"
        return "\n".join(lines)

    def _call(self, k: int, which: str, tile: str, indent: str) -> list[str]:
        unit = f"units + first{k} + {which} * {self.groups[k].structure.num_words}"
        return [f"{indent}structure{k}({unit}, {tile}, pid, {', '.join(self._shared)})"]

    def __str__(self) -> str:
        lines = [f"{len(self.groups)} structures"]
        for k, group in enumerate(self.groups):
            targets = sum(len(u.targets) for u in group.units)
            tile = f"{group.structure.items} {'items' if group.is_tiled else 'rows'} a tile"
            lines.append(f"  {k}: {group.structure.kind}, {len(group.units)} units, {targets} lookups, {tile}")
        return "\n".join(lines)


def scheduled(
    units: Sequence[Unit], written: Sequence[Written], output_widths: Sequence[int], prefix: int
) -> tuple[Schedule, list[int]]:
    """The schedule, and the words of all descriptors in its order."""
    by_structure: dict[Structure, list[int]] = {}
    for at, made in enumerate(written):
        by_structure.setdefault(made.structure, []).append(at)
    groups: list[Group] = []
    words: list[int] = []
    for structure, members in sorted(by_structure.items(), key=lambda item: _cost(item[0])):
        width = max(units[i].width for i in members) if structure.kind in (SPREAD, NUMERIC) else 1
        groups.append(Group(structure, tuple(units[i] for i in members), len(words), width))
        words += [word for i in members for word in written[i].words]
    return Schedule(tuple(groups), tuple(output_widths), prefix), words


def _cost(structure: Structure) -> tuple[int, int, str]:
    """Long programs come first, so that the short ones fill the end."""
    rank = {TILES: 0, LANES: 1}.get(structure.kind, 2)
    return rank, -("fingerprint" in structure.used), structure.body
