"""Assertions that every key is known, values set apart, constants: what becomes of them, and what stays by a hair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.consts import Const
from colonnade.errors import GraphError, ShapeError
from colonnade.ir.column import Column
from colonnade.ir.column_value import ColumnValue
from colonnade.ir.graph import Graph
from colonnade.ir.label import Label
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.guard import Guard
from colonnade.ops.graph.lookup_table_find import LookupTableFind
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.size import Size
from colonnade.ops.graph.sqrt import Sqrt
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.string_to_keyed_bucket import StringToKeyedBucket
from colonnade.ops.graph.where import Where
from colonnade.ops.op import ElementFacts
from colonnade.ops.or_else import OrElse
from colonnade.passes.base import Log
from colonnade.passes.check_unknown import NOWHERE
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing.graphs import Builder, check_passes

KNOWN = np.array([b"a", b"b"], object)


def texts(*values: bytes) -> Any:
    made = np.empty(len(values), object)
    made[:] = values
    return made


def ids_of(b: Builder, x: Any, default: int = -1, values: tuple[int, ...] = (0, 1)) -> Any:
    return b.add(LookupTableFind(Const(KNOWN), Const(np.array(values))), x, np.array(default))


def none(b: Builder, ids: Any, unknown: int = -1, count: int = 0, kind: str = "eq") -> Any:
    """The assertion that no id is that of unknown keys."""
    places = b.add(Where(), b.add(Compare(kind), ids, np.array(unknown)))
    return b.add(Compare("eq"), b.add(Size("int32"), places), np.array(count, np.int32))


def looked_up(b: Builder, ids: Any, rows: int = 2) -> Any:
    return b.add(Gather(), b.table("t", rows, 3), ids, 0)


def columns(graph: Graph) -> list[Column]:
    """Of lookups: a comparison of words that is left becomes a column of its own."""
    found = [n.target.column for n in graph.nodes() if isinstance(n.target, ColumnValue)]
    return [c for c in found if c.source != "compare"]


def guards(graph: Graph) -> int:
    return sum(isinstance(n.target, Guard) for n in graph.nodes())


def from_end(b: Builder, ids: Any, size: int) -> Any:
    return b.add(Select(), b.add(Compare("lt"), ids, np.array(0)), b.add(Add(), ids, np.array(size)), ids)


@pytest.mark.parametrize("wraps", [False, True])
def test_an_unknown_key_is_an_id_outside(wraps: bool) -> None:
    b = Builder()
    ids = ids_of(b, b.input("x", "string", "B"))
    out = looked_up(b, from_end(b, ids, 2) if wraps else ids)
    graph = b.done(y=b.add(Guard("unknown"), out, none(b, ids)))
    check_passes(graph, COLUMNS, [{"x": texts(b"a", b"b", b"a")}, {"x": texts()}])
    (column,) = columns(graph)
    assert not guards(graph) and not column.ids_proven and str(NOWHERE) in repr(column.ids)


ANSWERED: dict[str, Any] = {"one may be unknown": [], "all must be unknown": []}
HAIR: dict[str, Any] = {
    "another value": lambda b, ids: none(b, ids, unknown=-2),
    "one may be unknown": lambda b, ids: none(b, ids, count=1),
    "all must be unknown": lambda b, ids: none(b, ids, kind="ne"),
}


@pytest.mark.parametrize("name", HAIR)
def test_by_a_hair(name: str) -> None:
    b = Builder()
    ids = ids_of(b, b.input("x", "string", "B"))
    graph = b.done(y=b.add(Guard("unknown"), looked_up(b, ids), HAIR[name](b, ids)))
    log: Log = check_passes(graph, COLUMNS, ANSWERED.get(name, [{"x": texts(b"a")}]))
    assert guards(graph) == 1 and not [e for e in log.applied() if e.pass_name == "check-unknown"]


def test_a_known_key_with_the_value_of_unknown_ones_keeps_the_check() -> None:
    b = Builder()
    ids = ids_of(b, b.input("x", "string", "B"), values=(0, -1))
    graph = b.done(y=b.add(Guard("unknown"), looked_up(b, ids), none(b, ids)))
    log = check_passes(graph, COLUMNS, [{"x": texts(b"a")}])
    assert guards(graph) == 1
    assert any("only they" in e.reason for e in log.rejected() if e.pass_name == "check-unknown")


def test_ids_that_no_column_reads_keep_the_check() -> None:
    b = Builder()
    ids = ids_of(b, b.input("x", "string", "B"))
    other = ids_of(b, b.input("z", "string", "B"))
    graph = b.done(y=b.add(Guard("unknown"), looked_up(b, other), none(b, ids)))
    feeds = [{"x": texts(b"a"), "z": texts(b"b")}]
    log = check_passes(graph, COLUMNS, feeds)
    assert guards(graph) == 1 and any("no column" in e.reason for e in log.rejected())


def pooled(b: Builder, x: Any, ids: Any, mask: Any) -> Any:
    """The sum of the rows of `[B, 2]` ids that a mask keeps."""
    kept = b.add(Where(), mask)
    rows = b.add(StridedSlice(begin_mask=1, end_mask=1, shrink_axis_mask=2), kept, [0, 0], [0, 1], [1, 1])
    count = b.add(Gather(), b.add(Shape("int32"), x), np.int32(0), np.int32(0))
    return b.add(EmbeddingBag("sum"), b.table("t", 2, 3), b.add(GatherNd(), ids, kept), rows, count)


@pytest.mark.parametrize("known", [True, False])
def test_what_is_left_out_is_known(known: bool) -> None:
    b = Builder()
    x = b.input("x", "string", "B", 2)
    ids = ids_of(b, x)
    key = texts(b"a" if known else b"zz").reshape(())
    out = pooled(b, x, ids, b.add(Compare("ne"), x, key))
    graph = b.done(y=b.add(Guard("unknown"), out, none(b, ids)))
    check_passes(graph, COLUMNS, [{"x": texts(b"a", b"b", b"b", b"a").reshape(2, 2)}])
    assert len(columns(graph)) == 1 and guards(graph) == (not known)


# -- values set apart --------------------------------------------------------------------------------------------------
def keyed(b: Builder, x: Any, count: int = 3) -> Any:
    return b.add(StringToKeyedBucket(count, 5, 7), x)


def apart(b: Builder, x: Any, value: int = 0, other: Any = None, added: int = 1) -> Any:
    cond = b.add(Compare("eq"), x if other is None else other, texts(b"")[0:1].reshape(()))
    return b.add(Select(), cond, np.array(value), b.add(Add(), keyed(b, x), np.array(added)))


WORDS = [{"x": texts(b"", b"a", b"zz", b"")}, {"x": texts()}]


def test_a_value_set_apart_of_a_keyed_hash() -> None:
    b = Builder()
    graph = b.done(y=looked_up(b, apart(b, b.input("x", "string", "B")), 4))
    check_passes(graph, COLUMNS, WORDS)
    (column,) = columns(graph)
    assert isinstance(column.ids.key[0], OrElse) and column.ids_proven


@pytest.mark.parametrize(
    "make",
    [
        lambda b, x: apart(b, x, value=-1),
        lambda b, x: apart(b, x, added=2**63 - 2),
    ],
    ids=["negative", "may wrap"],
)
def test_no_value_set_apart(make: Any) -> None:
    b = Builder()
    ids = make(b, b.input("x", "string", "B"))
    graph = b.done(y=looked_up(b, ids, 4))
    check_passes(graph, COLUMNS, [])
    assert not columns(graph)


# -- constants ---------------------------------------------------------------------------------------------------------
def test_arithmetic_on_constants_is_done_once() -> None:
    b = Builder()
    x, table = b.input("x", "float32", "B", 2), b.table("v", 1, 2)
    root = b.add(Sqrt(), np.array([4.0, 2.0], np.float32))
    graph = b.done(y=b.add(Mul(), x, root), z=b.add(Sqrt(), table))
    check_passes(graph, COLUMNS, [{"x": torch.ones(3, 2)}])
    kept = [n.target for n in graph.nodes() if isinstance(n.target, Sqrt)]
    assert len(kept) == 1  # a variable may be given new weights
    assert any(isinstance(n.target, Constant) and n.target.value.array.shape == (2,) for n in graph.nodes())


# -- labels ------------------------------------------------------------------------------------------------------------
def label(keys: list[int], values: list[bytes], default: bytes | None = None) -> Label:
    return Label(Const(np.array(keys, np.int64)), Const(texts(*values)), default)


def test_labels() -> None:
    some = label([7, -3, 2**62], [b"x", b"", b"z"], b"?")
    ids = np.array([[7, 2**62], [-3, 0], [8, -(2**63)]])
    assert some.texts(ids, "").tolist() == [[b"x", b"z"], [b"", b"?"], [b"?", b"?"]] and not some.problem()
    listed = label([0, 1], [b"a", b"b"])
    assert listed.texts(np.array([1, 0, 1], np.int32), "").tolist() == [b"b", b"a", b"b"]
    assert label([], [], b"?").texts(np.array([3]), "").tolist() == [b"?"]
    for wrong in (2, -1):
        with pytest.raises(GraphError, match="text that there is not"):
            listed.texts(np.array([0, wrong]), "output 'y'")
    assert "distinct" in label([1, 1], [b"a", b"b"]).problem() and label([1], [b"a", b"b"]).problem()


def test_or_else_refuses_a_sum_that_may_wrap() -> None:
    with pytest.raises(ShapeError):
        OrElse(1).infer(ElementFacts("int64", -1, 0), ElementFacts("int64"))
