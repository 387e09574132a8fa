"""Random graphs of feature columns: no pass changes an answer, turns an error into one, or leaves an unsound graph; and
what is compiled of them answers the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colonnade.backends.cpu import CpuBackend
from colonnade.backends.reference import ReferenceBackend
from colonnade.core.consts import Const
from colonnade.errors import ColonnadeError, UnsupportedOps
from colonnade.executable import Executable
from colonnade.ir.graph import Graph, Node
from colonnade.ir.interpret import interpret
from colonnade.ir.verify import verify
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.as_string import AsString
from colonnade.ops.graph.bucketize import Bucketize
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.pack import Pack
from colonnade.ops.graph.prod import Prod
from colonnade.ops.graph.range import Range
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.slice import Slice
from colonnade.ops.graph.sparse_fill_empty_rows import SparseFillEmptyRows
from colonnade.ops.graph.sparse_reshape import SparseReshape
from colonnade.ops.graph.sparse_segment_reduce import SparseSegmentReduce
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.string_split import StringSplit
from colonnade.ops.graph.string_to_hash_bucket import StringToHashBucket
from colonnade.ops.graph.tile import Tile
from colonnade.ops.graph.transpose import Transpose
from colonnade.ops.graph.unique import Unique
from colonnade.ops.graph.where import Where
from colonnade.ops.graph.zeros_like import ZerosLike
from colonnade.ops.op import Value
from colonnade.passes.assemble import assemble
from colonnade.passes.base import run
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing.check_facts import check_facts
from colonnade.testing.graphs import Builder, equal

COLUMN = dict(begin_mask=1, end_mask=1, shrink_axis_mask=2)
ELEMENT = dict(shrink_axis_mask=1)
WORDS = (b"", b"a", b"bb", b"a;b", b";", b"c;;d", b"x;y;z;x")
FLOATS = (float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.0, 4.999, 5.0, 7.5, 10.0, 1e30)
Feed = dict[str, Value]


@dataclass
class Sparse:
    """Ids as a sparse matrix, and the most that an id can be."""

    indices: Node
    values: Node
    shape: Node
    most: int


@dataclass
class Drawn:
    """A graph under construction: `fetch` are intermediate nodes that are outputs too, where `fetches` says so."""

    draw: Any
    b: Builder = field(default_factory=Builder)
    inputs: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    fetch: list[Node] = field(default_factory=list)
    fetches: bool = False

    def flip(self) -> bool:
        return bool(self.draw(st.booleans()))

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def input(self, dtype: str, *width: int) -> Node:
        """A new input, or one that is there already."""
        same = [name for name, kind in self.inputs.items() if kind == (dtype, width)]
        if same and self.flip():
            return self.b.graph.inputs[self.pick(*same)]
        name = f"x{len(self.inputs)}"
        self.inputs[name] = (dtype, width)
        return self.b.input(name, dtype, "B", *width)

    # -- sparse ids ------------------------------------------------------------------------------------------------
    def sparse(self) -> Sparse:
        found = getattr(self, self.pick("_bucketized", "_integers", "_strings", "_split"))()
        assert isinstance(found, Sparse)
        if self.fetches and self.flip():
            self.fetch.extend(self.pick([found.values], [found.indices], [found.values, found.shape]))
        return found

    def _bucketized(self) -> Sparse:
        b, width = self.b, self.pick(1, 1, 1, 1, 2, 3)
        bounds = np.array(self.pick([0.0, 5.0, 10.0], [5.0], [0.0, 0.0, 7.0]), np.float32)
        buckets = b.add(Bucketize(Const(bounds)), self.input("float32", width))
        count = b.add(StridedSlice(**ELEMENT), b.add(Shape("int32"), buckets), [0], [1], [1])
        rows = b.add(ExpandDims(), b.add(Range(), 0, count, 1), 1)
        rows = b.add(Reshape(), b.add(Tile(), rows, [1, width]), [-1])
        columns = b.add(Tile(), b.add(Range(), 0, width, 1), b.add(Pack(axis=0), count))
        flat = b.add(Reshape(), buckets, [-1])
        values = b.add(Add(), flat, b.add(Mul(), columns, np.array(len(bounds) + 1, np.int32)))
        indices = b.add(Transpose(), b.add(Pack(axis=0), rows, columns), [1, 0])
        shape = b.add(Pack(axis=0), count, np.array(width, np.int32))
        return Sparse(
            b.add(Cast("int64"), indices),
            b.add(Cast("int64"), values),
            b.add(Cast("int64"), shape),
            (len(bounds) + 1) * width - 1,
        )

    def _kept(self, x: Node, missing: Any) -> tuple[Node, Node, Node]:
        b = self.b
        where = b.add(Where(), b.add(Compare("ne"), x, missing))
        return where, b.add(GatherNd(), x, where), b.add(Cast("int64"), b.add(Shape("int32"), x))

    def _integers(self) -> Sparse:
        dtype = self.pick("int32", "int64")
        indices, values, shape = self._kept(self.input(dtype, self.pick(1, 1, 2, 3)), np.array(-1, dtype))
        if self.flip():
            buckets = self.pick(1, 3, 7)
            hashed = self.b.add(StringToHashBucket(buckets), self.b.add(AsString(), values))
            return Sparse(indices, hashed, shape, buckets - 1)
        return Sparse(indices, self.b.add(Cast("int64"), values), shape, 6)

    def _strings(self) -> Sparse:
        indices, values, shape = self._kept(self.input("string", self.pick(1, 1, 2, 3)), np.array(b"", object))
        return self._hashed(indices, values, shape)

    def _split(self) -> Sparse:
        split = self.b.add(StringSplit(b";"), self.input("string"))
        return self._hashed(*(self.b.item(split, k) for k in range(3)))

    def _hashed(self, indices: Node, values: Node, shape: Node) -> Sparse:
        buckets = self.pick(1, 3, 7)
        return Sparse(indices, self.b.add(StringToHashBucket(buckets), values), shape, buckets - 1)

    # -- lookup ----------------------------------------------------------------------------------------------------
    def guarded(self, ids: Sparse) -> Sparse:
        """Only the ids within a bound; the bound may hold for all of them or not."""
        b = self.b
        kind, bound = self.pick(
            ("ge", 0), ("ge", 1), ("lt", ids.most + 1), ("lt", ids.most), ("le", ids.most), ("gt", -1)
        )
        mask = b.add(Compare(kind), ids.values, np.array(bound, np.int64))
        keep = b.add(Reshape(), b.add(Where(), mask), [-1])
        return Sparse(b.add(Gather(), ids.indices, keep, 0), b.add(Gather(), ids.values, keep, 0), ids.shape, ids.most)

    def column(self) -> Node:
        """An embedding column: [B, D]."""
        b, ids = self.b, self.sparse()
        dim = self.pick(1, 2, 3)
        rows = ids.most + self.pick(1, 1, 1, 2, 0)
        table = b.table(f"t{len(b.store)}", max(1, rows), dim, seed=len(b.store))
        shape = ids.shape
        if self.flip():
            leading = b.add(Prod(), b.add(Slice(), shape, [0], [1]), [0])
            new = b.add(Pack(axis=0), leading, b.add(Gather(), shape, 1, 0))
            reshaped = b.add(SparseReshape(), ids.indices, shape, new)
            ids = Sparse(b.item(reshaped, 0), ids.values, b.item(reshaped, 1), ids.most)
        for _ in range(self.pick(0, 1, 1, 2)):
            ids = self.guarded(ids)
        default = np.array(self.pick(0, 0, 0, max(0, rows - 1)), np.int64)
        fill = b.add(SparseFillEmptyRows(), ids.indices, ids.values, ids.shape, default)
        if self.fetches and self.flip():
            self.fetch.append(b.item(fill, self.pick(0, 1, 2)))
        pooled = self.pooled(
            table, b.item(fill, 1), b.add(StridedSlice(**COLUMN), b.item(fill, 0), [0, 0], [0, 1], [1, 1])
        )
        if self.pick(True, True, False):
            empty = b.add(Reshape(), b.item(fill, 2), [-1, 1])
            empty = b.add(Tile(), empty, b.add(Pack(axis=0), 1, np.array(dim, np.int32)))
            pooled = b.add(Select(v1=True), empty, b.add(ZerosLike(), pooled), pooled)
        if self.flip():
            head = b.add(Slice(), b.add(Cast("int32"), shape), [0], [1])
            tail = b.add(Slice(), b.add(Shape("int32"), pooled), [1], [-1])
            pooled = b.add(Reshape(), pooled, b.add(Concat(), head, tail, 0))
        return pooled

    def pooled(self, table: Node, ids: Node, rows: Node) -> Node:
        b = self.b
        pooling = SparseSegmentReduce(self.pick("sum", "mean", "sqrtn"))
        if self.flip():
            unique = b.add(Unique("int32"), ids)
            if self.fetches and self.flip():
                self.fetch.append(b.item(unique, self.pick(0, 1)))
            table, ids = b.add(Gather(), table, b.item(unique, 0), 0), b.item(unique, 1)
        rows = b.add(Cast("int32"), rows) if self.flip() else rows
        return b.add(pooling, table, ids, rows)

    # -- the whole -------------------------------------------------------------------------------------------------
    def graph(self) -> Graph:
        self.fetches = self.pick(False, False, True)
        columns = [self.column() for _ in range(self.pick(1, 2, 3))]
        towers = []
        for _ in range(self.pick(1, 2)):
            parts = [c for c in columns if self.pick(True, True, False)] or columns[:1]
            if towers and self.flip():
                parts.append(towers[-1])
            if self.pick(False, False, True):
                parts.insert(self.pick(0, len(parts)), self.input("float32", 2))
            towers.append(self.b.add(Concat(), *parts, self.pick(1, -1)))
        wanted = [*towers, *(c for c in columns if self.pick(False, False, True)), *self.fetch]
        return self.b.done(**{f"y{k}": node for k, node in enumerate(wanted)})

    def feed(self, batch: int, seed: int) -> Feed:
        rng = np.random.default_rng(seed)
        made: Feed = {}
        for name, (dtype, width) in self.inputs.items():
            shape = (batch, *width)
            if dtype == "string":
                made[name] = np.array(WORDS, object)[rng.integers(0, len(WORDS), shape)]
            elif dtype == "float32":
                made[name] = torch.from_numpy(np.array(FLOATS, np.float32)[rng.integers(0, len(FLOATS), shape)])
            else:
                made[name] = torch.from_numpy(rng.integers(-1, 7, shape).astype(dtype))
        return made


@st.composite
def graphs(draw: Any) -> tuple[Graph, list[Feed]]:
    drawn = Drawn(draw)
    graph = drawn.graph()
    return graph, [drawn.feed(batch, seed) for seed, batch in enumerate((1, 2, 6))]


def answer(graph: Graph, feed: Feed) -> dict[str, Value] | None:
    """The outputs; None where there is an error."""
    try:
        return interpret(graph, feed)
    except ColonnadeError:
        return None


def check(got: dict[str, Value] | None, expected: dict[str, Value] | None, what: str) -> None:
    assert (got is None) == (expected is None), f"{what}: {'an error' if got is None else 'an answer instead of one'}"
    for key, value in (expected or {}).items():
        assert equal(got[key], value), f"{what} changes {key}"  # type: ignore[index]


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(graphs())
def test_passes_and_backends_keep_every_answer(drawn: tuple[Graph, list[Feed]]) -> None:
    graph, feeds = drawn
    expected = [answer(graph, feed) for feed in feeds]

    def observe(name: str, after: Graph) -> None:
        verify(after)
        answered = next((feed for feed, values in zip(feeds, expected, strict=True) if values is not None), None)
        if answered is not None:
            check_facts(after, answered)
        for feed, values in zip(feeds, expected, strict=True):
            check(answer(after, feed), values, name)

    run(COLUMNS, graph, observe=observe)
    try:
        program, weights = assemble(graph)
    except UnsupportedOps:
        return  # a fetched tensor of ids, or a lookup that is no column
    for backend in (ReferenceBackend(), CpuBackend()):
        executable = Executable(program, weights, backend)
        for feed, values in zip(feeds, expected, strict=True):
            try:
                got = {k: torch.as_tensor(v) for k, v in executable(feed).items()}
            except ColonnadeError:
                got = None
            check(got, values, f"backend {backend.name}")
