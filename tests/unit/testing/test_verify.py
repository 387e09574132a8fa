from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from colonnade import compiler
from colonnade.backends.reference import ReferenceBackend
from colonnade.core.dims import symbol
from colonnade.errors import ColonnadeError, IdRangeError
from colonnade.ir.explanation import Explanation
from colonnade.ir.program import Input, Instruction, Output, Program, Ref, Weights
from colonnade.testing import golden
from colonnade.testing.bench import torch_threads
from colonnade.testing.hints import hints_from
from colonnade.testing.oracle import OracleError
from colonnade.testing.points import points_of, probe
from colonnade.testing.recording import record, recorded
from colonnade.testing.requests import Request, corner_rows, joined, make_request, take
from colonnade.testing.sides import ColonnadeSide, reference_side
from colonnade.testing.verify import Verdict, _cut, _shaped, requests_for, rows_answered, verify
from tests.unit.testing.wrong import WRONG, Wrong, lost_filter, swapped_slots, wrong_boundary, wrong_parameter

BACKEND = ReferenceBackend()
Lowered = tuple[Program, Weights, Explanation, str]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


@pytest.fixture(scope="module")
def lowered() -> Lowered:
    return compiler.lower(golden.load("tiny").model)


class Remembering(ColonnadeSide):
    """Answers a request that it has answered before from memory."""

    def __init__(self, program: Program, weights: Weights) -> None:
        super().__init__(compiler.compile(program, "reference", weights=weights), BACKEND)
        self.name = "the reference backend"
        self._known: dict[int, tuple[Request, dict[str, NDArray[Any]]]] = {}

    def answer(self, request: Request) -> dict[str, NDArray[Any]]:
        known = self._known.get(id(request))
        if known is None or known[0] is not request:
            known = self._known[id(request)] = request, super().answer(request)
        return known[1]


@pytest.fixture(scope="module")
def right(lowered: Lowered) -> ColonnadeSide:
    return Remembering(lowered[0], lowered[1])


@pytest.fixture(scope="module")
def requests(lowered: Lowered) -> list[Request]:
    kinds = (("ordinary", 8), ("corner", 40), ("missing", 3), ("ordinary", 0))
    return [make_request(lowered[0], kind, rows) for kind, rows in kinds]


@pytest.fixture(scope="module")
def every_corner(lowered: Lowered) -> list[Request]:
    return [make_request(lowered[0], "corner", corner_rows(lowered[0]))]


def _verdict(side: ColonnadeSide, oracle: Any, requests: list[Request]) -> Verdict:
    return verify(side, oracle, oracle.program, side.weights, requests)


def test_a_right_program_is_equal(right: ColonnadeSide, lowered: Lowered, requests: list[Request]) -> None:
    other = reference_side(lowered[0], lowered[1], BACKEND)
    verdict = _verdict(other, right, requests)
    assert verdict.ok and not verdict.unchecked and not verdict.no_oracle
    assert len(verdict.of_kind("column")) == len(lowered[0].columns)
    assert verdict.as_dict()["failed"] == {"column": 0, "concat": 0, "before": 0, "output": 0}
    assert {r.point.step for r in verdict.of_kind("before")} == {"round"}


@pytest.mark.parametrize("change", WRONG, ids=lambda f: f.__name__)
def test_a_wrong_program_is_noticed(
    change: Wrong, right: ColonnadeSide, lowered: Lowered, requests: list[Request], every_corner: list[Request]
) -> None:
    program, weights = change(lowered[0], lowered[1])
    asked = every_corner if change is wrong_boundary else requests
    verdict = _verdict(reference_side(program, weights, BACKEND), right, asked)
    assert not verdict.ok
    failed = [r for r in verdict.results.values() if not r.ok]
    kinds = {r.point.kind for r in failed}
    if change is wrong_parameter:
        assert "before" in kinds and "column" not in kinds
    else:
        assert "concat" in kinds
    if change not in (wrong_parameter, swapped_slots):
        assert len([r for r in failed if r.point.kind == "column"]) == 1


