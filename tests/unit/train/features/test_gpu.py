"""The transform on a GPU against the one that defines it: by Triton's interpreter, and on a device."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.backends.gpu.check import CAPABILITIES, compiled_kernel
from colonnade.backends.gpu.transform import launches
from colonnade.backends.gpu.transform.launches import OPTIONS, SIGNATURE
from colonnade.backends.gpu.transform.words import FIRST_VALUE, MARKS, TILES, VALUE_WORDS
from colonnade.core.consts import Const
from colonnade.core.ragged import Ragged
from colonnade.core.strings import Strings
from colonnade.errors import FeatureError, FeedError, ShapeError
from colonnade.frontends.feature import Feature, FieldSpec
from colonnade.frontends.feature_set import FeatureSet
from colonnade.ops.at_least import AtLeast
from colonnade.ops.bucketize import Bucketize
from colonnade.testing.strategies_feature import FeatureCase, feature_cases
from colonnade.testing.workloads import Workload, batch_of, features_of
from colonnade.train import ids
from colonnade.train.features.device_batch import DeviceStrings
from colonnade.train.features.fused import FusedTransform
from colonnade.train.features.gpu import GpuTransform
from colonnade.train.features.reference import ReferenceTransform
from colonnade.train.features.transformed import LookedUp, Transformed
from colonnade.train.ids import PackedIds

SMALL = (0, 1, 3, 7)


@pytest.fixture(params=["interpreted", pytest.param("device", marks=pytest.mark.gpu)], scope="module")
def interpret(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "interpreted")


def assert_same(got: Transformed, want: Transformed) -> None:
    """The same elements, offsets and weights, bit for bit, but for the sign and payload of NaN."""
    assert got.rows == want.rows
    assert list(got.sparse) == list(want.sparse) and list(got.dense) == list(want.dense)
    np.testing.assert_array_equal(got.ids.cpu().numpy(), want.ids.numpy())
    for name, x in want.dense.items():
        assert got.dense[name].dtype == torch.float32 and got.dense[name].shape == x.shape
        np.testing.assert_array_equal(got.dense[name].cpu().numpy(), x.numpy(), err_msg=name)
    for name, y in want.sparse.items():
        x = got.sparse[name]
        assert len(x.offsets) == len(y.offsets) and (x.weights is None) == (y.weights is None), name
        for a, b in zip(x.offsets, y.offsets, strict=True):
            np.testing.assert_array_equal(a.cpu().numpy(), b.numpy(), err_msg=name)
        np.testing.assert_array_equal(x.values.cpu().numpy(), np.asarray(y.values), err_msg=name)
        if x.weights is not None and y.weights is not None:
            np.testing.assert_array_equal(x.weights.cpu().numpy(), y.weights.numpy(), err_msg=name)


def without_strings(features: FeatureSet) -> FeatureSet:
    """The features whose elements can lie on a device."""
    kept = [f for f in features.features if features.known(f.expr).elements.dtype != "string"]
    return FeatureSet(kept, features.fields)


def on_device(batch: Mapping[str, Any], features: FeatureSet, device: torch.device) -> dict[str, Any]:
    """Every field as tensors of its own on a device."""
    return {s.name: moved(batch[s.name], s, device) for s in features.read}


def moved(x: Any, spec: FieldSpec, device: torch.device) -> Any:
    if isinstance(x, Ragged):
        weights = None if x.weights is None else x.weights.to(device)
        flat = FieldSpec(spec.name, spec.dtype)
        return Ragged(moved(x.values, flat, device), tuple(o.to(device) for o in x.offsets), weights)
    if spec.dtype == "string":
        strings = x if isinstance(x, Strings) else Strings.from_objects(np.asarray(x).reshape(-1))
        return DeviceStrings.of(strings, device)
    return torch.as_tensor(np.ascontiguousarray(x)).to(device)


@settings(max_examples=40)
@given(case=feature_cases(max_features=3, rows=SMALL))
def test_all_features_are_those_of_the_reference(case: FeatureCase) -> None:
    features = without_strings(case.features)
    want = ReferenceTransform(features)(case.batch)
    assert_same(GpuTransform(features, interpret=True)(case.batch).wait(), want)


@pytest.mark.gpu
@settings(max_examples=6)
@given(case=feature_cases())
def test_all_features_on_a_device(case: FeatureCase) -> None:
    features = without_strings(case.features)
    want = ReferenceTransform(features)(case.batch)
    transform = GpuTransform(features)
    assert_same(transform(case.batch).wait(), want)
    if features.read:
        assert_same(transform(on_device(case.batch, features, transform.device)).wait(), want)


def assert_same_ids(got: PackedIds, want: PackedIds) -> None:
    assert got.weighted == want.weighted and (got.weights is None) == (want.weights is None)
    pairs = [
        (got.values, want.values),
        (got.offsets, want.offsets),
        *((got.lists[f], x) for f, x in want.lists.items()),
    ]
    if got.weights is not None and want.weights is not None:
        used = want.offsets.numpy()[:, [0, -1]].tolist()
        pairs += [(got.weights[a:b], want.weights[a:b]) for a, b in used]
    for a, b in pairs:
        np.testing.assert_array_equal(a.cpu().numpy(), b.numpy())
    assert set(got.lists) == set(want.lists)


def looked_up_of(features: FeatureSet, seed: int) -> LookedUp:
    """Some of the integer features, in the features' order, and some more features as they are."""
    rng = np.random.default_rng(seed)
    known = [features.known(f.expr) for f in features.features]
    integers = [
        k for k, x in enumerate(known) if x.elements.dtype in ("int32", "int64") and not features.features[k].is_dense
    ]
    numbers = [k for k in integers if rng.random() < 0.8]
    lists = tuple(f for f, k in enumerate(numbers) if known[k].rows.levels == 2 and rng.random() < 0.8)
    wanted = tuple(k for k in range(len(known)) if rng.random() < 0.3)
    return LookedUp(np.array(numbers, np.int64), lists, wanted)


