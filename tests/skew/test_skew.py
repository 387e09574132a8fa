"""Training and serving give one and the same ids: features in a program, and features transformed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from colonnade.backends.backend import Backend
from colonnade.backends.cpu import CpuBackend
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.backends.reference import ReferenceBackend
from colonnade.core.ragged import Ragged
from colonnade.errors import FeatureError
from colonnade.executable import Executable
from colonnade.frontends.feature import Feature
from colonnade.frontends.feature_program import program_of, request_of
from colonnade.frontends.feature_set import FeatureSet
from colonnade.ir.check_program import check as check_program
from colonnade.ir.program import Weights
from colonnade.testing.strategies_feature import FeatureCase, feature_cases
from colonnade.train.features.fused import FusedTransform
from colonnade.train.features.reference import ReferenceTransform

ROWS = 251
"""Of every table: row r holds 1, r and r^2, so that a sum over few rows tells which they were."""
TABLE = np.arange(ROWS, dtype=np.float32)[:, None] ** np.arange(3, dtype=np.float32)


def servable(case: FeatureCase) -> FeatureSet | None:
    """The features of a case that a program can hold, embedded in tables of few rows."""
    kept = []
    for feature in case.features.features:
        made = _embedded(feature, case.features)
        if made is None:
            continue
        try:
            program_of(FeatureSet([made], case.features.fields), {made.name: ROWS})
        except FeatureError:
            continue
        kept.append(made)
    return FeatureSet(kept, case.features.fields) if kept else None


def _embedded(feature: Feature, features: FeatureSet) -> Feature | None:
    dtype = features.known(feature.expr).elements.dtype
    plain = Feature(feature.name, feature.expr)
    if dtype == "string":
        plain = plain.hash_bytes()
    elif dtype.startswith("float"):
        plain = plain.bucketize([-1.0, 0.0, 0.5])
    elif dtype == "int32":
        plain = plain.cast("int64")
    return plain.mod(ROWS).embed(dim=3) if dtype != "bool" else None


def summed(x: Ragged) -> np.ndarray[Any, Any]:
    """Row by row, the weighted sum of the table's rows."""
    weights = torch.ones(len(x.values)) if x.weights is None else x.weights
    rows = torch.from_numpy(TABLE)[x.values] * weights[:, None]
    made = [rows[a:b].double().sum(0) for a, b in itertools.pairwise(x.offsets[0].tolist())]
    return torch.stack(made).numpy() if made else np.zeros((0, 3))


def check(case: FeatureCase, backend: Backend) -> None:
    features = servable(case)
    if features is None:
        return
    program = program_of(features, {f.name: ROWS for f in features.features})
    check_program(program)
    weights = Weights({t.name: TABLE for t in program.tables}, {}, {})
    served = Executable(program, weights, backend, id_policy="error", threads=1)
    got = served(request_of(case.batch, features))
    for transform in (ReferenceTransform(features), FusedTransform(features)):
        trained = transform(case.batch)
        for name, x in trained.sparse.items():
            np.testing.assert_array_equal(np.asarray(got[name], np.float64), summed(x), err_msg=name)


@settings(max_examples=60)
@given(case=feature_cases())
@pytest.mark.parametrize("backend", [ReferenceBackend(), CpuBackend()], ids=lambda b: b.name)
def test_a_program_looks_up_the_ids_of_the_transform(backend: Backend, case: FeatureCase) -> None:
    check(case, backend)


@settings(max_examples=6)
@given(case=feature_cases(max_features=3, rows=(0, 1, 3)))
def test_on_the_gpu_too(case: FeatureCase) -> None:
    check(case, GpuBackend(interpret=True))
