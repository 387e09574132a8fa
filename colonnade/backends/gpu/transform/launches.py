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
from colonnade.errors import FeatureError

assert _ops.__all__

Words = npt.NDArray[np.int64]
OPTIONS: Mapping[str, Any] = {"num_warps": 4, "enable_fp_fusion": False}
"""How kernels are compiled. A product and a sum are rounded one after the other, as on a CPU."""
SIGNATURE: Mapping[str, str] = {**dict.fromkeys(("header", "out", "work"), "*i64"), "first": "i32"}
"""Every kernel's arguments and their types."""
MOST_TILES = 1 << 27
NO_KIND = (1 << w.KIND_BITS) - 1
"""The number of no structure."""
SHARED = "out, work"


@dataclass(frozen=True)
class Launch:
    """Programs that do not wait for one another. kinds: number of each unit's structure.   places: of its words.

    scans: whether every unit has a program, even for no elements.   ends_scans: whether all is counted after it.
    """

    name: str
    units: tuple[Unit, ...]
    kinds: tuple[int, ...]
    places: tuple[int, ...]
    scans: bool
    ends_scans: bool

    @cached_property
    def _bases(self) -> Words:
        return np.array([k | p << w.KIND_BITS for k, p in zip(self.kinds, self.places, strict=True)], np.int64)

    @cached_property
    def _items(self) -> Words:
        return np.array([x.extent.items for x in self.units], np.int64)

    def tiles(self, extents: Words) -> Words:
        """The programs of each unit, given how many places it has."""
        found: Words = -(-(np.maximum(extents, 1) if self.scans else extents) // self._items)
        return found

    def programs(self, extents: Words) -> Words:
        """A word a program, given how many places each unit has."""
        if not self.units:
            return np.full(int(self.ends_scans), NO_KIND, np.int64)
        tiles = self.tiles(extents)
        ends = np.cumsum(tiles)
        numbers = np.arange(int(ends[-1])) - np.repeat(ends - tiles, tiles)
        words: Words = np.repeat(self._bases, tiles) | numbers << (w.KIND_BITS + w.PLACE_BITS)
        return words


@dataclass(frozen=True)
class Launches:
    """All launches in order. words: what `put_begins` is called with, all descriptors, then its table.

    references: those of the words that are places of words of a batch's table.   num_checks: units of the last launch
    that check offsets, its first.
    """

    launches: tuple[Launch, ...]
    text: str
    words: Words
    references: Words
    num_checks: int


def make_launches(plan: Plan, memory: Memory, widths: Mapping[str, int | None]) -> Launches:
    """The launches of a plan. widths: as in `checks`.   Errors: FeatureError on too many structures."""
    named: list[tuple[str, list[Unit]]] = []
    for level in range(1, plan.depth + 1):
        nodes = plan.at_level(level)
        named.append((f"scan{level}", [u.scan(plan, n, memory) for n in nodes]))
        named.append((f"fill{level}", [x for n in nodes if n in plan.filled for x in u.fills(plan, n, memory)]))
    if not plan.depth:
        named.append(("scan0", []))
    checks = u.checks(plan, memory, dict(widths))
    written = [x for o in plan.outputs for x in u.outputs(plan, o, memory)]
    # Long programs first, so that short ones fill the end; those that check stand in front, for they are numbered.
    written.sort(key=lambda x: (x.extent.items, x.body))
    named.append(("write", [*checks, *written]))
    return _joined(plan, [(name, units) for name, units in named if units or name == "scan0"], len(checks))


def _joined(plan: Plan, named: Sequence[tuple[str, list[Unit]]], num_checks: int) -> Launches:
    last = max(k for k, (name, _) in enumerate(named) if name.startswith("scan"))
    bodies: dict[str, int] = {}
    used: set[str] = {"ragged"}
    begins = sum(o.kind == IDS for o in plan.outputs), 2 * len(plan.nodes)
    words = [0, *begins]
    references: list[int] = []
    launches = []
    for k, (name, units) in enumerate(named):
        kinds, places = [], []
        for unit in units:
            kinds.append(bodies.setdefault(unit.body, len(bodies)))
            places.append(len(words))
            references += [len(words) + r for r in unit.references]
            words += unit.words
            used |= unit.used
        scans = name.startswith("scan")
        launches.append(Launch(name, tuple(units), tuple(kinds), tuple(places), scans, k == last))
    words[0] = len(words)
    for most, place in _begin_table(plan):
        references.append(len(words))
        words += [most, place]
    if len(bodies) > NO_KIND or len(words) > 1 << w.PLACE_BITS:
        raise FeatureError(
            "features of more structures than a launch on the gpu can tell apart",
            got=f"{len(bodies):,} structures, {len(words):,} words that describe them",
            want=f"{NO_KIND:,} and {1 << w.PLACE_BITS:,} at most",
            help="transform them on the cpu, by FusedTransform",
        )
    structures = [f"@jit\ndef structure{k}(unit, tile, program, {SHARED}):\n{body}\n" for body, k in bodies.items()]
    text = module_text(sorted(used), "\n\n".join([*structures, *(_kernel(x) for x in launches)]))
    return Launches(tuple(launches), text, np.array(words, np.int64), np.array(references, np.int64), num_checks)


def _begin_table(plan: Plan) -> list[tuple[int, int]]:
    """Of each integer feature, the place of its number of elements, at most, in the table, and that in `out` or -1."""
    numbers = {e: k for k, e in enumerate(plan.values)}
    found = []
    for output in plan.outputs:
        if output.kind == IDS:
            root = root_of(output.expr)
            most = w.FIRST_VALUE + w.VALUE_WORDS * numbers[root] + w.COUNT
            found.append((most, 2 * (numbers[root] - len(plan.fields)) if is_node(root) else -1))
    return found


def _kernel(launch: Launch) -> str:
    place = w.KIND_BITS + w.PLACE_BITS
    lines = [
        f"@kernel\ndef {launch.name}(header, out, work, first):",
        "    program = tl.program_id(0)",
        "    word = tl.load(header + first + program)",
        f"    kind = (word & {(1 << w.KIND_BITS) - 1}).to(tl.int32)",
        f"    unit = header + ((word >> {w.KIND_BITS}) & {(1 << w.PLACE_BITS) - 1})",
        f"    tile = (word >> {place}).to(tl.int32)",
    ]
    for kind in dict.fromkeys(launch.kinds):
        lines += [f"    if kind == {kind}:", f"        structure{kind}(unit, tile, program, {SHARED})"]
    if launch.ends_scans:
        lines += [
            "    tl.debug_barrier()",
            "    arrivals = work.to(tl.pointer_type(tl.int32))",
            "    if tl.atomic_add(arrivals, 1) == tl.num_programs(0) - 1:",
            "        table = header + tl.load(header)",
            f"        put_begins(table, tl.load(header + 1), out, tl.load(header + 2), {u.SCAN_ITEMS})",
            "        tl.store(arrivals, 0)",
        ]
    return "\n".join(lines)
