"""Batches that fit their fields, and all faults of those that do not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.ragged import Ragged
from colonnade.core.strings import Strings
from colonnade.errors import FeedError
from colonnade.frontends.feature import FieldSpec
from colonnade.train.features.batch import read

TAGS = FieldSpec("x", "int64", ragged=1)
HEAVY = FieldSpec("x", "int64", ragged=1, weighted=True)
LISTS = FieldSpec("x", "int64", ragged=2)

FAULTS: list[tuple[FieldSpec, Any, str]] = [
    (FieldSpec("x", "int64"), np.zeros(2, np.int32), "int32"),
    (FieldSpec("x", "int64", width=3), np.zeros((2, 2), np.int64), "[2, 2]"),
    (FieldSpec("x", "string"), np.zeros(2), "float64"),
    (TAGS, np.zeros(3, np.int64), "want Ragged"),
    (TAGS, Ragged.of([1, 2], [0, 1]), "end at 1, but there are 2 values"),
    (TAGS, Ragged.of([1, 2], [0, 3]), "end at 3, but there are 2 values"),
    (TAGS, Ragged.of([1, 2], [1, 2]), "begin at 1"),
    (TAGS, Ragged.of([1, 2], [0, 2, 1, 2]), "give row 1 the length -1"),
    (TAGS, Ragged.of([1, 2], [0, 1], [0, 2]), "2 levels"),
    (TAGS, Ragged(torch.tensor([1]), (torch.tensor([0, 1], dtype=torch.int32),)), "torch.int32"),
    (TAGS, Ragged.of([1.5], [0, 1]), "float32"),
    (TAGS, Ragged.of([1], [0, 1], weights=[1]), "has weights, which are not declared"),
    (HEAVY, Ragged.of([1], [0, 1]), "has no weights"),
    (HEAVY, Ragged.of([1], [0, 1], weights=[1, 2]), "float32[2], want float32[1]"),
    (LISTS, Ragged.of([1], [0, 2], [0, 1]), "offsets[0] that end at 2, but there are 1 lists"),
    (LISTS, Ragged.of([1], [0, 1], [0, 2]), "offsets[1] that end at 2"),
    (TAGS, Ragged(Strings.from_objects([b"a"]), (torch.tensor([0, 1]),)), "holds strings"),
    (FieldSpec("x", "int64", width=2, weighted=True), Ragged.of([1], [0, 1], weights=[1]), "has not 2 elements"),
]


@pytest.mark.parametrize(("spec", "value", "fault"), FAULTS, ids=[fault for *_, fault in FAULTS])
def test_a_field_that_does_not_fit(spec: FieldSpec, value: Any, fault: str) -> None:
    with pytest.raises(FeedError) as e:
        read({"x": value}, [spec])
    assert fault in e.value.got


def test_all_faults_are_said_at_once() -> None:
    specs = [dataclasses.replace(spec, name=f"f{k}") for k, (spec, *_) in enumerate(FAULTS)]
    with pytest.raises(FeedError) as e:
        read({f"f{k}": value for k, (_, value, _) in enumerate(FAULTS)}, [*specs, FieldSpec("none", "int64")])
    assert all(f"'f{k}'" in e.value.got for k in range(len(FAULTS))) and "'none' is missing" in e.value.got


def test_rows_that_disagree_name_the_field() -> None:
    specs = [FieldSpec(name, "int64") for name in "abc"]
    with pytest.raises(FeedError, match="'b' has 3 rows, others 2"):
        read({"a": np.zeros(2, np.int64), "b": np.zeros(3, np.int64), "c": np.zeros(2, np.int64)}, specs)