def test_a_boundary_off_by_one_ulp_needs_the_corner_rows(right: ColonnadeSide, lowered: Lowered) -> None:
    side = reference_side(*wrong_boundary(lowered[0], lowered[1]), BACKEND)
    assert _verdict(side, right, [make_request(side.program, "ordinary", 64)]).ok


def test_the_requests_show_every_corner(lowered: Lowered) -> None:
    names = [(r.name, r.rows) for r in requests_for(lowered[0], (1, 7), 8)]
    ordinary = [("ordinary-1", 1), ("ordinary-7", 7), ("ordinary-8", 8)]
    assert corner_rows(lowered[0]) > 3 * 100
    corner = [(f"corner-{n}", n) for n in (1, 7, corner_rows(lowered[0]))]
    assert names == [*ordinary, *corner, ("missing-3", 3), ("ordinary-0", 0)]


def test_a_check_that_compares_nothing_is_red(right: ColonnadeSide) -> None:
    assert not _verdict(right, right, [make_request(right.program, "ordinary", 0)]).ok


# -- rows that one side refuses -------------------------------------------------------------------------------------


class Refusing:
    """Refuses, or fails on, the rows in which an input holds a value."""

    def __init__(self, side: ColonnadeSide, key: str, value: object, error: type[Exception] = IdRangeError) -> None:
        self.name, self.program, self.weights = side.name, side.program, side.weights
        self.side, self.key, self.value, self.error = side, key, value, error

    def answer(self, request: Request) -> dict[str, NDArray[Any]]:
        if (request.feed[self.key] == self.value).any():
            raise self.error("refused")
        return self.side.answer(request)


def _marked(right: ColonnadeSide, rows: list[int]) -> Request:
    request = make_request(right.program, "ordinary", 9)
    request.feed["int_0"][rows] = 77_777
    return request


def test_rows_that_the_source_refuses_and_we_answer_are_red(right: ColonnadeSide) -> None:
    oracle = Refusing(right, "int_0", 77_777)
    verdict = _verdict(right, oracle, [_marked(right, [2, 7])])
    assert not verdict.ok and verdict.both_refused == 0
    for notes in (verdict.no_oracle, verdict.answered):
        assert sorted((n.row, n.message) for n in notes) == [(2, "refused"), (7, "refused")]
    assert all(r.compared and r.ok for r in verdict.results.values())


def test_a_request_without_rows_may_be_answered_where_the_source_refuses_it(right: ColonnadeSide) -> None:
    class NoRows(Refusing):
        def answer(self, request: Request) -> dict[str, NDArray[Any]]:
            if not request.rows:
                raise OracleError("cannot infer the missing input size for an empty tensor")
            return self.side.answer(request)

    requests = [make_request(right.program, "ordinary", rows) for rows in (0, 3)]
    verdict = _verdict(right, NoRows(right, "int_0", 0), requests)
    assert verdict.ok and len(verdict.no_oracle) == 1 and not verdict.answered and not verdict.both_refused


def test_rows_that_both_refuse_are_counted(right: ColonnadeSide) -> None:
    side = Refusing(right, "int_0", 77_777)
    verdict = _verdict(side, Refusing(right, "int_0", 77_777), [_marked(right, [0])])  # type: ignore[arg-type]
    assert verdict.ok and verdict.both_refused == 1


@pytest.mark.parametrize(("count", "enough"), [(4, True), (5, False)])
def test_a_check_of_which_the_source_refuses_most_is_red(right: ColonnadeSide, count: int, enough: bool) -> None:
    side: Any = Refusing(right, "int_0", 77_777)
    request = _marked(right, list(range(count)))
    verdict = _verdict(side, Refusing(right, "int_0", 77_777), [request])
    assert (verdict.ordinary, verdict.ordinary_refused) == (9, count)
    assert verdict.enough is verdict.ok is enough and verdict.as_dict()["ordinary_refused"] == count
    corner = replace(request, name="corner-9")
    assert _verdict(side, Refusing(right, "int_0", 77_777), [corner]).ok


