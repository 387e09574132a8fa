"""Ragged columns of the cpu engine: how rows are cut, what is named and refused."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.backends.backend import layouts
from colonnade.backends.cpu import CpuBackend, offsets
from colonnade.backends.cpu import columns as cpu_columns
from colonnade.backends.cpu.scratch import TILE
from colonnade.backends.feed import FeedReader
from colonnade.backends.reference import ReferenceBackend
from colonnade.core import dims
from colonnade.core.batch import Packed
from colonnade.core.expr import Apply, Expr, Field
from colonnade.core.strings import Strings
from colonnade.errors import FeedError, GraphError, IdRangeError, ShapeError
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.mod import Mod
from colonnade.testing.strategies import Case, cases

B, N = dims.symbol("B"), dims.symbol("N")
X = Field("x")
TABLE = np.arange(20, dtype=np.float32).reshape(10, 2)
SPLITS = st.lists(st.sampled_from((0, 0, 1, 2, 30, TILE - 1, TILE, TILE + 1, 5000)), max_size=40).map(
    lambda lengths: np.cumsum([0, *lengths])
)


@given(SPLITS, st.integers(1, 20))
def test_parts_cover_all_rows_and_share_elements_and_rows(splits: np.ndarray[Any, Any], parts: int) -> None:
    address, batch = splits.ctypes.data, len(splits) - 1
    cuts = [offsets.cut(address, batch, part, parts) for part in range(parts + 1)]
    assert cuts[0] == 0
    assert cuts[-1] == batch
    costs = splits + np.arange(batch + 1)
    longest = int(np.diff(costs).max(initial=0))
    assert all(0 <= costs[b] - costs[a] <= costs[-1] / parts + longest + 1 for a, b in pairwise(cuts))


@given(SPLITS)
def test_tiles_hold_whole_rows(splits: np.ndarray[Any, Any]) -> None:
    address, batch, row = splits.ctypes.data, len(splits) - 1, 0
    while row < batch:
        n = offsets.tile_rows(address, -1, row, batch)
        assert splits[row + n] - splits[row] <= TILE
        assert row + n == batch or splits[row + n + 1] - splits[row] > TILE
        row += max(n, 1)


@given(SPLITS)
def test_the_row_of_an_element(splits: np.ndarray[Any, Any]) -> None:
    for element in {0, splits[-1] // 2, splits[-1] - 1} & set(range(splits[-1])):
        row = offsets.row_of(splits.ctypes.data, -1, len(splits) - 1, int(element))
        assert splits[row] <= element < splits[row + 1]


@settings(max_examples=12)
@given(case=cases(ragged=True, max_columns=6))
def test_threads_change_no_bit_and_equal_the_reference(case: Case) -> None:
    plans = layouts(case.program)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_columns, "PARALLEL_NANOSECONDS", 0)
        for layout, packed in zip(plans, FeedReader(case.program, plans).read(case.feed).packed, strict=True):
            outs = [{b.name: np.zeros((case.rows, b.width), np.float32) for b in case.program.buffers} for _ in "abc"]
            for out, made, threads in zip(
                outs, (CpuBackend(), CpuBackend(), ReferenceBackend()), (1, 3, 1), strict=True
            ):
                made.compile(case.program, case.weights, layout, id_policy="zero", threads=threads).run(packed, out)
            alone, together, reference = outs
            for name, values in alone.items():
                assert values.tobytes() == together[name].tobytes()
                # torch's square root of a float32 may be off by its last bit.
                assert np.allclose(values, reference[name], rtol=1e-6, atol=1e-44, equal_nan=True)


def program(ids: Expr = X, dtype: str = "int64", **changes: Any) -> Program:
    column = dataclasses.replace(Column("c", ids, "t", slots=(Slot("o", 0, 2),)), **changes)
    inputs = (
        Input("x", dtype, (N,), offsets="e"),
        Input("e", "int64", (dims.add(B, 1),)),
        Input("w", "float32", (B, 3)),
    )
    return Program(inputs, (Table("t", 10, 2),), (column,), (Buffer("o", B, 2),), (), ())


def compiled(made: Program) -> cpu_columns.CpuColumns:
    (layout,) = layouts(made)
    return CpuBackend().compile(made, Weights({"t": TABLE}, {}, {}), layout, id_policy="error", threads=1)


def packed(values: np.ndarray[Any, Any] | Strings, splits: list[int]) -> Packed:
    ends = np.array(splits, np.int64)
    return Packed(len(ends) - 1, {}, np.zeros(0, np.uint8), np.zeros(1, np.int64), {"x": values}, {"e": ends})


@pytest.mark.parametrize("first", [0, 3, 700])
def test_an_id_outside_its_table_names_the_row(first: int) -> None:
    splits = [0, 0, first, first, first, first + 4, first + 4]
    values = np.zeros(first + 4, np.int64)
    values[first + 1] = 99
    with pytest.raises(IdRangeError, match="ids outside their tables") as caught:
        compiled(program()).run(packed(values, splits), {"o": np.zeros((6, 2), np.float32)})
    assert "id 99 in batch row 4" in caught.value.got


def test_an_id_that_is_right_when_it_is_read_again() -> None:
    values = np.array([1, 99, 2])
    columns = compiled(program())
    run = columns._run

    def changed_by_another(*operands: int) -> int:
        found = run(*operands)
        values[1] = 9
        return found

    columns._run = changed_by_another
    with pytest.raises(FeedError, match="the request was changed while it was answered"):
        columns.run(packed(values, [0, 3]), {"o": np.zeros((1, 2), np.float32)})
    columns.run(packed(values, [0, 3]), out := {"o": np.zeros((1, 2), np.float32)})
    assert out["o"].tolist() == TABLE[[1, 9, 2]].sum(0)[None].tolist()


def test_strings_that_begin_after_the_first_byte() -> None:
    made = program(Apply(Mod(10), Apply(HashBytes(), X)), "string")
    texts = Strings(np.frombuffer(b"abcdef", np.uint8), np.array([2, 3, 3, 6]))
    want, got = np.zeros((2, 2), np.float32), np.ones((2, 2), np.float32)
    compiled(made).run(packed(texts, [0, 1, 3]), {"o": got})
    whole = Strings.from_objects([b"c", b"", b"def"])
    compiled(made).run(packed(whole, [0, 1, 3]), {"o": want})
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize(
    ("values", "splits", "rows"),
    [
        (np.zeros(3, np.int64), [0, 1, 4], 2),
        (np.zeros(3, np.int32), [0, 1, 3], 2),
        (np.zeros(6, np.int64)[::2], [0, 1, 3], 2),
        (Strings.from_objects([b""] * 3), [0, 1, 4], 2),
        (np.zeros(3, np.int64), [0, 3], 2),
    ],
)
def test_values_that_do_not_fit(values: np.ndarray[Any, Any] | Strings, splits: list[int], rows: int) -> None:
    batch = dataclasses.replace(packed(values, splits), rows=rows)
    with pytest.raises(ShapeError, match="packed"):
        compiled(program()).run(batch, {"o": np.zeros((rows, 2), np.float32)})


def test_what_the_engine_cannot_run() -> None:
    with pytest.raises(GraphError, match="a ragged field needs a table and a pooling"):
        compiled(program(pooling="none"))
    with pytest.raises(GraphError, match="a ragged field needs a table and a pooling"):
        compiled(program(table=None))
    with pytest.raises(GraphError, match="reads no such field"):
        compiled(program(dtype="int8"))
    with pytest.raises(ShapeError, match="differ in width") as caught:
        compiled(program(weights=Field("w")))
    assert (caught.value.got, caught.value.want) == ("3", "e")
