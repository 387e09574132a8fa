"""Requests, tolerances and bytes of programs with ragged fields, also where they are decoded of Examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from colonnade.backends.backend import layouts
from colonnade.backends.feed import FeedReader
from colonnade.backends.reference import ReferenceBackend
from colonnade.core import dims
from colonnade.core.examples import Feature
from colonnade.core.expr import Apply, Field
from colonnade.executable import Executable
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Decode, Input, Program, RowKeys, Weights
from colonnade.ir.table import Table
from colonnade.ops.at_least import AtLeast
from colonnade.testing.bench import Bench, Measured, bytes_of_columns
from colonnade.testing.compare import allowed_of_column
from colonnade.testing.points import columns_only
from colonnade.testing.recording import record, recorded
from colonnade.testing.requests import KINDS, Request, inputs_of, joined, make_request, ragged, rows_in, take
from colonnade.testing.sides import ColonnadeSide, reference_side
from colonnade.testing.verify import verify

B, N = dims.symbol("B"), dims.symbol("N")
IDS, SCORE = Field("ids"), Field("score")
PROGRAM = Program(
    inputs=(
        Input("ids", "int64", (N,), offsets="ends"),
        Input("score", "float32", (N,), offsets="ends"),
        Input("ends", "int32", (dims.add(B, 1),)),
        Input("one", "int64", (B, 1)),
    ),
    tables=(Table("t", 50, 4, "float32"), Table("u", 9, 2, "float32")),
    columns=(
        Column("mean", IDS, "t", "mean", slots=(Slot("out", 0, 4),)),
        Column("sum", IDS, "t", "sum", weights=SCORE, default_row=3, slots=(Slot("out", 4, 4),)),
        Column("kept", IDS, "u", "sum", filters=(Apply(AtLeast(4), IDS),), slots=(Slot("out", 8, 2),)),
        Column("one", Field("one"), "t", "sum", slots=(Slot("out", 10, 4),)),
    ),
    buffers=(Buffer("out", B, 14),),
    dense=(),
    outputs=(),
)
PROGRAM = columns_only(PROGRAM)


def weights() -> Weights:
    rng = np.random.default_rng(0)
    rows = {t.name: rng.standard_normal((t.rows, t.embedding_dim)).astype(np.float32) for t in PROGRAM.tables}
    return Weights(rows, {}, {})


@pytest.fixture(scope="module")
def executable() -> Executable:
    return Executable(PROGRAM, weights(), ReferenceBackend(), id_policy="zero")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_requests_fit_the_signature(executable: Executable, kind: str, rows: int) -> None:
    request = make_request(PROGRAM, kind, rows)
    assert rows_in(PROGRAM, request.feed) == request.rows == rows
    assert request.feed["ends"].dtype == np.int32 and len(request.feed["ids"]) == request.feed["ends"][-1]
    assert executable(request.feed)["out"].shape == (rows, 14)
    if kind == "missing":
        assert len(request.feed["ids"]) == 0


def test_rows_are_taken_and_joined(executable: Executable) -> None:
    parts = [make_request(PROGRAM, kind, rows) for kind, rows in (("ordinary", 5), ("corner", 6), ("missing", 2))]
    answers = [executable(p.feed)["out"] for p in parts]
    whole = joined(PROGRAM, parts, "all")
    assert whole.rows == 13 and rows_in(PROGRAM, whole.feed) == 13
    np.testing.assert_array_equal(executable(whole.feed)["out"], np.concatenate(answers))
    for chosen in ([], [4], [12, 0, 7, 7]):
        some = take(PROGRAM, whole, chosen)
        assert some.rows == len(chosen) and set(some.feed) == set(whole.feed)
        np.testing.assert_array_equal(executable(some.feed)["out"], np.concatenate(answers)[chosen])


def test_the_tolerance_of_a_ragged_column_is_that_of_its_own_rows() -> None:
    rows = weights()
    feed = {
        "ids": np.array([1, 2, 3]),
        "score": np.ones(3, np.float32),
        "ends": np.array([0, 0, 1, 3], np.int32),
        "one": np.zeros((3, 1), np.int64),
    }
    allowed = allowed_of_column(PROGRAM.columns[0], PROGRAM, rows, feed, 3)
    assert (allowed[:2] == 0).all() and (allowed[2] > 0).all()
    table = np.abs(rows.tables["t"][[2, 3]].astype(np.float64)).sum(0)
    np.testing.assert_allclose(allowed[2], 2 * 4 * np.finfo(np.float32).eps * 2 * table / 2, rtol=1e-6)


def test_a_ragged_program_is_verified_and_recorded() -> None:
    side = reference_side(PROGRAM, weights(), ReferenceBackend(), "zero")
    requests = [make_request(PROGRAM, kind, rows) for kind, rows in (("ordinary", 9), ("corner", 4), ("missing", 2))]
    assert verify(side, side, PROGRAM, weights(), requests).ok
    request, oracle = recorded(PROGRAM, record(PROGRAM, side, 8))
    assert request.rows == 8 and verify(side, oracle, PROGRAM, weights(), [request]).ok


def test_the_bytes_of_a_request_count_everything_once() -> None:
    feed = {
        "ids": np.array([7, 7, 1, 60, -1]),
        "score": np.ones(5, np.float32),
        "ends": np.array([0, 3, 5, 5], np.int32),
        "one": np.array([[7], [8], [7]]),
    }
    inputs = sum(v.nbytes for v in feed.values())
    of_t, of_u = {7, 1, 3, 8}, {7}  # 60 and -1 are outside; row 3 stands for the empty row; 1 is filtered in `kept`
    wanted = inputs + 16 * len(of_t) + 8 * len(of_u) + 4 * 3 * 14
    assert bytes_of_columns(PROGRAM, Request("r", 3, feed)) == wanted
    without = replace(PROGRAM, columns=PROGRAM.columns[3:])
    assert bytes_of_columns(without, Request("r", 3, feed)) == feed["one"].nbytes + 16 * 2 + 4 * 3 * 4


def test_ragged_columns_are_timed(executable: Executable) -> None:
    bench = Bench("ragged", executable, ReferenceBackend(), threads=1, checked={"ok": True, "oracle": "none"})
    (found,) = bench.run((3,), 1)
    assert isinstance(found, Measured) and found.what == "columns"
    assert found.floor["bytes"] == bytes_of_columns(PROGRAM, make_request(PROGRAM, "ordinary", 3))


def test_what_is_ragged_is_known() -> None:
    assert ragged(PROGRAM) == {"ids": "ends", "score": "ends"}
    packed = FeedReader(PROGRAM, layouts(PROGRAM)).read(make_request(PROGRAM, "ordinary", 3).feed).packed[0]
    assert set(packed.ragged) == {"ids", "score"}


DECODED = replace(
    PROGRAM,
    decodes=(
        Decode(
            "examples",
            B,
            (
                (Feature("ids", "int64", "ragged"), "ids"),
                (Feature("score", "float32", "ragged"), "score"),
                (Feature("one", "int64", "dense", (1,)), "one"),
                (Feature("checked", "string", "dense", (2,)), None),
                (Feature("other", "int64", "ragged"), None),
            ),
        ),
    ),
)
DECODED = replace(
    DECODED, inputs=tuple(replace(i, dtype="int64" if i.name == "ends" else i.dtype) for i in DECODED.inputs)
)


@pytest.mark.parametrize("kind", KINDS)
def test_examples_hold_what_the_inputs_are(kind: str) -> None:
    other = replace(DECODED, decodes=())
    plain, request = make_request(other, kind, 5, 3), make_request(DECODED, kind, 5, 3)
    assert set(request.feed) == {"examples"} and rows_in(DECODED, request.feed) == 5
    found = inputs_of(DECODED, request.feed)
    for name, value in plain.feed.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
        assert found[name].shape == value.shape
    assert bytes_of_columns(DECODED, request) == bytes_of_columns(other, plain)


def test_a_program_that_decodes_is_verified_and_timed() -> None:
    executable = Executable(DECODED, weights(), ReferenceBackend(), id_policy="zero")
    side = ColonnadeSide(executable, ReferenceBackend())
    requests = [make_request(DECODED, kind, rows) for kind, rows in (("ordinary", 9), ("corner", 4), ("missing", 2))]
    assert verify(side, side, DECODED, weights(), requests).ok
    plain = Executable(replace(DECODED, decodes=()), weights(), ReferenceBackend(), id_policy="zero")
    for request in requests:
        want = plain({**inputs_of(DECODED, request.feed)})["out"]
        np.testing.assert_array_equal(executable(request.feed)["out"], want)
        some = take(DECODED, request, [1, 0])
        np.testing.assert_array_equal(executable(some.feed)["out"], want[[1, 0]])
    request, oracle = recorded(DECODED, record(DECODED, side, 6))
    assert request.rows == 6 and verify(side, oracle, DECODED, weights(), [request]).ok
    bench = Bench("decoded", executable, ReferenceBackend(), threads=1, checked={"ok": True, "oracle": "none"})
    assert all(isinstance(m, Measured) for m in bench.run((2,), 1))


def test_rows_of_an_index_matrix_keep_their_places() -> None:
    inputs = (
        Input("ids", "int64", (N,), offsets="ends"),
        Input("ends", "int64", (dims.add(B, 1),)),
        Input("places", "int64", (N,)),
    )
    width = dims.symbol("T")
    rows = RowKeys("ids.indices", "indices", "ends", N, B, width, "ids.shape", places="places", strict=True)
    program = replace(PROGRAM, inputs=inputs, columns=(), tables=(), row_keys=(rows,))
    feed = {
        "ids": np.array([4, 5, 6]),
        "ids.indices": np.array([[0, 1], [0, 3], [2, 0]]),
        "ids.shape": np.array([3, 5]),
    }
    first, last = (take(program, Request("r", 3, feed), [row]) for row in (0, 2))
    assert first.feed.keys() == feed.keys()
    assert first.feed["ids"].tolist() == [4, 5] and first.feed["ids.indices"].tolist() == [[0, 1], [0, 3]]
    assert last.feed["ids.indices"].tolist() == [[0, 0]] and last.feed["ids.shape"].tolist() == [1, 1]
    both = joined(program, [last, first], "both")
    assert both.feed["ids.indices"].tolist() == [[0, 0], [1, 1], [1, 3]] and both.feed["ids.shape"].tolist() == [2, 4]
