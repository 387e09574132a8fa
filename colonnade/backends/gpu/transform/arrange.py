"""What the header of one batch says: where everything lies, and which programs each launch has.

Legend: B batch rows, F fields, V values (fields, then nodes).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colonnade.backends.gpu.transform import words as w
from colonnade.backends.gpu.transform.launches import MOST_TILES, Launch, Launches
from colonnade.backends.gpu.transform.plan import DENSE, FLOAT64, IDS, Plan, lists_truncated, root_of, rows_of
from colonnade.backends.gpu.transform.units import BAG_ENDS, ONE, ROW_ENDS, items_counted
from colonnade.core.expr import Apply, Expr, Field
from colonnade.errors import FeedError
from colonnade.ops.truncate import Truncate

Words = npt.NDArray[np.int64]
ITEMS = {"int32": 4, "int64": 8, "float32": 4, "float64": 8, "string": 8}
"""Bytes of a node's element; of a string: of its place."""
MOST = 1 << 31
"""Elements of a value are counted in 32 bits."""
GUESS = 2
"""How many times more than the mean says there is room for, at first, where only the data say how many come."""


@dataclass(frozen=True)
class Span:
    """Bytes of `out`."""

    begin: int
    count: int
    item: int


@dataclass(frozen=True)
class Arranged:
    """A batch's table, in which those of fields are still to be written, its programs, and the sizes of memory.

    grids: of each launch, the word where its programs begin, and their number.   counts: room for elements, [V].
    inner, outer: offsets of nodes.   values, weights: of outputs; ids lie in one span for all.
    """

    table: Words
    programs: Words
    grids: tuple[tuple[int, int], ...]
    out_bytes: int
    work_bytes: int
    counts: tuple[int, ...]
    flags: Span
    ids: Span
    inner: Mapping[int, Span]
    outer: Mapping[int, Span]
    values: Mapping[int, Span]
    weights: Mapping[int, Span]


