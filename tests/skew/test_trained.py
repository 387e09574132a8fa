"""What was trained is what is served: an engine of features, and the program that it makes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.backends.backend import Backend
from colonnade.backends.cpu import CpuBackend
from colonnade.backends.reference import ReferenceBackend
from colonnade.errors import FeatureError
from colonnade.executable import Executable
from colonnade.frontends.feature import Feature
from colonnade.frontends.feature_program import program_of, request_of
from colonnade.frontends.feature_set import FeatureSet
from colonnade.testing.strategies_feature import FeatureCase, feature_cases
from colonnade.train.feature_engine import FeatureEngine
from colonnade.train.initializers import Normal
from colonnade.train.optimizers import Adagrad

ROWS = 17
POOLINGS = ("sum", "mean", "sqrtn", "max")


def trainable(case: FeatureCase, dtype: str) -> FeatureSet | None:
    """The features of a case that can be served, in tables that every third of them shares."""
    kept: list[Feature] = []
    for k, feature in enumerate(case.features.features):
        known = case.features.known(feature.expr)
        plain = Feature(feature.name, feature.expr)
        kind = known.elements.dtype
        if kind == "bool":
            continue
        if kind == "string":
            plain = plain.hash_bytes()
        elif kind.startswith("float"):
            plain = plain.bucketize([-1.0, 0.0, 0.5])
        elif kind == "int32":
            plain = plain.cast("int64")
        made = plain.mod(ROWS).embed(f"t{k % 3}", 3, POOLINGS[k % 4], dtype=dtype)
        if known.rows.width is not None and not known.weighted and k % 5 == 0:
            made = replace(made, embedding=replace(made.embedding, pooling="none", length=known.rows.width))  # type: ignore[type-var]
        try:
            program_of(FeatureSet([made], case.features.fields), {f"t{k % 3}": ROWS})
        except FeatureError:
            continue
        kept.append(made)
    return FeatureSet(kept, case.features.fields) if kept else None


@settings(max_examples=40)
@given(case=feature_cases(), dtype=st.sampled_from(["float32", "bfloat16", "float16"]))
@pytest.mark.parametrize("backend", [ReferenceBackend(), CpuBackend()], ids=lambda b: b.name)
def test_a_trained_engine_is_served_with_the_same_numbers(backend: Backend, case: FeatureCase, dtype: str) -> None:
    features = trainable(case, dtype)
    if features is None:
        return
    engine = FeatureEngine(features, optimizer=Adagrad(0.5), initializer=Normal(0, 1))
    for _ in range(2):
        sum(x.sin().sum() for x in engine(case.batch).values()).backward()
        assert engine.step()
    engine.eval()
    program, weights = engine.served({t.name: ROWS for t in features.tables})
    assert weights.misfits(program) == []
    served = Executable(program, weights, backend, id_policy="error", threads=1)(request_of(case.batch, features))
    with torch.no_grad():
        trained = engine(case.batch)
    for feature in features.features:
        want, got = trained[feature.name].flatten(1).numpy(), np.asarray(served[feature.name])
        exact = backend.name == "cpu" and not features.known(feature.expr).weighted
        np.testing.assert_allclose(
            got, want, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-5, err_msg=feature.name
        )
