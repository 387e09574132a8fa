"""Requests for rows of rows: by keys, lists or offsets, and what is said where they do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from colonnade.backends.reference import ReferenceBackend
from colonnade.errors import FeedError
from colonnade.executable import Executable
from colonnade.ir.program import Weights
from colonnade.ir.text import parse_program, print_program

BOTH = """colonnade program 1
input x: int64[N] offsets x.offsets
input x.offsets: int64[{B + 1}]
rows x.offsets: int64[B, t0] of nested x_2[b1] in x_1[b0]
table t: float32[50, 8]
buffer c: float32[B, 8]
column x = %x -> table t pool sum -> c[0:8]
output y: float32[B, 8] = %c
"""
INNER = """colonnade program 1
input x: int64[N] offsets x.offsets
input x_1.offsets: int64[{B + 1}]
input x.offsets: int64[{r0 + 1}]
rows x_1.offsets: int64[B, u0] of splits x_1[b0] over [r0]
rows x.offsets: int64[r0, t0] of splits x_2[b1]
table t: float32[50, 8]
buffer c: float32[r0, 8]
column x = %x -> table t pool sum -> c[0:8]
%y = colonnade.sum_rows(%c, %x_1.offsets)
output y: float32[B, 8] = %y
"""
TABLE = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
WANT = np.stack([TABLE[:3].sum(0), TABLE[3:5].sum(0)])
X = np.arange(5)
WRAPPED = np.array([0, 2**62, 2**63 - 1, -(2**63), -(2**62), 0, 3])
"""They fall, and no difference is below 0 in int64: who adds up by them reads foreign memory."""
KEYS = {"x": X, "x_1": np.array([0, 2, 3]), "x_2": np.array([0, 1, 3, 5])}


def executable(text: str) -> Executable:
    program = parse_program(text, {})
    assert print_program(program) == text
    return Executable(program, Weights({"t": TABLE}, {}, {}), ReferenceBackend())


@pytest.mark.parametrize(
    ("text", "feed"),
    [
        (BOTH, KEYS),
        (INNER, KEYS),
        (INNER, {key: value.tolist() for key, value in KEYS.items()}),
        (BOTH, {"x": X, "x.offsets": np.array([0, 3, 5])}),
        (BOTH, pa.record_batch({"x": pa.array([[0, 1, 2], [3, 4]])})),
        (INNER, {"x": X, "x.offsets": np.array([0, 1, 3, 5]), "x_1.offsets": np.array([0, 2, 3])}),
    ],
)
def test_rows_of_rows_are_read(text: str, feed: Any) -> None:
    np.testing.assert_allclose(executable(text)(feed)["y"], WANT, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "changed", "reason"),
    [
        (BOTH, {"x_1": np.array([0, 2, 4])}, "x_1: splits do not end with the rows that they are of: 4, want 3"),
        (BOTH, {"x_2": np.array([0, 1, 3, 4])}, "x: has 5 values, but the offsets"),
        (BOTH, {"x_1": np.array([0, 2, 3.5])}, "x_1: is float64"),
        (BOTH, {"x_2": None}, "x_2: missing"),
        (INNER, {"x_1": np.array([0, 2, 4])}, "says r0 = 3, others 4"),
        (INNER, {"x_1": np.array([0, 3, 2, 3])}, "x_1: splits fall"),
        (INNER, {"x_1": WRAPPED}, "x_1: splits fall"),
        (BOTH, {"x_1": WRAPPED}, "x_1: splits fall"),
        (BOTH, {"x_2": np.array([0, 3, 1, 5])}, "x_2: splits fall"),
        (INNER, {"x_1": None}, "x_1: missing"),
        (INNER, {"x_1": None, "x_1.offsets": WRAPPED}, "x_1.offsets: splits fall"),
        (INNER, {"x_1": None, "x_1.offsets": np.array([0, 9, 3])}, "x_1.offsets: splits fall"),
    ],
)
def test_what_does_not_fit_is_said(text: str, changed: Mapping[str, Any], reason: str) -> None:
    feed = {key: value for key, value in (KEYS | dict(changed)).items() if value is not None}
    with pytest.raises(FeedError) as caught:
        executable(text)(feed)
    assert reason in f"{caught.value} {caught.value.got}"


UNIFORM = """colonnade program 1
input x: int64[r0, 2]
input x_1.offsets: int64[{B + 1}]
rows x_1.offsets: int64[B, u0] of splits x_1[b0] over [r0]
table t: float32[50, 8]
buffer c: float32[r0, 8]
column x = %x -> table t pool sum -> c[0:8]
%y = colonnade.sum_rows(%c, %x_1.offsets)
output y: float32[B, 8] = %y
"""


def test_rows_of_as_many_values_are_as_many_as_splits_say() -> None:
    run, x = executable(UNIFORM), np.arange(6).reshape(3, 2)
    want = np.stack([TABLE[:4].sum(0), TABLE[4:6].sum(0)])
    np.testing.assert_allclose(run({"x": x, "x_1": np.array([0, 2, 3])})["y"], want, rtol=1e-6, atol=1e-6)
    for end in (2, 4):
        with pytest.raises(FeedError, match=f"x: has 3 rows, want r0 = {end}"):
            run({"x": x, "x_1": np.array([0, 2, end])})
