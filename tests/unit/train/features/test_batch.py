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
from colonnade.frontends.feature import Feature, FieldSpec
from colonnade.frontends.feature_set import FeatureSet
from colonnade.train.features.batch import read
from colonnade.train.features.fused import FusedTransform
from colonnade.train.features.placed import Placer

TAGS = FieldSpec("x", "int64", ragged=1)
HEAVY = FieldSpec("x", "int64", ragged=1, weighted=True)
LISTS = FieldSpec("x", "int64", ragged=2)
ONE = Ragged.of([1], [0, 1])
TEXT = np.frombuffer(b"abc", np.uint8)
UNSOUND = {
    "past the end": Strings(TEXT, np.array([0, 1, 30])),
    "before the start": Strings(TEXT, np.array([-1, 1, 2])),
    "falling": Strings(TEXT, np.array([0, 2, 1])),
    "int32": Strings(TEXT, np.array([0, 1, 2], np.int32)),
    "big-endian": Strings(TEXT, np.array([0, 1, 2], ">i8")),
    "strided": Strings(TEXT[::2], np.array([0, 1, 2])),
    "strided offsets": Strings(TEXT, np.array([0, 9, 1, 9, 2])[::2]),
    "no offsets": Strings(TEXT, np.zeros(0, np.int64)),
    "a tensor": Strings(TEXT, torch.tensor([0, 1, 2])),  # type: ignore[arg-type]
    "bytes": Strings(b"abc", np.array([0, 1, 2])),  # type: ignore[arg-type]
}

FAULTS: list[tuple[FieldSpec, Any, str]] = [
    (FieldSpec("x", "int64"), np.zeros(2, np.int32), "int32"),
    (FieldSpec("x", "int64", width=3), np.zeros((2, 2), np.int64), "[2, 2]"),
    (FieldSpec("x", "string"), np.zeros(2), "float64"),
    (TAGS, np.zeros(3, np.int64), "want Ragged"),
    (TAGS, Ragged.of([1, 2], [0, 1]), "end at 1, but there are 2 values"),
    (TAGS, Ragged.of([1, 2], [0, 3]), "end at 3, but there are 2 values"),
    (TAGS, Ragged.of([1, 2], [1, 2]), "begin at 1"),
    (TAGS, Ragged.of([1, 2], [0, 2, 1, 2]), "give row 1 the length -1"),
    (TAGS, Ragged.of([1, 2], [0, 2**62, 2**63 - 1, -(2**63), -(2**62), 0, 2]), f"give row 2 the length {1 - 2**64}"),
    (TAGS, Ragged.of([1, 2], [0, 1], [0, 2]), "2 levels"),
    (TAGS, Ragged(torch.tensor([1]), (torch.tensor([0, 1], dtype=torch.int32),)), "torch.int32"),
    (TAGS, Ragged.of([1.5], [0, 1]), "float32"),
    (TAGS, Ragged.of([1], [0, 1], weights=[1]), "has weights, which are not declared"),
    (HEAVY, Ragged.of([1], [0, 1]), "has no weights"),
    (HEAVY, Ragged.of([1], [0, 1], weights=[1, 2]), "float32[2], want float32[1]"),
    (LISTS, Ragged.of([1], [0, 2], [0, 1]), "offsets[0] that end at 2, but there are 1 lists"),
    (LISTS, Ragged.of([1], [0, 1], [0, 2]), "offsets[1] that end at 2"),
    (TAGS, Ragged(Strings.from_objects([b"a"]), (torch.tensor([0, 1]),)), "holds strings"),
    (TAGS, Ragged(torch.tensor([1]), (torch.empty(2, dtype=torch.int64, device="meta"),)), "offsets that are on meta"),
    (TAGS, Ragged(torch.tensor([1]), (torch.tensor([0, 1]).to_sparse(),)), "offsets that are torch.sparse_coo"),
    (TAGS, Ragged(torch.tensor([1]), ([0, 1],)), "offsets that are builtins.list"),  # type: ignore[arg-type]
    (HEAVY, dataclasses.replace(ONE, weights=torch.ones(1, device="meta")), "weights that are on meta"),
    (HEAVY, dataclasses.replace(ONE, weights=np.ones(1, np.float32)), "weights that are numpy.ndarray"),
    (HEAVY, dataclasses.replace(ONE, weights=torch.ones(1, requires_grad=True)), "weights that require a gradient"),
    (FieldSpec("x", "float32"), torch.ones(1, requires_grad=True), "values that require a gradient"),
    (FieldSpec("x", "int64", width=2, weighted=True), Ragged.of([1], [0, 1], weights=[1]), "has not 2 elements"),
    (FieldSpec("x", "int32"), torch.tensor([2**40]), "int64, want int32"),
    (FieldSpec("x", "bool"), torch.tensor([2]), "int64, want bool"),
    (FieldSpec("x", "bool", ragged=1), Ragged.of([2], [0, 1]), "is int64, want bool"),
    (TAGS, Ragged.of(torch.ones(1, 2, dtype=torch.int64), [0, 2]), "values of shape [1, 2]"),
    (FieldSpec("x", "int64"), Strings.from_objects([b"a"]), "holds strings, want int64"),
]