@settings(max_examples=30)
@given(case=feature_cases(max_features=3, rows=SMALL), seed=st.integers(0, 99))
def test_ids_are_packed_as_on_the_cpu(case: FeatureCase, seed: int) -> None:
    check_packed(case, seed, interpret=True)


@pytest.mark.gpu
@settings(max_examples=10)
@given(case=feature_cases(), seed=st.integers(0, 99))
def test_ids_are_packed_on_a_device(case: FeatureCase, seed: int) -> None:
    check_packed(case, seed, interpret=False)


def check_packed(case: FeatureCase, seed: int, *, interpret: bool) -> None:
    features = without_strings(case.features)
    looked_up = looked_up_of(features, seed)
    want, other = FusedTransform(features).packed(case.batch, looked_up)
    transform = GpuTransform(features, interpret=interpret)
    for _ in range(2):
        got, more = transform.packed(case.batch, looked_up)
        assert_same_ids(got, want)
        assert_same(more, other)


FIELDS = (
    FieldSpec("s", "string"),
    FieldSpec("t", "string", ragged=1, weighted=True),
    FieldSpec("i", "int32", ragged=1),
    FieldSpec("j", "int64", ragged=1),
    FieldSpec("l", "int64", ragged=2, weighted=True),
    FieldSpec("x", "float32", width=2),
)
WORDS = (b"", b"a", b"a,b", b",", b"one,two,three", b"x" * 17, b"y" * 70, b"0123456789abcdef,")


