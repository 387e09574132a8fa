"""The verification against TensorFlow itself: right programs are equal, wrong ones are noticed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import compiler
from colonnade.backends.reference import ReferenceBackend
from colonnade.ir.explanation import Explanation
from colonnade.ir.program import Program, Weights
from colonnade.testing import golden
from colonnade.testing.bench import torch_threads
from colonnade.testing.recording import record, recorded
from colonnade.testing.requests import Request, make_request
from colonnade.testing.sides import TensorFlowSide, reference_side
from colonnade.testing.verify import Verdict, verify
from tests.oracle.tf_models import saved
from tests.unit.testing.wrong import WRONG, Wrong, swapped_slots, wrong_boundary, wrong_parameter

Lowered = tuple[Program, Weights, Explanation, str]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


@pytest.fixture(scope="module")
def lowered() -> Lowered:
    return compiler.lower(golden.load("tiny").model)


@pytest.fixture(scope="module")
def oracle(lowered: Lowered) -> Iterator[TensorFlowSide]:
    side = TensorFlowSide(golden.load("tiny").model, lowered[0], threads=1)
    yield side
    side.close()


def _verdict(program: Program, weights: Weights, oracle: TensorFlowSide, requests: list[Request]) -> Verdict:
    return verify(reference_side(program, weights, ReferenceBackend()), oracle, oracle.program, weights, requests)


@pytest.fixture(scope="module")
def requests(lowered: Lowered) -> list[Request]:
    kinds = (("ordinary", 8), ("corner", 40), ("missing", 3), ("ordinary", 0))
    return [make_request(lowered[0], kind, rows) for kind, rows in kinds]


def test_the_right_program_is_equal_at_every_point(
    lowered: Lowered, oracle: TensorFlowSide, requests: list[Request]
) -> None:
    verdict = _verdict(lowered[0], lowered[1], oracle, requests)
    assert verdict.ok and not verdict.unchecked, verdict.as_dict(worst=3)
    assert all(r.compared and not r.differing for r in verdict.of_kind("column"))
    assert verdict.of_kind("concat")[0].compared and verdict.of_kind("before")[0].compared


@pytest.mark.parametrize("change", WRONG, ids=lambda f: f.__name__)
def test_a_wrong_program_is_noticed(
    change: Wrong, lowered: Lowered, oracle: TensorFlowSide, requests: list[Request]
) -> None:
    program, weights = change(lowered[0], lowered[1])
    asked = [make_request(lowered[0], "corner", 320)] if change is wrong_boundary else requests
    verdict = _verdict(program, weights, oracle, asked)
    assert not verdict.ok
    failed = {r.point.kind for r in verdict.results.values() if not r.ok}
    assert ("before" if change is wrong_parameter else "concat") in failed
    if change not in (wrong_parameter, swapped_slots):
        assert len([r for r in verdict.of_kind("column") if not r.ok]) == 1


def test_rows_recorded_from_tensorflow(lowered: Lowered, oracle: TensorFlowSide) -> None:
    kept = record(lowered[0], oracle, 8)
    request, side = recorded(lowered[0], kept)
    assert "tensorflow" in side.name
    ours = reference_side(lowered[0], lowered[1], ReferenceBackend())
    assert verify(ours, side, lowered[0], lowered[1], [request]).ok


def test_a_column_in_two_concats_of_one_width(tmp_path: Path) -> None:
    def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        ids = tf.compat.v1.placeholder(tf.int64, (None,), "ids")
        numbers = tf.compat.v1.placeholder(tf.float32, (None, 2), "numbers")
        rows = tf.nn.embedding_lookup(tf.compat.v1.get_variable("table", (5, 3)), ids)
        outputs = {f"times_{k}": tf.concat([numbers * k, rows], 1) for k in (2.0, 3.0)}
        return {"ids": ids, "numbers": numbers}, outputs

    path = saved(tmp_path / "model", build)
    program, weights, *_ = compiler.lower(path)
    feed = {"ids": np.array([0, 4, 2]), "numbers": np.array([[1, 2], [3, 4], [5, 6]], np.float32)}
    side = TensorFlowSide(path, program, threads=1)
    try:
        verdict = _verdict(program, weights, side, [Request("three", 3, feed)])
    finally:
        side.close()
    assert verdict.ok and len(verdict.of_kind("concat")) == 2, verdict.as_dict(worst=3)