def test_rows_that_only_colonnade_refuses_are_red(right: ColonnadeSide) -> None:
    side = Refusing(right, "int_0", 77_777)
    verdict = _verdict(side, right, [_marked(right, [4])])  # type: ignore[arg-type]
    assert not verdict.ok and [n.row for n in verdict.refused] == [4]


def test_a_crash_is_red_with_and_without_an_oracle(right: ColonnadeSide) -> None:
    side: Any = Refusing(right, "int_0", 77_777, IndexError)
    assert _verdict(side, right, [_marked(right, [4])]).crashed
    verdict = _verdict(side, Refusing(right, "int_0", 77_777), [_marked(right, [4])])
    assert not verdict.ok and "IndexError" in verdict.crashed[0].message


def test_rows_are_found_by_halving(right: ColonnadeSide) -> None:
    good, bad = rows_answered(right.program, Refusing(right, "int_0", 77_777), _marked(right, [0, 3, 8]))
    assert sorted(bad) == [0, 3, 8] and good.tolist() == [1, 2, 4, 5, 6, 7]


# -- steps ------------------------------------------------------------------------------------------------------------


def _round_program() -> Program:
    batch = symbol("B")
    return Program(
        inputs=(Input("x", "float32", (batch, 1)),),
        tables=(),
        columns=(),
        buffers=(),
        dense=(
            Instruction("s", "aten.sigmoid.default", (Ref("x"),)),
            Instruction("r", "aten.round_.default", (Ref("s"),)),
        ),
        outputs=(Output("y", Ref("r"), "float32", (batch, 1)),),
    )


class Fixed:
    """Answers with given values."""

    name = "fixed"

    def __init__(self, before: list[float], output: list[float]) -> None:
        self.before = np.array(before, np.float32)[:, None]
        self.output = np.array(output, np.float32)[:, None]

    def answer(self, request: Request) -> Mapping[str, NDArray[Any]]:
        return {"before:s": self.before, "output:y": self.output}


@pytest.mark.parametrize(
    ("before", "other", "ok", "excused"),
    [
        ([0.7, 0.49999997], [0.7, 0.50000006], True, [True]),  # a tie, within the tolerance of the step
        ([0.7, 0.499], [0.7, 0.501], False, [False]),  # both sides of the step, and too far apart
        ([0.7, 0.8], [0.7, 0.8], False, [False]),  # the same before, another output
    ],
)
def test_a_flip_is_excused_only_at_the_step(
    before: list[float], other: list[float], ok: bool, excused: list[bool]
) -> None:
    program = _round_program()
    request = Request("r", 2, {"x": np.zeros((2, 1), np.float32)})
    ours: Any = Fixed(before, [1.0, 0.0])
    theirs: Any = Fixed(other, [1.0, 1.0])
    verdict = verify(ours, theirs, program, Weights({}, {}, {}), [request])
    assert verdict.ok is ok
    assert [f.excused for f in verdict.flips] == excused
    assert verdict.flips[0].row == 1


@pytest.mark.parametrize(("other", "excused"), [(0.50000006, True), (0.501, False)])
def test_one_number_for_all_rows_stands_before_each(other: float, excused: bool) -> None:
    request = Request("r", 2, {"x": np.zeros((2, 1), np.float32)})
    ours: Any = Fixed([], [1.0, 0.0])
    theirs: Any = Fixed([], [1.0, 1.0])
    ours.before, theirs.before = np.array(0.49999997, np.float32), np.array(other, np.float32)
    verdict = verify(ours, theirs, _round_program(), Weights({}, {}, {}), [request])
    assert [(f.row, f.excused) for f in verdict.flips] == [(1, excused)]


def test_the_probe_overwrites_nothing() -> None:
    program = _round_program()
    made = probe(program)
    assert [line.op for line in made.dense] == ["aten.sigmoid.default", "aten.round.default"]
    assert [o.name for o in made.outputs] == ["output:y", "before:s"]
    assert [p.step for p in points_of(program) if p.kind == "before"] == ["round"]