def batch(rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(rows)
    ends = [np.cumsum([0, *rng.integers(0, 5, rows)]) for _ in range(4)]
    lists = np.cumsum([0, *rng.integers(0, 3, ends[3][-1])])
    texts = [WORDS[k] for k in rng.integers(0, len(WORDS), rows + ends[2][-1])]
    return {
        "s": Strings.from_objects(texts[:rows]),
        "t": Ragged.of(Strings.from_objects(texts[rows:]), ends[2], weights=rng.random(ends[2][-1])),
        "i": Ragged.of(torch.from_numpy(rng.integers(-9, 99, ends[0][-1]).astype(np.int32)), ends[0]),
        "j": Ragged.of(torch.from_numpy(rng.integers(-(2**62), 2**62, ends[1][-1])), ends[1]),
        "l": Ragged.of(torch.from_numpy(rng.integers(0, 9, lists[-1])), ends[3], lists, weights=rng.random(lists[-1])),
        "x": rng.standard_normal((rows, 2)).astype(np.float32),
    }


def features() -> FeatureSet:
    """Every op on whole rows, on fields and on one another, and every kind of result."""
    hashed = Feature("h", "s").hash_bytes("murmur")
    i = Feature("i").drop([0, 1, 2]).truncate(3)
    tokens = Feature("tokens", "t").split(",")
    made = [
        hashed.mod(100).embed(),
        i.hash_int().mod(1000).embed("i", pooling="mean"),
        Feature.cross("ij", i, "j", hashed).mod(50).embed(),
        Feature.combine("both", "j", i).embed(),
        Feature("k", tokens.drop([b"a"]).truncate(2, "first", b"pad")).hash_bytes().embed(),
        Feature.cross("tj", tokens.hash_bytes(), "j").mod(9).embed(),
        Feature("lists", "l").truncate(2, "last", 0).drop([3]).mask([4]).mod(5).embed(pooling="none"),
        Feature("first", "l").truncate(1, "first"),
        Feature("x").log().fill_missing(0.0).clip(-1.0, 1.0).affine(2.0, 1.0).dense(),
        Feature("padded", "i").truncate(4, "last", 7).cast("float32").dense(),
        Feature("b", "x").bucketize([-0.5, 0.0, 0.5]).embed(),
        Feature("floats", "x").filter(AtLeast(1), of=Feature("b2", "x").bucketize([0.0])).log(),
        *Feature("j").multi_hash([10, 20, 30]),
        Feature("v", "j").vocabulary([5, 6, 7], default=0, num_oov=3).embed(),
    ]
    return FeatureSet(made, FIELDS)


@pytest.fixture(scope="module")
def transform(interpret: bool) -> GpuTransform:
    return GpuTransform(features(), interpret=interpret)


@pytest.mark.parametrize("rows", [5, 0, 1, 23])
def test_a_model_of_every_kind(transform: GpuTransform, rows: int) -> None:
    want = ReferenceTransform(features())(batch(rows))
    assert_same(transform(batch(rows)).wait(), want)


def test_tensors_on_the_device(transform: GpuTransform) -> None:
    for rows in (4, 2):
        given_ = on_device(batch(rows), features(), transform.device)
        assert_same(transform(given_).wait(), ReferenceTransform(features())(batch(rows)))


def test_more_choices_than_there_was_room_for(interpret: bool) -> None:
    fields = [FieldSpec(name, "int64", ragged=1) for name in "ab"]
    crossed = FeatureSet(
        [Feature.cross("c", "a", "b").embed(), Feature("d", Feature.cross("c", "a", "b")).truncate(9)], fields
    )
    made = GpuTransform(crossed, interpret=interpret)
    one_row = Ragged.of(torch.arange(20), [0, 0, 0, 20, 20])
    for _ in range(2):  # the second time there is room
        got = made({"a": one_row, "b": one_row})
        assert_same(got.wait(), ReferenceTransform(crossed)({"a": one_row, "b": one_row}))
    assert len(got.wait().sparse["c"].values) == 400


def test_more_elements_than_can_be_numbered(interpret: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = [FieldSpec(name, "int64", ragged=1) for name in "ab"]
    long = Ragged.of(torch.arange(50_000), [0, 50_000])
    crossed = FeatureSet([Feature.cross("c", "a", "b").embed()], fields)
    with pytest.raises(FeedError, match="more elements than one launch can count"):
        GpuTransform(crossed, interpret=interpret)({"a": long, "b": long}).wait()
    monkeypatch.setattr(ids, "MOST_IDS", 3)
    kept = FeatureSet([Feature("a").drop([1]).embed()], fields)
    with pytest.raises(FeedError, match="too many ids"):
        GpuTransform(kept, interpret=interpret)({"a": Ragged.of(torch.arange(5), [0, 5])}).wait()


def test_a_field_without_elements_is_counted_in_memory_of_its_own() -> None:
    fields = [FieldSpec(name, "int64", ragged=1) for name in "ab"]
    both = FeatureSet([Feature(f.name).drop([1]).embed() for f in fields], fields)
    transform = GpuTransform(both, interpret=True)
    given_ = {"a": Ragged.of(torch.zeros(0, dtype=torch.int64), [0, 0]), "b": Ragged.of(torch.arange(3), [0, 3])}
    arranged = transform.put(given_).arranged
    values = arranged.table[FIRST_VALUE:].reshape(-1)[: VALUE_WORDS * 4].reshape(4, VALUE_WORDS)
    counted, other = values[2:].tolist()
    assert counted[TILES] + 4 <= other[MARKS] < other[TILES] < arranged.work_bytes
    assert_same(transform(given_).wait(), ReferenceTransform(both)(given_))


def test_launches_do_not_grow_with_the_features() -> None:
    sizes = [Workload("few", 20, 5, 8, (8,)), Workload("many", 100, 25, 8, (8,))]
    few, many = (GpuTransform(features_of(size), interpret=True) for size in sizes)
    names = [[x.name for x in t.launches.launches] for t in (few, many)]
    assert names[0] == names[1] == ["scan1", "write"]
    assert few.launches.text == many.launches.text  # code by structure, never by feature


def test_two_launches_more_a_level() -> None:
    feature, counts = Feature("j"), []
    for level in range(4):
        made = GpuTransform(FeatureSet([feature.mod(7).embed("t")], FIELDS), interpret=True)
        counts.append(len(made.launches.launches))
        feature = Feature("j", feature.drop([level]))
    assert counts == [2, 2, 4, 6]


def test_the_workloads_features(interpret: bool) -> None:
    made = features_of(Workload("small", 20, 5, 8, (8,)))
    given_ = batch_of(made, 9, seed=2)
    assert_same(GpuTransform(made, interpret=interpret)(given_).wait(), ReferenceTransform(made)(given_))


def test_nothing_is_copied_but_the_batch() -> None:
    made = GpuTransform(features(), interpret=True)
    given_ = on_device(batch(3), features(), made.device)
    first, again = made(given_), made(given_)
    assert first.batch.header is again.batch.header  # descriptors and addresses stay on the device


def test_what_cannot_run_there_is_said_at_once() -> None:
    made = [Feature("s"), Feature("u", "t").split(","), Feature("j").mod(3).embed()]
    with pytest.raises(FeatureError) as e:
        GpuTransform(FeatureSet(made, FIELDS), interpret=True)
    assert "'s'" in e.value.got and "'u'" in e.value.got and "'j'" not in e.value.got


def test_more_structures_than_have_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "NO_KIND", 3)
    with pytest.raises(FeatureError, match="more structures"):
        GpuTransform(features(), interpret=True)


def test_a_batch_that_does_not_fit(interpret: bool) -> None:
    made = [*(Feature(name).mod(9) for name in "ijl"), Feature("x").dense(), Feature("s").hash_bytes()]
    plain = FeatureSet(made, FIELDS)
    transform = GpuTransform(plain, interpret=interpret)
    good = batch(5)
    with pytest.raises(FeedError, match="'x' is missing"):
        transform({name: x for name, x in good.items() if name != "x"})
    for bad in ([0, 2, 1, 3, 4, 5], [0, 1, 2, 3, 4, 10**12], [1, 1, 2, 3, 4, 5]):
        got = transform({**good, "j": Ragged(torch.arange(5), (torch.tensor(bad),))})
        with pytest.raises(FeedError, match="'j' has offsets"):
            got.wait()
    apart = on_device(good, plain, transform.device)
    apart["l"] = dataclasses.replace(apart["l"], offsets=(apart["l"].offsets[0].flip(0), apart["l"].offsets[1]))
    with pytest.raises(FeedError, match="'l' has offsets"):
        transform(apart).wait()
    with pytest.raises(FeedError) as e:
        transform({**apart, "i": 3, "j": apart["j"].values, "x": apart["x"][:3]})
    assert all(name in e.value.got for name in ("'i'", "'j'"))


@pytest.fixture(scope="module")
def whole_rows(interpret: bool) -> GpuTransform:
    made = [
        Feature.cross("c", "j", "i"),
        Feature.combine("b", "j", "j"),
        Feature("j").truncate(2),
        Feature("l").truncate(1, "last", 0).drop([1]),
        Feature("t").split(",").hash_bytes(),
    ]
    return GpuTransform(FeatureSet(made, FIELDS), interpret=interpret)


@settings(max_examples=12)
@given(numbers=st.lists(st.sampled_from((-(2**62), -1, 0, 1, 2, 3, 9, 2**33, 2**62)), min_size=6, max_size=6))
def test_offsets_of_any_kind_touch_nothing_else(whole_rows: GpuTransform, numbers: list[int]) -> None:
    given_, ends = batch(5), torch.tensor(numbers)
    for name in "jilt":
        x = given_[name]
        given_[name] = Ragged(x.values, (ends, *x.offsets[1:]), x.weights)
    with pytest.raises(FeedError, match="has offsets"):
        whole_rows(given_).wait()


def test_bytes_that_are_seen_as_bools_are_true_unless_0(interpret: bool) -> None:
    transform = GpuTransform(FeatureSet([Feature("x")], [FieldSpec("x", "bool")]), interpret=interpret)
    given = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
    for value in (given, torch.from_numpy(given).to(transform.device)):
        assert transform({"x": value}).wait().sparse["x"].values.tolist() == [0, 1, 1, 1]


def test_tensors_that_torch_negates_are_refused_on_the_device(interpret: bool) -> None:
    transform = GpuTransform(FeatureSet([Feature("x")], [FieldSpec("x", "int64")]), interpret=interpret)
    given = torch._neg_view(torch.tensor([7]).to(transform.device))
    if transform.device.type == "cpu":
        assert transform({"x": given}).wait().sparse["x"].values.tolist() == [-7]
    else:
        with pytest.raises(FeedError, match="'x' has values"):
            transform({"x": given})


def test_operands_of_other_rows_are_refused(interpret: bool) -> None:
    beside = FeatureSet([Feature("i").filter(AtLeast(1), of="j")], FIELDS)
    with pytest.raises(ShapeError, match="every row"):
        GpuTransform(beside, interpret=interpret)(batch(9)).wait()


def test_numbers_at_their_limits(interpret: bool) -> None:
    corners = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3.4e38, 0.5], np.float32)
    ints = torch.tensor([0, -1, 2**63 - 1, -(2**63), 1, 7, 2**52, -(2**31)])
    fields = [FieldSpec("x", "float32"), FieldSpec("i", "int64")]
    made = FeatureSet(
        [
            Feature("x").dense(),
            Feature("y", "x").fill_missing(2.0).log(),
            Feature("b", "x").map(Bucketize(Const(np.array([-1, 0, 0.5, 1e38], np.float32)))),
            Feature("c", "x").cast("int64"),
            Feature("m", "i").mod(2**62 + 1),
            Feature("h", "i").hash_int().embed(),
            Feature("d", "i").hash_decimal("farm"),
            Feature("w", "i").mask([7, -1]),
            Feature.combine("both", "i", Feature("w2", "i").mask([0])),
        ],
        fields,
    )
    given_ = {"x": corners, "i": ints}
    assert_same(GpuTransform(made, interpret=interpret)(given_).wait(), ReferenceTransform(made)(given_))


SIZES = Workload("small", 20, 5, 8, (8,))


@pytest.mark.parametrize(
    ("made", "capabilities"),
    [pytest.param(features_of(SIZES), CAPABILITIES, id="a model"), pytest.param(features(), (90,), id="all ops")],
)
def test_kernels_compile(made: FeatureSet, capabilities: tuple[int, ...], tmp_path: Path) -> None:
    launches = GpuTransform(made, interpret=True).launches
    for launch in launches.launches:
        for capability in capabilities:
            kernel = compiled_kernel(launches.text, launch.name, SIGNATURE, OPTIONS, capability, tmp_path)
            assert launch.name in kernel.asm["ptx"]
