"""Lookup tables and the selects around them are one vocabulary, or stay, for the right reason; the answer stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.consts import Const
from colonnade.ir.column import Column
from colonnade.ir.column_value import ColumnValue
from colonnade.ir.graph import Graph
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.fill import Fill
from colonnade.ops.graph.floor_mod import FloorMod
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.hash_decimal_bucket import HashDecimalBucket
from colonnade.ops.graph.lookup_table_find import LookupTableFind
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.string_to_hash_bucket import StringToHashBucket
from colonnade.ops.vocabulary import Vocabulary
from colonnade.passes.base import Log
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing.graphs import Builder, check_passes


def reasons(log: Log) -> list[str]:
    return [e.reason for e in log.rejected() if e.pass_name == "vocabularies"]


def columns(graph: Graph) -> list[Column]:
    """Of lookups: a comparison of words that is left becomes a column of its own."""
    found = [n.target.column for n in graph.nodes() if isinstance(n.target, ColumnValue)]
    return [c for c in found if c.source != "compare"]


def looked_up(b: Builder, ids: Any, rows: int = 4) -> Graph:
    """A gather of one row an id."""
    return b.done(y=b.add(Gather(), b.table("t", rows, 3), ids, 0))


def strings(*values: bytes) -> Any:
    made = np.empty(len(values), object)
    made[:] = values
    return made


FIND = LookupTableFind(Const(strings(b"a", b"b", b"")), Const(np.array([0, 1, 2])))
TEXTS = {"x": strings(b"a", b"", b"c", b"b", b"aa"), "z": strings(b"b", b"a", b"a", b"d", b"")}


def bucketed(
    b: Builder, find: LookupTableFind = FIND, *, default: int = -1, marker: int = -1, first: int = 3, other: str = "x"
) -> Any:
    """`select(find(x) != marker, find(x), hash(other) + first)`."""
    x = b.graph.inputs.get("x") or b.input("x", "string", "B")
    hashed = x if other == "x" else b.input(other, "string", "B")
    ids = b.add(find, x, np.array(default))
    buckets = b.add(Add(), b.add(StringToHashBucket(5), hashed), np.array(first))
    return b.add(Select(), b.add(Compare("ne"), ids, np.array(marker)), ids, buckets)


def test_buckets_of_unknown_keys_are_the_vocabularys() -> None:
    b = Builder()
    graph = looked_up(b, bucketed(b), rows=8)
    check_passes(graph, COLUMNS, [TEXTS, {k: v[:0] for k, v in TEXTS.items()}])
    (column,) = columns(graph)
    assert column.ids_proven and column.ids.op == Vocabulary(FIND.keys, FIND.values, 3, 5)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"other": "z"}, "not made of the keys"),
        ({"default": 4, "marker": 2}, "unknown keys get 4"),
        ({"default": 1, "marker": 1}, "also a known key's value"),
        ({"find": LookupTableFind(FIND.keys, Const(np.array([0, 1, -1])))}, "also a known key's value"),
    ],
)
def test_buckets_that_are_not_those_of_unknown_keys(options: dict[str, Any], reason: str) -> None:
    b = Builder()
    graph = looked_up(b, bucketed(b, **options), rows=8)
    log = check_passes(graph, COLUMNS, [TEXTS])
    assert reason in reasons(log)[0]


@pytest.mark.parametrize(
    ("find", "default", "reason"),
    [
        (LookupTableFind(FIND.keys, Const(np.array([0, 1, 2], np.int32))), np.array(0, np.int32), "is no vocabulary"),
        (LookupTableFind(Const(np.array([1.5, 2.5], np.float32)), Const(np.array([0, 1]))), np.array(0), "no vocabul"),
    ],
)
def test_a_table_that_is_no_vocabulary(find: LookupTableFind, default: Any, reason: str) -> None:
    b = Builder()
    is_text = find.keys.array.dtype == object
    x = b.input("x", "string" if is_text else "float32", "B")
    log = check_passes(
        looked_up(b, b.add(find, x, default)), COLUMNS, [{"x": TEXTS["x"] if is_text else torch.tensor([1.5, 0.0])}]
    )
    assert reason in reasons(log)[0]


def test_an_id_that_a_key_has_outside_the_table_is_checked() -> None:
    b = Builder()
    graph = looked_up(b, b.add(FIND, b.input("x", "string", "B"), np.array(0)), rows=2)
    check_passes(graph, COLUMNS, [{"x": strings(b"a", b"c")}])
    (column,) = columns(graph)
    assert not column.ids_proven


# -- a value set apart -------------------------------------------------------------------------------------------------
INTS = {"x": torch.tensor([5, 7, 0, -1, 2**63 - 1, -(2**63), 8]), "z": torch.tensor([7, 0, 0, -1, 5, 7, 7])}
NUMBERS = LookupTableFind(Const(np.array([5, 7])), Const(np.array([3, 4])))


def apart(b: Builder, x: Any, ids: Any, key: Any, value: int, kind: str = "eq") -> Any:
    """`select(x == key, value, ids)`."""
    constant = b.add(Fill(), b.add(Shape("int32"), x), np.array(value))
    cond = b.add(Compare(kind), x, key)
    return b.add(Select(), cond, constant, ids) if kind == "eq" else b.add(Select(), cond, ids, constant)


def only(graph: Graph) -> Vocabulary:
    (column,) = columns(graph)
    assert column.ids_proven
    return column.ids.op  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("kind", ["eq", "ne"])
@pytest.mark.parametrize("key", [7, 0])
def test_a_key_set_apart_comes_before_others(kind: str, key: int) -> None:
    b = Builder()
    x = b.input("x", "int64", "B")
    found = b.add(NUMBERS, x, np.array(2))
    graph = looked_up(b, apart(b, x, found, np.array(key), 0, kind), rows=5)
    check_passes(graph, COLUMNS, [{"x": INTS["x"]}, {"x": INTS["x"][:0]}])
    op = only(graph)
    assert dict(zip(op.keys.array.tolist(), op.values.array.tolist(), strict=True)) == {5: 3, 7: 4} | {key: 0}


def test_a_key_set_apart_and_buckets() -> None:
    b = Builder()
    x = b.input("x", "int64", "B")
    found = apart(b, x, b.add(NUMBERS, x, np.array(-1)), np.array(-1), 0)
    buckets = b.add(Add(), b.add(FloorMod(), x, np.array(2)), np.array(1))
    graph = looked_up(b, b.add(Select(), b.add(Compare("eq"), found, np.array(-1)), buckets, found), rows=5)
    check_passes(graph, COLUMNS, [{"x": INTS["x"]}, {"x": INTS["x"][:0]}])
    op = only(graph)
    assert (op.default, op.num_oov, op.function) == (1, 2, "floor_mod") and -1 in op.keys.array


@pytest.mark.parametrize("dtype", ["int32", "int64", "string"])
def test_a_key_set_apart_from_a_hash(dtype: str) -> None:
    b = Builder()
    x = b.input("x", dtype, "B")
    hashed = b.add((StringToHashBucket if dtype == "string" else HashDecimalBucket)(9), x)
    ids = b.add(Add(), np.array(1), hashed)
    key = np.array(b"", object) if dtype == "string" else np.array(-1, dtype)
    graph = looked_up(b, apart(b, x, ids, key, 0), rows=10)
    feed = TEXTS["x"] if dtype == "string" else torch.tensor([-1, 0, 5, -7], dtype=getattr(torch, dtype))
    check_passes(graph, COLUMNS, [{"x": feed}, {"x": feed[:0]}])
    assert (only(graph).default, only(graph).num_oov) == (1, 9)


def test_a_key_of_another_field_is_not_set_apart() -> None:
    b = Builder()
    x, z = b.input("x", "int64", "B"), b.input("z", "int64", "B")
    graph = looked_up(b, apart(b, z, b.add(NUMBERS, x, np.array(2)), np.array(7), 0), rows=5)
    check_passes(graph, COLUMNS, [INTS])
    (column,) = columns(graph)
    assert column.name == "z+x"  # two vocabularies: what one sets apart, else the other


def test_a_key_set_apart_with_no_constant_of_its_own() -> None:
    b = Builder()
    x, z = b.input("x", "int64", "B"), b.input("z", "int64", "B")
    ids = b.add(Select(), b.add(Compare("eq"), x, np.array(7)), z, b.add(NUMBERS, x, np.array(2)))
    graph = looked_up(b, ids, rows=5)
    check_passes(graph, COLUMNS, [{"x": INTS["x"], "z": torch.zeros(7, dtype=torch.int64)}])
    assert not columns(graph)


def test_buckets_of_a_remainder_by_zero_stay_an_error() -> None:
    b = Builder()
    x = b.input("x", "int64", "B")
    found = b.add(NUMBERS, x, np.array(-1))
    rest = b.add(FloorMod(), x, np.array(0))
    graph = looked_up(b, b.add(Select(), b.add(Compare("eq"), found, np.array(-1)), rest, found), rows=5)
    check_passes(graph, COLUMNS, [])
    assert not columns(graph)
