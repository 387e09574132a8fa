"""A wide-and-deep Estimator export that takes serialized Examples, against its recorded answers and TensorFlow's."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade
from colonnade.executable import Executable
from colonnade.frontends.tensorflow.importer import import_saved_model
from colonnade.ir.interpret import interpret
from colonnade.testing.oracle import TensorFlowModel
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
    return colonnade.compile(model(), target, signature)


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


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_recorded_answers(target: str) -> None:
    rows, want = golden()
    found = executable(target, "predict")
    assert {c.name for c in found.program.columns} == LOOKED_UP
    check(found({"examples": rows}), want)
    for k in range(0, len(rows), 16):
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
    with TensorFlowModel(model(), signature, optimize=False) as oracle:
        want = oracle.run({key: fed})
    for target in ("reference", "cpu"):
        got = executable(target, signature)({key: fed})
        assert got.keys() == want.keys()
        for name, value in want.items():
            assert got[name].shape == value.shape and got[name].dtype == value.dtype, name
            if value.dtype == object:
                assert got[name].tolist() == value.tolist(), name
            else:
                np.testing.assert_allclose(got[name], value, **TOLERANCE, err_msg=name)