class _Room:
    """Bytes that are given out one after the other."""

    def __init__(self, used: int) -> None:
        self.used = used

    def take(self, count: int, item: int) -> Span:
        begin = -(-self.used // 16) * 16
        self.used = begin + count * item
        return Span(begin, count, item)


class Arranger:
    """Arranges batches of one plan."""

    def __init__(self, plan: Plan, launches: Launches) -> None:
        self.plan = plan
        self.launches = launches
        self._numbers = {e: k for k, e in enumerate(plan.values)}
        read = {*(o.expr for o in plan.outputs), *(a for n in plan.nodes for a in n.args)}
        self._roots = {e: self._numbers[root_of(e)] for e in read}
        self._output_roots = np.array([self._roots[o.expr] for o in plan.outputs], np.int64)
        self._is_integer = np.array([o.kind == IDS for o in plan.outputs], bool)
        self._others = [(k, o) for k, o in enumerate(plan.outputs) if o.kind != IDS or o.own_weights]
        self._widths = {k: plan.traits(o.expr).width or 0 for k, o in self._others}
        self._first_output = w.FIRST_VALUE + w.VALUE_WORDS * len(self._numbers)
        self._end = self._first_output + w.OUTPUT_WORDS * len(plan.outputs)
        self._integers = int(self._is_integer.sum())
        self._extents = [self._extent_places(x) for x in launches.launches]

    def _extent_places(self, launch: Launch) -> Words:
        """Of each unit, the place of its number of places in `_quantities`."""
        num = len(self._numbers)
        places = []
        for unit in launch.units:
            extent = unit.extent
            at = {ROW_ENDS: 2 * num, ONE: 2 * num + 1}.get(extent.what)
            if at is None:
                assert extent.value is not None
                at = self._numbers[extent.value] + (num if extent.what == BAG_ENDS else 0)
            places.append(at)
        return np.array(places, np.int64)

    def arrange(self, counts: Sequence[int], bags: Sequence[int], rows: int, known: Mapping[Expr, int]) -> Arranged:
        """The header for fields of so many elements, and rows or lists.

        known: how many elements nodes had that only the data decide.   Errors: FeedError on too many elements.
        """
        sizes = _Sizes(self.plan, self._numbers, self._roots, [*counts], [*bags], rows, known)
        if max([rows, *sizes.counts, *sizes.bags]) >= MOST - (1 << 12):
            raise _too_many(rows)
        words = np.zeros(self._end, np.int64)
        table = words[w.FIRST_VALUE : self._first_output].reshape(-1, w.VALUE_WORDS)
        num = len(self.plan.nodes)
        out, work = _Room(8 * (2 * num + self._integers + 1)), _Room(w.ARRIVALS + 4 * num)
        programs, quantities = [], np.array([*sizes.counts, *(b + 1 for b in sizes.bags), rows + 1, 1], np.int64)
        for launch, places in zip(self.launches.launches, self._extents, strict=True):
            programs.append(launch.programs(quantities[places]))
        flags = out.take(self._num_flags(quantities), 8)
        inner: dict[int, Span] = {}
        outer: dict[int, Span] = {}
        for node in self.plan.nodes:
            self._node(node, sizes, table[self._numbers[node]], out, work, (inner, outer))
        values, weights, ids = self._outputs(sizes, words, out)
        words[w.ROWS], words[w.IDS], words[w.FLAGS] = rows, ids.begin, flags.begin // 8
        ends = np.cumsum([len(self.launches.words), *map(len, programs)]).tolist()
        grids = tuple(zip(ends[:-1], map(len, programs), strict=True))
        if max(n for _, n in grids) >= MOST_TILES:
            raise _too_many(rows)
        return Arranged(
            words, np.concatenate(programs), grids, out.used, work.used, tuple(sizes.counts),
            flags, ids, inner, outer, values, weights,
        )  # fmt: skip

    def header(self, arranged: Arranged, fields: Words) -> Words:
        """What goes to the device, given the words of the fields, [F, VALUE_WORDS]."""
        arranged.table[w.FIRST_VALUE : w.FIRST_VALUE + fields.size] = fields.reshape(-1)
        words = self.launches.words.copy()
        words[self.launches.references] = arranged.table[words[self.launches.references]]
        return np.concatenate([words, arranged.programs])

    def _num_flags(self, quantities: Words) -> int:
        """Programs that check offsets: the first of the last launch."""
        num = self.launches.num_checks
        return int(self.launches.launches[-1].tiles(quantities[self._extents[-1]])[:num].sum())

    def _node(
        self, node: Apply, sizes: _Sizes, row: Words, out: _Room, work: _Room, spans: tuple[dict[int, Span], ...]
    ) -> None:
        number, plan = self._numbers[node], self.plan
        count, bags = sizes.counts[number], sizes.bags[number]
        spans[0][number] = out.take(bags + 1, 8)
        row[w.COUNT], row[w.INNER], row[w.BAGS] = count, spans[0][number].begin, bags
        if lists_truncated(node, plan.traits):
            spans[1][number] = out.take(sizes.rows + 1, 8)
            row[w.OUTER] = spans[1][number].begin
        traits = plan.traits(node)
        if node in plan.filled:
            row[w.DATA] = work.take(count, ITEMS[traits.dtype]).begin
            if traits.dtype == "string":
                row[w.TEXT] = work.take(count, 8).begin
            if traits.weighted:
                row[w.WEIGHTS] = work.take(count, 4).begin
        if node.op.name in ("keep", "split"):
            elements = sizes.counts[self._roots[node.args[0]]]
            row[w.MARKS] = work.take(elements, 4).begin
            # Of no elements, too, one program says how many come of its tile.
            row[w.TILES] = work.take(max(1, -(-elements // items_counted(plan, node))), 4).begin
            return
        if node.op.name != "cross":
            row[w.SHIFTS] = work.take(bags * (len(node.args) if node.op.name == "combine" else 1), 4).begin
        if node.op.name != "combine":
            row[w.STARTS] = work.take(bags, 4).begin

    def _outputs(self, sizes: _Sizes, words: Words, out: _Room) -> tuple[dict[int, Span], dict[int, Span], Span]:
        counts = np.array(sizes.counts, np.int64)[self._output_roots]
        ids = out.take(int(counts[self._is_integer].sum()), 8)
        values: dict[int, Span] = {}
        weights: dict[int, Span] = {}
        table = words[self._first_output :].reshape(-1, w.OUTPUT_WORDS)
        for k, output in self._others:
            count = int(counts[k])
            if output.kind != IDS:
                most = max(count, sizes.rows * self._widths[k]) if output.kind == DENSE else count
                values[k] = out.take(most, 8 if output.kind == FLOAT64 else 4)
                table[k, w.BEGIN] = values[k].begin
            if output.own_weights:
                weights[k] = out.take(count, 4)
                table[k, w.FACTORS] = weights[k].begin
        return values, weights, ids


def _too_many(rows: int) -> FeedError:
    return FeedError(
        "a batch of more elements than one launch can count",
        got=f"{rows:,} rows",
        want=f"less than {MOST:,} elements of each feature",
        help="send smaller batches",
    )


class _Sizes:
    """The most elements, and rows or lists, that each value can have."""

    def __init__(
        self, plan: Plan, numbers: Mapping[Expr, int], roots: Mapping[Expr, int], counts: list[int],
        bags: list[int], rows: int, known: Mapping[Expr, int],
    ) -> None:  # fmt: skip
        self.counts, self.bags, self.rows = counts, bags, rows
        self._plan, self._numbers, self._roots, self._known = plan, numbers, roots, known
        for node in plan.nodes:
            self.bags.append(self._bags(node))
            self.counts.append(self._count(node))

    def _bags(self, node: Apply) -> int:
        lists = rows_of(node)
        if isinstance(lists, Field):
            return self.bags[self._numbers[lists]]
        assert isinstance(lists, Apply)
        if lists is not node:
            return self.bags[self._numbers[lists]]
        if not lists_truncated(node, self._plan.traits):
            return self.rows
        have = self.bags[self._roots[node.args[0]]]
        most = self.rows * int(node.op.length)
        return most if node.op.padded else min(have, most)

    def _count(self, node: Apply) -> int:
        name, op = node.op.name, node.op
        counts = [self.counts[self._roots[a]] for a in node.args]
        if name == "keep":
            return counts[0]
        if isinstance(op, Truncate):
            if self._plan.traits(node).levels == 2:
                return counts[0]
            return self.rows * op.length if op.padded else min(counts[0], self.rows * op.length)
        if name == "combine":
            return sum(counts)
        width = self._plan.traits(node).width
        if width is not None:
            return self.rows * width
        mean = math.prod(counts) // max(self.rows, 1) ** (len(counts) - 1) if name == "cross" else GUESS * counts[0]
        return max(GUESS * mean + self.rows, self._known.get(node, 0))
