"""The reference backend's own corners; what all backends share is in tests/contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.backends.backend import layouts
from colonnade.backends.feed import FeedReader
from colonnade.backends.reference import ReferenceBackend
from colonnade.core import dims
from colonnade.core.expr import Apply, Expr, Field
from colonnade.core.pooling import pool
from colonnade.errors import GraphError, IdRangeError
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.at_least import AtLeast
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.mod import Mod
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.split import Split

B = dims.symbol("B")
TABLE = np.arange(20, dtype=np.float32).reshape(10, 2) + 1

# Source: TensorFlow 2.21's SparseSegmentSum, Mean and SqrtN on a CPU.
TWELVE = np.array(
    [
        [-2.6974196434020996, 0.11533556878566742], [0.9856745004653931, -0.18419149518013],
        [-1.1387770175933838, 0.5851966142654419], [0.9297739267349243, 0.7000173926353455],
        [-0.7721249461174011, -1.042336106300354], [0.6085122227668762, -0.18436117470264435],
        [0.2995264232158661, 1.6914433240890503], [0.16216720640659332, -0.6695007085800171],
        [-1.5838277339935303, 0.19199815392494202], [-0.26529330015182495, 1.272716760635376],
        [0.7557719349861145, 1.311131477355957], [1.0354379415512085, 0.045743852853775024],
    ],
    np.float32,
)  # fmt: skip
POOLED = {
    "sum": [-1.6805784702301025, 3.833193778991699],
    "mean": [-0.14004820585250854, 0.3194328248500824],
    "sqrtn": [-0.48514121770858765, 1.1065477132797241],
}


@pytest.mark.parametrize("pooling", POOLED)
def test_pooling_is_tensorflows_bit_for_bit(pooling: str) -> None:
    got = pool(torch.from_numpy(TWELVE), torch.zeros(12, dtype=torch.int64), None, pooling, 1)
    assert got.numpy().tobytes() == np.array([POOLED[pooling]], np.float32).tobytes()


@given(st.lists(st.integers(0, 20), max_size=6), st.sampled_from(["sum", "mean", "sqrtn", "max"]), st.booleans())
def test_pooling_of_rows_is_that_of_each_row(counts: list[int], pooling: str, weighted: bool) -> None:
    rng = np.random.default_rng(sum(counts))
    vectors = torch.from_numpy(rng.standard_normal((sum(counts), 3)).astype(np.float32))
    weights = torch.from_numpy(rng.uniform(0, 2, sum(counts)).astype(np.float32)) if weighted else None
    rows = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts, dtype=torch.int64))
    got = pool(vectors, rows, weights, pooling, len(counts))
    for row in range(len(counts)):
        mine = rows == row
        alone = pool(
            vectors[mine], torch.zeros(counts[row], dtype=torch.int64), None if weights is None else weights[mine],
            pooling, 1,
        )  # fmt: skip
        assert torch.equal(got[row], alone[0])


def test_a_weighted_divisor_of_zero_gives_zeros() -> None:
    got = pool(torch.ones(2, 3), torch.tensor([0, 0]), torch.zeros(2), "mean", 1)
    assert torch.equal(got, torch.zeros(1, 3))


def run(feed: dict[str, Any], column: dict[str, Any], width: int = 2, id_policy: str = "error", **table: Any) -> Any:
    rows = len(next(iter(feed.values())))
    dtypes = {n: "string" if v.dtype == object else str(v.dtype) for n, v in feed.items()}
    inputs = tuple(Input(n, dtypes[n], (B, v.shape[1])) for n, v in feed.items())
    tables = (Table("t", **{"rows": 10, "embedding_dim": 2, **table}),)
    made = Column("c", **{"table": "t", **column}, slots=(Slot("x", 0, width),))
    program = Program(inputs, tables, (made,), (Buffer("x", B, width),), (), ())
    weights = Weights({"t": table.get("values", TABLE)}, {}, {})
    packed = FeedReader(program, layouts(program)).read(feed).packed[0]
    out = np.full((rows, width), np.nan, np.float32)
    made_columns = ReferenceBackend().compile(program, weights, layouts(program)[0], id_policy=id_policy, threads=1)
    made_columns.run(packed, {"x": out})
    return out


def texts(*rows: list[bytes]) -> np.ndarray[Any, Any]:
    out = np.empty((len(rows), len(rows[0])), object)
    for i, row in enumerate(rows):
        out[i] = row
    return out


def test_a_filter_on_the_strings_drops_all_their_tokens() -> None:
    feed = {"s": texts([b"a,b"], [b""], [b"a,,b"])}
    ids: Expr = Apply(Mod(10), Apply(HashBytes(), Apply(Split(b","), Field("s"))))
    whole = run(feed, {"ids": ids})
    assert whole[1].any()  # the empty string has one token
    kept = run(feed, {"ids": ids, "filters": (Apply(NotEqual(b""), Field("s")),), "default_row": 4})
    assert kept[1].tolist() == TABLE[4].tolist()
    assert kept[[0, 2]].tobytes() == whole[[0, 2]].tobytes()
    tokens = run(feed, {"ids": ids, "filters": (Apply(NotEqual(b""), Apply(Split(b","), Field("s"))),)})
    assert tokens.tolist() == [whole[0].tolist(), [0, 0], whole[0].tolist()]


def test_a_zeroed_id_counts_as_an_element() -> None:
    feed = {"i": np.array([[3, 99], [-1, 10]])}
    got = run(feed, {"ids": Field("i"), "pooling": "mean", "default_row": 1}, id_policy="zero")
    assert got.tolist() == [(TABLE[3] / 2).tolist(), [0, 0]]


def test_a_dropped_id_may_be_anything() -> None:
    feed = {"i": np.array([[3, -1], [-7, -1]])}
    got = run(feed, {"ids": Field("i"), "pooling": "mean", "filters": (Apply(AtLeast(0), Field("i")),)})
    assert got.tolist() == [TABLE[3].tolist(), [0, 0]]


def test_without_pooling_a_dropped_element_keeps_its_place() -> None:
    feed = {"i": np.array([[3, -1], [-7, 2]])}
    column = {"ids": Field("i"), "pooling": "none", "filters": (Apply(AtLeast(0), Field("i")),)}
    assert run(feed, column, 4).tolist() == [[*TABLE[3], 0, 0], [0, 0, *TABLE[2]]]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8"])
def test_other_table_dtypes(dtype: str) -> None:
    values = torch.from_numpy(TABLE).to(getattr(torch, dtype))
    array = values.view(torch.int16).numpy() if dtype == "bfloat16" else values.numpy()
    program = Program(
        (Input("i", "int64", (B, 1)),), (Table("t", 10, 2, dtype),),
        (Column("c", Field("i"), "t", slots=(Slot("x", 0, 2),)),), (Buffer("x", B, 2),), (), (),
    )  # fmt: skip
    (layout,) = layouts(program)
    out = np.empty((10, 2), np.float32)
    packed = FeedReader(program, (layout,)).read({"i": np.arange(10)[:, None]}).packed[0]
    weights = Weights({"t": array}, {}, {})
    ReferenceBackend().compile(program, weights, layout, id_policy="error", threads=1).run(packed, {"x": out})
    assert out.tolist() == TABLE.tolist()


def test_every_column_with_a_bad_id_is_named() -> None:
    inputs = tuple(Input(f"i{k}", "int64", (B, 1)) for k in range(30))
    columns = tuple(Column(f"c{k}", Field(f"i{k}"), "t", slots=(Slot("x", 2 * k, 2),)) for k in range(30))
    program = Program(inputs, (Table("t", 10, 2),), columns, (Buffer("x", B, 60),), (), ())
    (layout,) = layouts(program)
    packed = FeedReader(program, (layout,)).read({i.name: np.array([[0], [10]]) for i in inputs}).packed[0]
    made = ReferenceBackend().compile(program, Weights({"t": TABLE}, {}, {}), layout, id_policy="error", threads=1)
    with pytest.raises(IdRangeError, match="30 columns") as caught:
        made.run(packed, {"x": np.empty((2, 60), np.float32)})
    lines = caught.value.got.splitlines()
    assert lines[0] == "column 'c0', row 1: id 10, table 't' has 10 rows"
    assert len(lines) == 21 and lines[-1] == "... and 10 more"


def test_what_cannot_lie_side_by_side() -> None:
    with pytest.raises(GraphError, match="needs a pooling"):
        ids = Apply(Mod(10), Apply(HashBytes(), Apply(Split(b","), Field("s"))))
        run({"s": texts([b"a,b"])}, {"ids": ids, "pooling": "none"})
    inputs = (Input("i", "int64", (dims.symbol("N"),), offsets="e"), Input("e", "int64", (dims.add(B, 1),)))
    for changes in ({"table": "t", "pooling": "none"}, {"table": None, "pooling": "sum"}):
        column = Column("c", Field("i"), slots=(Slot("x", 0, 2),), **changes)  # type: ignore[arg-type]
        program = Program(inputs, (Table("t", 10, 2),), (column,), (Buffer("x", B, 2),), (), ())
        (layout,) = layouts(program)
        packed = FeedReader(program, (layout,)).read({"i": np.zeros(3, np.int64), "e": np.array([0, 3])}).packed[0]
        made = ReferenceBackend().compile(program, Weights({"t": TABLE}, {}, {}), layout, id_policy="zero", threads=1)
        with pytest.raises(GraphError, match="a ragged field needs a table and a pooling"):
            made.run(packed, {"x": np.empty((1, 2), np.float32)})
