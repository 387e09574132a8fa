"""The launches of a transform: their code, descriptors, and the programs of one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.backends.gpu import ops as _ops  # registers what each op writes
from colonnade.backends.gpu.emit import Memory
from colonnade.backends.gpu.source import module_text
from colonnade.backends.gpu.transform import units as u
from colonnade.backends.gpu.transform import words as w
from colonnade.backends.gpu.transform.plan import IDS, Plan, is_node, root_of
from colonnade.backends.gpu.transform.units import Unit

assert _ops.__all__

Words = npt.NDArray[np.int64]
OPTIONS: Mapping[str, Any] = {"num_warps": 4, "enable_fp_fusion": False}
"""How kernels are compiled. A product and a sum are rounded one after the other, as on a CPU."""
SIGNATURE: Mapping[str, str] = {**dict.fromkeys(("header", "units", "out", "work"), "*i64"), "first": "i32"}
"""Every kernel's arguments and their types."""
MOST_TILES = 1 << 27
SHARED = "header, out, work"


@dataclass(frozen=True)
class Launch:
    """Programs that do not wait for one another. kinds: number of each unit's structure.   places: of its words."""

    name: str
    units: tuple[Unit, ...]
    kinds: tuple[int, ...]
    places: tuple[int, ...]
    ends_scans: bool

    @cached_property
    def _bases(self) -> Words:
        return np.array([k | p << w.KIND_BITS for k, p in zip(self.kinds, self.places, strict=True)], np.int64)

    @cached_property
    def _items(self) -> Words:
        return np.array([x.extent.items for x in self.units], np.int64)

    def programs(self, extents: Words) -> Words:
        """A word a program, given how many places each unit has."""
        if not self.units:
            return np.full(int(self.ends_scans), (1 << w.KIND_BITS) - 1, np.int64)
        tiles = -(-extents // self._items)
        ends = np.cumsum(tiles)
        numbers = np.arange(int(ends[-1])) - np.repeat(ends - tiles, tiles)
        words: Words = np.repeat(self._bases, tiles) | numbers << (w.KIND_BITS + w.PLACE_BITS)
        return words


@dataclass(frozen=True)
class Launches:
    """All launches in order. words: of all descriptors, then the table of `put_begins`, which begins at `table`."""

    launches: tuple[Launch, ...]
    text: str
    words: tuple[int, ...]
    table: int
    num_checks: int


def make_launches(plan: Plan, memory: Memory, widths: Mapping[str, int | None]) -> Launches:
    """The launches of a plan. widths: as in `checks`."""
    named: list[tuple[str, list[Unit]]] = []
    for level in range(1, plan.depth + 1):
        nodes = plan.at_level(level)
        counted = [n for n in nodes if n.op.name in ("keep", "split")]
        named.append((f"mark{level}", [u.mark(plan, n, memory) for n in counted]))
        named.append((f"scan{level}", [u.scan(plan, n, memory) for n in nodes]))
        named.append((f"fill{level}", [x for n in nodes if n in plan.filled for x in u.fills(plan, n, memory)]))
    if not plan.depth:
        named.append(("scan0", []))
    checks = u.checks(plan, memory, dict(widths))
    written = [x for o in plan.outputs for x in u.outputs(plan, o, memory)]
    # Long programs first, so that short ones fill the end; those that check stand in front, for they are numbered.
    written.sort(key=lambda x: (x.extent.items, x.body))
    named.append(("write", [*checks, *written]))
    last = max(k for k, (name, _) in enumerate(named) if name.startswith("scan"))
    return _joined(plan, [(n, x, k == last) for k, (n, x) in enumerate(named) if x or k == last], len(checks))


def _joined(plan: Plan, named: Sequence[tuple[str, list[Unit], bool]], num_checks: int) -> Launches:
    bodies: dict[str, int] = {}
    used: set[str] = {"ragged"}
    words: list[int] = []
    launches = []
    for name, units, ends_scans in named:
        kinds, places = [], []
        for unit in units:
            kinds.append(bodies.setdefault(unit.body, len(bodies)))
            places.append(len(words))
            words += unit.words
            used |= unit.used
        launches.append(Launch(name, tuple(units), tuple(kinds), tuple(places), ends_scans))
    table = len(words)
    words += _begin_table(plan)
    structures = [f"@jit\ndef structure{k}(unit, tile, program, {SHARED}):\n{body}\n" for body, k in bodies.items()]
    kernels = [_kernel(x) for x in launches]
    text = module_text(sorted(used), "\n\n".join([*structures, *kernels]))
    return Launches(tuple(launches), text, tuple(words), table, num_checks)


def _begin_table(plan: Plan) -> list[int]:
    """Two words for each integer feature: see `put_begins`."""
    numbers = {e: k for k, e in enumerate(plan.values)}
    words: list[int] = []
    for output in plan.outputs:
        if output.kind == IDS:
            root = root_of(output.expr)
            words.append(w.FIRST_VALUE + w.VALUE_WORDS * numbers[root] + w.COUNT)
            words.append(2 * (numbers[root] - len(plan.fields)) if is_node(root) else -1)
    return words


def _kernel(launch: Launch) -> str:
    place = w.KIND_BITS + w.PLACE_BITS
    lines = [
        f"@kernel\ndef {launch.name}(header, units, out, work, first):",
        "    program = tl.program_id(0)",
        "    word = tl.load(header + first + program)",
        f"    kind = (word & {(1 << w.KIND_BITS) - 1}).to(tl.int32)",
        f"    unit = units + ((word >> {w.KIND_BITS}) & {(1 << w.PLACE_BITS) - 1})",
        f"    tile = (word >> {place}).to(tl.int32)",
    ]
    for kind in dict.fromkeys(launch.kinds):
        lines += [f"    if kind == {kind}:", f"        structure{kind}(unit, tile, program, {SHARED})"]
    if launch.ends_scans:
        lines += [
            "    tl.debug_barrier()",
            "    arrivals = work.to(tl.pointer_type(tl.int32))",
            "    if tl.atomic_add(arrivals, 1) == tl.num_programs(0) - 1:",
            f"        table = units + tl.load(header + {w.BEGIN_TABLE})",
            f"        num = tl.load(header + {w.NUM_BEGINS})",
            f"        put_begins(table, num, header, out, tl.load(header + {w.BEGINS}), {u.SCAN_ITEMS})",
            "        tl.store(arrivals, 0)",
        ]
    return "\n".join(lines)
