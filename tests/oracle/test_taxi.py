"""A wide-and-deep Estimator export that takes serialized Examples, against its recorded answers and TensorFlow's."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade.errors import FeedError
from colonnade.executable import Executable
from colonnade.frontends.tensorflow.importer import import_saved_model
from colonnade.ir.interpret import interpret
from colonnade.testing.deviations import excuse
from colonnade.testing.oracle import OracleError, TensorFlowModel
from tests.oracle.tf_models import TARGETS, compiled
from tests.unit.ops.graph import examples

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "taxi"
SIGNATURES = {"predict": "examples", "classification": "inputs", "regression": "inputs", "serving_default": "inputs"}
LOOKED_UP = {
    *("company", "payment_type", "dropoff_latitude", "dropoff_longitude", "pickup_latitude", "pickup_longitude"),
    *("trip_start_day", "trip_start_hour", "trip_start_month"),
}
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}

pytestmark = pytest.mark.shared


def model() -> Path:
    (path,) = (FOLDER / "estimator_savedmodel").iterdir()
    return path


@cache
def golden() -> tuple[Any, dict[str, Any]]:
    stored = json.loads((FOLDER / "estimator_predict_golden.json").read_text())
    rows = [base64.b64decode(text) for text in stored["examples_b64"]]
    made = np.empty(len(rows), object)
    made[:] = rows
    return made, stored["outputs"]


@cache
def executable(target: str, signature: str) -> Executable:
    return compiled(model(), target, signature)


def oracle(signature: str) -> TensorFlowModel:
    return TensorFlowModel(model(), signature, optimize=False)


def check(got: dict[str, Any], want: dict[str, Any]) -> None:
    assert got.keys() == want.keys()
    for key, value in want.items():
        found = np.asarray(got[key])
        if found.dtype == object:
            assert [[text.decode() for text in row] for row in found.tolist()] == value, key
        else:
            np.testing.assert_allclose(found, np.array(value, found.dtype), **TOLERANCE, err_msg=key)


def test_the_import_answers_as_recorded() -> None:
    rows, want = golden()
    check(interpret(import_saved_model(model(), "predict").graph, {"examples": rows}), want)


@pytest.mark.parametrize("target", TARGETS)
def test_recorded_answers(target: str) -> None:
    rows, want = golden()
    found = executable(target, "predict")
    assert {c.name for c in found.program.columns} == LOOKED_UP
    check(found({"examples": rows}), want)
    for k in range(0, len(rows), 32 if target == "gpu" else 16):
        one = {key: value[k : k + 1] for key, value in want.items()}
        check(found({"examples": rows[k : k + 1]}), one)
    assert found({"examples": rows[:0]})["logits"].shape == (0, 1)


@pytest.mark.parametrize("signature", SIGNATURES)
def test_every_signature_answers_as_tensorflow(signature: str) -> None:
    rows, _ = golden()
    odd = [b"", rows[0] + rows[1], examples.example(examples.entry("company", examples.listed("string", [b"new one"])))]
    odd.append(examples.example(examples.entry("trip_start_hour", examples.listed("int64", [-1]))))
    odd.append(examples.example(examples.entry("trip_start_hour", examples.listed("int64", [24]))))
    odd.append(examples.example(examples.entry("fare", examples.listed("float32", [float("nan")]))))
    odd.append(examples.example(examples.entry("pickup_latitude", examples.listed("float32", [float("nan")]))))
    fed = np.empty(len(rows) + len(odd), object)
    fed[:] = [*rows, *odd]
    key = SIGNATURES[signature]
    with oracle(signature) as source:
        want = source.run({key: fed})
    for target in TARGETS:
        got = executable(target, signature)({key: fed})
        assert got.keys() == want.keys()
        for name, value in want.items():
            assert got[name].shape == value.shape and got[name].dtype == value.dtype, name
            if value.dtype == object:
                assert got[name].tolist() == value.tolist(), name
            else:
                np.testing.assert_allclose(got[name], value, **TOLERANCE, err_msg=name)


# -- what is sent by mistake -------------------------------------------------------------------------------------------
EMPTY_LOGIT = -1.3239276
"""The answer to an Example without features."""


def texts(*rows: bytes) -> Any:
    made = np.empty(len(rows), object)
    made[:] = rows
    return made


@pytest.mark.parametrize("target", TARGETS)
def test_a_feature_of_another_type_is_an_error_that_names_it(target: str) -> None:
    seconds = examples.example(examples.entry("trip_seconds", examples.listed("float32", [600.0])))
    hour = examples.example(examples.entry("trip_start_hour", examples.listed("string", [b"7"])))
    for bad, parts in (
        ([seconds], ("Example 0", "trip_seconds", "float", "int64")),
        ([b"", hour, seconds], ("Example 1", "trip_start_hour", "Example 2", "trip_seconds")),
    ):
        with pytest.raises(OracleError, match="Data types don't match"), oracle("predict") as model:
            model.run({"examples": texts(*bad)})
        with pytest.raises(FeedError) as caught:
            executable(target, "predict")({"examples": texts(*bad)})
        for part in parts:
            assert part in str(caught.value), f"{part!r} is not in: {caught.value}"
    assert executable(target, "predict")({"examples": texts(b"")})["logits"].shape == (1, 1)


@pytest.mark.parametrize("target", TARGETS)
def test_bytes_that_hold_no_feature_are_an_empty_example(target: str) -> None:
    """Two bytes that happen to be a field of another number are a message; so is a feature that holds no values."""
    nothing = examples.example(examples.entry("fare", b""), examples.entry("company", examples.listed("string", [])))
    rows = texts(b"", b"xx", b"\x0a\x00", nothing)
    with oracle("predict") as model:
        want = model.run({"examples": rows})["logits"]
    got = executable(target, "predict")({"examples": rows})["logits"]
    np.testing.assert_allclose(got, want, **TOLERANCE)
    np.testing.assert_allclose(got.reshape(-1), [EMPTY_LOGIT] * len(rows), rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("signature", SIGNATURES)
def test_no_example_has_no_answer_where_tensorflow_raises(target: str, signature: str) -> None:
    nothing = {SIGNATURES[signature]: texts()}
    with oracle(signature) as model, pytest.raises(OracleError) as caught:
        model.run(nothing)
    listed = excuse(0, caught.value.message)
    assert listed is not None and listed.name == "no rows" and excuse(1, caught.value.message) is None
    got = executable(target, signature)(nothing)
    assert all(value.shape[0] == 0 for value in got.values())
    with oracle(signature) as model:
        shapes = {name: value.shape[1:] for name, value in model.run({SIGNATURES[signature]: texts(b"")}).items()}
    assert {name: value.shape[1:] for name, value in got.items()} == shapes
