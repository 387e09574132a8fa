"""Room for elements whose number only the data decide."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from colonnade.core.expr import Field
from colonnade.core.ragged import Ragged
from colonnade.frontends.feature import Feature, FieldSpec
from colonnade.frontends.feature_set import FeatureSet
from colonnade.train.features import room as module
from colonnade.train.features.gpu import GpuTransform
from colonnade.train.features.reference import ReferenceTransform
from colonnade.train.features.room import Room, Shared


def test_room_is_what_the_largest_of_the_last_batches_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PERIOD", 3)
    a, b = Field("a"), Field("b")
    room = Room([a, b])
    room.grow(np.array([800, 16]))
    assert room.counts == {a: 900, b: 18}
    for found in ([800, 16], [8, 0], [80, 8]):
        assert room.counts == {a: 900, b: 18}
        room.note(np.array(found))
    assert room.counts == {a: 900, b: 18}  # one of these was the largest
    for found in ([8, 0], [80, 8], [0, 0]):
        room.note(np.array(found))
    assert room.counts == {a: 90, b: 9}
    room.grow(np.array([160, 0]))
    assert room.counts == {a: 180, b: 9}
    for _ in range(3):
        room.note(np.array([0, 0]))
    assert room.counts == {a: 0, b: 0}


def test_one_batch_of_many_choices_does_not_cost_room_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PERIOD", 2)
    fields = [FieldSpec(name, "int64", ragged=1) for name in "ab"]
    crossed = FeatureSet([Feature.cross("c", "a", "b").embed()], fields)
    made = GpuTransform(crossed, interpret=True)
    large, small = (Ragged.of(torch.arange(n), [0, 0, n, n, n]) for n in (30, 2))
    sizes = []
    for x in (small, large, small, small, small, large, small):
        fed = {"a": x, "b": x}
        got = made(fed)
        want = ReferenceTransform(crossed)(fed).sparse["c"]
        assert torch.equal(got.wait().sparse["c"].values, want.values)
        sizes.append(got.batch.arranged.out_bytes)
    assert sizes[4] == sizes[0] < sizes[2] and sizes[6] > sizes[0]


def test_of_what_no_batch_of_a_period_needed_half_is_kept_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PERIOD", 3)
    shared = Shared()
    given = [80, 800, 8, 8, 400, 8, 8, 200, 8, 8, 8, 8]
    assert [shared.of(wanted) for wanted in given] == [90, *[900] * 7, *[225] * 3, 9]


def test_one_large_batch_does_not_cost_memory_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PERIOD", 2)
    split = FeatureSet([Feature("x").truncate(5).embed()], [FieldSpec("x", "int64", ragged=1)])
    made = GpuTransform(split, interpret=True)
    large, small = (Ragged.of(torch.arange(n), [0, *range(0, n + 1, 2)]) for n in (600, 2))
    sizes = []
    for x in (small, large, small, small, small, large, small):
        got = made({"x": x}).wait().sparse["x"]
        assert torch.equal(got.values, ReferenceTransform(split)({"x": x}).sparse["x"].values)
        sizes.append(made._work.numel())
    assert sizes[0] == sizes[3] == sizes[4] < sizes[2] == sizes[1] == sizes[5] == sizes[6]