@pytest.mark.parametrize(("spec", "value", "fault"), FAULTS, ids=[fault for *_, fault in FAULTS])
def test_a_field_that_does_not_fit(spec: FieldSpec, value: Any, fault: str) -> None:
    with pytest.raises(FeedError) as e:
        read({"x": value}, [spec])
    assert fault in e.value.got
    feature = Feature("x").hash_bytes() if spec.dtype == "string" else Feature("x")
    with pytest.raises(FeedError) as e:
        FusedTransform(FeatureSet([feature if spec.dtype != "float32" else feature.dense()], [spec]))({"x": value})
    assert fault in e.value.got


@pytest.mark.parametrize("strings", UNSOUND.values(), ids=UNSOUND)
def test_strings_are_read_where_they_are_sound(strings: Strings) -> None:
    for spec, value in (
        (FieldSpec("x", "string"), strings),
        (FieldSpec("x", "string", ragged=1), Ragged(strings, (torch.tensor([0, 2]),))),
    ):
        with pytest.raises(FeedError, match="is Strings of other arrays than"):
            FusedTransform(FeatureSet([Feature("x").hash_bytes()], [spec]))({"x": value})


def test_tensors_that_torch_negates_when_they_are_read() -> None:
    """The imaginary part of a conjugate is one; zeros without memory are others."""
    specs = [FieldSpec("x", "float32"), FieldSpec("y", "int64", ragged=1, weighted=True), FieldSpec("z", "float32")]
    minus = torch.tensor([0, -1], dtype=torch.int64)
    batch = {
        "x": torch.tensor([1 + 2j]).conj().imag,
        "y": Ragged(torch._neg_view(torch.tensor([7])), (torch._neg_view(minus),), torch._neg_view(torch.ones(1))),
        "z": torch._efficientzerotensor(1),
    }
    found = FusedTransform(FeatureSet([Feature("x").dense(), Feature("y"), Feature("z").dense()], specs))(batch)
    assert found.dense["x"].tolist() == [[-2.0]] and found.dense["z"].tolist() == [[0.0]]
    y = found.sparse["y"]
    assert y.values.tolist() == [-7] and y.offsets[0].tolist() == [0, 1]
    assert y.weights is not None and y.weights.tolist() == [-1.0]


def test_bytes_that_are_seen_as_bools_are_true_unless_0() -> None:
    given = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
    transform = FusedTransform(FeatureSet([Feature("x")], [FieldSpec("x", "bool")]))
    for value in (given, torch.from_numpy(given)):
        assert transform({"x": value}).sparse["x"].values.tolist() == [0, 1, 1, 1]


def test_offsets_and_weights_lie_as_torch_lays_them() -> None:
    batch = {
        "x": Ragged(torch.tensor([7, 8]), (torch.tensor([0, 9, 1, 9, 2])[::2],), torch.tensor([1.0, 9.0, 2.0])[::2])
    }
    (placed,) = Placer([HEAVY], 1).place(batch).fields
    assert placed.weights is not None
    assert placed.offsets[0].tolist() == [0, 1, 2] and placed.weights.tolist() == [1, 2]
    assert placed.offsets[0].is_contiguous() and placed.weights.is_contiguous()


def test_without_autograd_what_learns_is_read() -> None:
    with torch.no_grad():
        (placed,) = Placer([FieldSpec("x", "float32")], 1).place({"x": torch.ones(1, requires_grad=True)}).fields
    assert placed.values.tolist() == [1]


def test_all_faults_are_said_at_once() -> None:
    faults = FAULTS[:19]  # as many as a message lists
    specs = [dataclasses.replace(spec, name=f"f{k}") for k, (spec, *_) in enumerate(faults)]
    with pytest.raises(FeedError) as e:
        read({f"f{k}": value for k, (_, value, _) in enumerate(faults)}, [*specs, FieldSpec("none", "int64")])
    assert all(f"'f{k}'" in e.value.got for k in range(len(faults))) and "'none' is missing" in e.value.got


def test_rows_that_disagree_name_the_field() -> None:
    specs = [FieldSpec(name, "int64") for name in "abc"]
    with pytest.raises(FeedError, match="'b' has 3 rows, others 2"):
        read({"a": np.zeros(2, np.int64), "b": np.zeros(3, np.int64), "c": np.zeros(2, np.int64)}, specs)
