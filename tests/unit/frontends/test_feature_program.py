"""Programs made of features: what they hold, and what no column can be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from colonnade.backends.cpu import CpuBackend
from colonnade.backends.reference import ReferenceBackend
from colonnade.core.ragged import Ragged
from colonnade.errors import FeatureError
from colonnade.executable import Executable
from colonnade.frontends.feature import Feature, FieldSpec
from colonnade.frontends.feature_program import program_of, request_of
from colonnade.frontends.feature_set import FeatureSet
from colonnade.ir.check_program import check
from colonnade.ir.program import Weights
from colonnade.ir.text import consts_of, parse_program, print_program
from colonnade.ops.add_place import AddPlace

FIELDS = (
    FieldSpec("city", "string"),
    FieldSpec("age", "float32", width=2),
    FieldSpec("tags", "int32", ragged=1, weighted=True),
    FieldSpec("lists", "int64", ragged=2),
)


def test_a_program_prints_parses_and_answers() -> None:
    features = FeatureSet(
        [
            Feature("city").hash_bytes("murmur").mod(5).embed(dim=2),
            Feature("age").log().dense(),
            Feature("old", "age").bucketize([0.0, 1.0]).embed(dim=1, pooling="none"),
            Feature("tags").drop([3]).mod(5).embed("city", dim=2, pooling="mean"),
            Feature("lists"),
        ],
        FIELDS,
    )
    program = program_of(features, {"city": 5, "old": 3})
    check(program)
    assert parse_program(print_program(program), consts_of(program)) == program
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    weights = Weights({"city": rows, "old": np.array([[7], [8], [9]], np.float32)}, {}, {})
    batch = {
        "city": np.array([b"a", b"b"], object),
        "age": np.array([[1, -1], [0.5, 2]], np.float32),
        "tags": Ragged.of(torch.tensor([1, 3, 4], dtype=torch.int32), [0, 3, 3], weights=[1, 5, 3]),
        "lists": Ragged.of([1], [0, 1, 1], [0, 1]),
    }
    got = Executable(program, weights, ReferenceBackend())(request_of(batch, features))
    np.testing.assert_array_equal(got["old"], [[9, 7], [8, 9]])
    np.testing.assert_array_equal(got["tags"], [(rows[1] + 3 * rows[4]) / 4, [0, 0]])
    assert got["age"][0, 0] == 0 and np.isnan(got["age"][0, 1])


def test_a_bool_keeps_its_range() -> None:
    wide = Feature("seen").map(AddPlace(2**63 - 2, 2), Feature("seen")).bucketize([2.0]).embed("t", dim=1)
    features = FeatureSet([wide], [FieldSpec("seen", "bool")])
    program = program_of(features, {"t": 2})
    weights = Weights({"t": np.array([[7], [8]], np.float32)}, {}, {})
    batch = {"seen": np.array([True, False])}
    for backend in (ReferenceBackend(), CpuBackend()):
        got = Executable(program, weights, backend)(request_of(batch, features))
        np.testing.assert_array_equal(got["seen"], [[8], [7]])


def test_what_no_column_can_be_is_listed() -> None:
    features = FeatureSet(
        [
            Feature("a", "tags").truncate(2).embed(),
            Feature.cross("b", "tags", "tags").embed(),
            Feature("c", "lists").embed(),
            Feature("d", "tags").embed(pooling="none"),
            Feature("e", "tags").mask([1]).embed(),
            Feature("f", "city").hash_bytes().embed("none"),
            Feature("g", "city").split(";").split(",").hash_bytes().embed(),
        ],
        FIELDS,
    )
    with pytest.raises(FeatureError) as e:
        program_of(features, dict.fromkeys("abcdeg", 9))
    assert all(f"feature {name!r}" in e.value.got for name in "abcdeg")
    assert "table 'none': nothing says its rows" in e.value.got