def test_what_no_node_of_the_source_is_is_looked_through() -> None:
    """The largest of numbers and NaN is that of numbers and infinity: the source has the numbers."""
    program = _round_program()
    lines = (
        program.dense[0],
        Instruction("n", "aten.ne.Tensor", (Ref("s"), Ref("s")), source="n"),
        Instruction("w", "aten.where.ScalarSelf", (Ref("n"), float("inf"), Ref("s")), source="w"),
        Instruction("r", "aten.argmax.default", (Ref("w"), 1), source="Largest"),
    )
    found = [p for p in points_of(replace(program, dense=lines)) if p.kind == "before"]
    assert [(p.name, p.step) for p in found] == [("s", "argmax")]


# -- requests ----------------------------------------------------------------------------------------------------------


def test_hints_come_from_the_columns(lowered: Lowered) -> None:
    hints = hints_from(lowered[0])
    assert len(hints.boundaries["num_0"]) == 100 and hints.separators["split_0"] == b";"
    assert not hints.ids


def test_requests_repeat_and_rows_can_be_taken_and_joined(lowered: Lowered) -> None:
    program = lowered[0]
    request, again = make_request(program, "corner", 5, 3), make_request(program, "corner", 5, 3)
    assert all(
        np.array_equal(request.feed[k], again.feed[k], equal_nan=v.dtype.kind == "f") for k, v in request.feed.items()
    )
    part = take(program, request, [3, 1])
    both = joined(program, [part, request], "both")
    assert both.rows == 7 and both.feed["str_0"].tolist()[:2] == request.feed["str_0"][[3, 1]].tolist()
    assert make_request(program, "missing", 2).feed["str_0"].tolist() == [[b""], [b""]]


# -- golden rows -------------------------------------------------------------------------------------------------------


def test_golden_rows_are_met_by_the_right_program_only(right: ColonnadeSide, lowered: Lowered) -> None:
    kept = record(lowered[0], right, 24)
    request, side = recorded(lowered[0], kept)
    assert "reference" in side.name and request.rows == 24
    assert not any(key.startswith("column:") for key in kept.outputs), "a column is part of its buffer"
    assert verify(right, side, lowered[0], lowered[1], [request]).ok
    wrong = reference_side(*lost_filter(lowered[0], lowered[1]), BACKEND)
    assert not verify(wrong, side, lowered[0], lowered[1], [request]).ok


def test_rows_that_the_oracle_refuses_are_not_recorded(right: ColonnadeSide, lowered: Lowered) -> None:
    oracle: Any = Refusing(right, "int_0", make_request(lowered[0], "ordinary", 3).feed["int_0"][0, 0])
    kept = record(lowered[0], oracle, 6)
    assert len(kept.inputs["int_0"]) == 5
    with pytest.raises(ColonnadeError, match="no answer is recorded"):
        recorded(lowered[0], kept)[1].answer(replace_name(make_request(lowered[0], "ordinary", 1)))


def replace_name(request: Request) -> Request:
    return replace(request, name="another")


def test_rows_of_several_places_are_compared_row_by_row() -> None:
    like = np.arange(30, dtype=np.float32).reshape(3, 10)
    assert np.array_equal(_shaped(like.reshape(15, 2), like), like)
    assert np.array_equal(_shaped(like[:1].reshape(10, 1), like[:1]), like[:1])
    assert _shaped(like.reshape(10, 3), like).shape == (10, 3)


def test_rows_that_a_device_added_are_left_out_before_a_step() -> None:
    like = np.zeros((5, 2), np.float32)
    assert _cut(np.ones((8, 2), np.float32), like).shape == (5, 2)
    assert _cut(np.ones((4, 2), np.float32), like).shape == (4, 2)
    assert _cut(np.ones((8, 3), np.float32), like).shape == (8, 3)
