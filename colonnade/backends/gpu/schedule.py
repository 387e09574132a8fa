"""Which units share code, with which tiles, and how programs of one launch are given to them.

The programs of a structure follow each other, tiles outermost: neighbouring programs then write neighbouring slots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from colonnade.backends.gpu.source import module_text
from colonnade.backends.gpu.structure import BUFFERS, Structure, Written
from colonnade.backends.gpu.units import NUMERIC, POOLED, SPREAD, Unit

NUM_WARPS = 2


@dataclass(frozen=True)
class Group:
    """The units of one structure. items: elements a batch row that tiles are cut from, of the widest unit.

    first: word of the descriptors where the first unit begins.
    """

    structure: Structure
    kind: str
    units: tuple[Unit, ...]
    first: int
    items: int

    def programs(self, rows: int) -> int:
        """Programs for a number of batch rows."""
        return len(self.units) * -(-rows * self.items // self.structure.rows)


@dataclass(frozen=True)
class Schedule:
    """All groups, in the order of their programs."""

    groups: tuple[Group, ...]
    output_widths: tuple[int, ...]

    def ends(self, rows: int) -> tuple[int, ...]:
        """Where each group's programs end."""
        ends, end = [], 0
        for group in self.groups:
            end += group.programs(rows)
            ends.append(end)
        return tuple(ends)

    @cached_property
    def text(self) -> str:
        """The kernel's module: equal for programs whose columns have equal structures."""
        used = frozenset().union(*(g.structure.used for g in self.groups))
        return module_text(sorted(used), "\n\n".join([*self._structures(), self._kernel()]))

    @property
    def strides(self) -> tuple[int, ...]:
        """What the kernel gets as each output's row stride."""
        return tuple(width // math.gcd(4, width) for width in self.output_widths)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the kernel's arguments."""
        groups = (f"{kind}{k}" for k in range(len(self.groups)) for kind in ("first", "num", "end"))
        return ("header", *(a for a in (*_SHARED, *self._outputs()) if a != "rows"), *groups)

    def _outputs(self) -> list[str]:
        return [f"{kind}{k}" for k in range(len(self.output_widths)) for kind in ("out", "stride")]

    def _structures(self) -> list[str]:
        arguments = ", ".join([*_SHARED, *self._outputs()])
        return [
            f"@jit\ndef structure{k}(pid, first, num, {arguments}):\n"
            f"    unit = units + first + (pid % num) * {group.structure.num_words}\n"
            f"    tile = pid // num\n{group.structure.body}\n"
            for k, group in enumerate(self.groups)
        ]

    def _kernel(self) -> str:
        shared = [*_SHARED, *self._outputs()]
        lines = [f"@kernel\ndef columns({', '.join(self.arguments)}):", "    pid = tl.program_id(0)"]
        lines.append("    rows = tl.load(header).to(tl.int32)")
        for k, width in enumerate(self.output_widths):
            # A product with a literal is how the compiler learns by what a row's address is a multiple.
            lines.append(f"    stride{k} = stride{k} * {math.gcd(4, width)}")
        begin = "0"
        for k in range(len(self.groups)):
            lines.append(f"    if (pid >= {begin}) & (pid < end{k}):")
            lines.append(f"        structure{k}(pid - {begin}, first{k}, num{k}, {', '.join(shared)})")
            begin = f"end{k}"
        return "\n".join(lines)

    def __str__(self) -> str:
        lines = [f"{len(self.groups)} structures"]
        for k, group in enumerate(self.groups):
            targets = sum(len(u.targets) for u in group.units)
            tile = f"{group.structure.rows} rows a tile"
            lines.append(f"  {k}: {group.kind}, {len(group.units)} units, {targets} lookups, {tile}")
        return "\n".join(lines)


_SHARED = ("rows", "units", "status", *BUFFERS.values(), "offsets", "text")
"""Arguments of every structure."""


def scheduled(
    units: Sequence[Unit], written: Sequence[Written], output_widths: Sequence[int]
) -> tuple[Schedule, list[int]]:
    """The schedule, and the words of all descriptors in its order."""
    by_structure: dict[tuple[str, Structure], list[int]] = {}
    for at, (unit, made) in enumerate(zip(units, written, strict=True)):
        by_structure.setdefault((unit.kind, made.structure), []).append(at)
    groups: list[Group] = []
    words: list[int] = []
    for (kind, structure), members in sorted(by_structure.items(), key=lambda item: _cost(*item[0])):
        items = max(units[i].width for i in members) if kind in (SPREAD, NUMERIC) else 1
        groups.append(Group(structure, kind, tuple(units[i] for i in members), len(words), items))
        words += [word for i in members for word in written[i].words]
    return Schedule(tuple(groups), tuple(output_widths)), words


def _cost(kind: str, structure: Structure) -> tuple[int, int, str]:
    """Long programs come first, so that the short ones fill the end."""
    return -(kind == POOLED), -("fingerprint" in structure.used), structure.body
