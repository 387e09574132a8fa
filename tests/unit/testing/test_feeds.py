import numpy as np
import pytest

from colonnade.errors import OptionError
from colonnade.testing.models import TensorSpec, named
from colonnade.testing.models.feeds import (
    Hints,
    corner_batch,
    corner_feed,
    corners,
    hints_of,
    missing_feed,
    ordinary_feed,
    spec_corner_feed,
    spec_feed,
)

INPUTS = (
    TensorSpec("f", "float32", (None, 1)),
    TensorSpec("d", "float64", (None, 3)),
    TensorSpec("i", "int32", (None,)),
    TensorSpec("l", "int64", (None, None)),
    TensorSpec("s", "string", (None, 1)),
    TensorSpec("b", "bool", (None,)),
    TensorSpec("c", "int32", (4,)),
)
DTYPES = {"f": np.float32, "d": np.float64, "i": np.int32, "l": np.int64, "s": object, "b": np.bool_, "c": np.int32}


@pytest.mark.parametrize("batch", [0, 1, 7, 500])
@pytest.mark.parametrize("make", [ordinary_feed, corner_feed])
def test_shapes_and_dtypes(make: object, batch: int) -> None:
    assert callable(make)
    feed = make(INPUTS, batch, np.random.default_rng(0))
    assert {key: value.dtype for key, value in feed.items()} == DTYPES
    assert feed["f"].shape == (batch, 1) and feed["d"].shape == (batch, 3) and feed["i"].shape == (batch,)
    assert feed["l"].shape[0] == batch and feed["l"].shape[1] >= 1 and feed["c"].shape == (4,)
    assert all(isinstance(each, bytes) for each in feed["s"].reshape(-1))


def test_the_same_seed_gives_the_same_feed() -> None:
    for make in (ordinary_feed, corner_feed):
        one, two = (make(INPUTS, 50, np.random.default_rng(3)) for _ in range(2))
        for key in one:
            equal_nan = one[key].dtype.kind == "f"
            assert np.array_equal(one[key], two[key], equal_nan=equal_nan)


def test_every_corner_is_shown() -> None:
    hints = Hints(boundaries={"f": [0.0, 5.0]}, separators={"s": b"|"})
    batch = corner_batch(INPUTS, hints)
    feed = corner_feed(INPUTS, batch, np.random.default_rng(0), hints)
    for spec in INPUTS:
        if spec.name == "c":
            continue  # four values, whatever the batch
        wanted = {_key(each) for each in corners(spec, hints)}
        assert wanted <= {_key(each) for each in feed[spec.name].reshape(-1)}


def test_float_corners_lie_around_boundaries() -> None:
    found = corners(INPUTS[0], Hints(boundaries={"f": [0.1, 5.0]}))
    for boundary in np.array([0.1, 5.0], np.float32):
        for value in (boundary, np.nextafter(boundary, np.float32(9)), np.nextafter(boundary, np.float32(-9))):
            assert value in found
    assert np.isnan(found).any() and np.isinf(found).sum() == 2 and np.signbit(found[found == 0]).any()
    assert ((found != 0) & (np.abs(found) < np.finfo(np.float32).tiny)).any()


def test_string_corners() -> None:
    found = set(corners(INPUTS[4], Hints(separators={"s": b"|"}, vocabulary={"s": [b"red", b"blue"]})))
    assert {b"", b"|", b"||", b"|a", b"a|", b"a||b", b"\0", b"a\0", b"red", b"blue"} <= found
    assert max(map(len, found)) > 1000 and any(max(each, default=0) > 127 for each in found)


def test_known_id_ranges_are_kept() -> None:
    hints = Hints(ids={"i": (0, 10), "l": (2, 5)})
    for make in (ordinary_feed, corner_feed):
        feed = make(INPUTS, 300, np.random.default_rng(0), hints)
        assert set(feed["i"].tolist()) <= set(range(10)) and {2, 4} <= set(feed["l"].reshape(-1).tolist()) <= {2, 3, 4}


def test_dense_inputs_keep_most_rows_ordinary() -> None:
    feed = corner_feed((TensorSpec("dense", "float32", (None, 32)),), 100, np.random.default_rng(0))
    assert (np.abs(feed["dense"]) < 1).all(axis=1).sum() == 75


def test_missing_feed() -> None:
    feed = missing_feed(INPUTS, 3, Hints(ids={"l": (2, 5)}))
    assert np.isnan(feed["f"]).all() and (feed["d"] == 0).all() and (feed["i"] == -1).all() and (feed["l"] == 2).all()
    assert (feed["s"] == b"").all() and not feed["b"].any()
    assert {key: value.dtype for key, value in feed.items()} == DTYPES


def test_spec_feeds() -> None:
    spec = named("tiny_varied")
    feed = spec_feed(spec, 200, np.random.default_rng(0))
    assert feed.keys() == {each.name for each in spec.inputs}
    split = next(column for column in spec.columns if column.kind == "split_hash")
    lengths = {len(text.split(split.separator.encode())) for text in feed[split.name]}
    assert lengths == set(range(1, 11))
    assert all(len(token) == 8 for text in feed[split.name] for token in text.split(split.separator.encode()))
    bucketized = spec.columns[0]
    assert feed["num_0"].min() < bucketized.boundaries[0] and feed["num_0"].max() > bucketized.boundaries[-1]
    assert hints_of(spec).boundaries["num_0"] == bucketized.boundaries
    assert spec_corner_feed(spec, 5, np.random.default_rng(0)).keys() == feed.keys()


def test_what_cannot_be_fed_is_listed() -> None:
    inputs = (*INPUTS, TensorSpec("x", "float32", None), TensorSpec("y", "resource", ()))
    with pytest.raises(OptionError) as caught:
        ordinary_feed(inputs, 3, np.random.default_rng(0))
    assert "x: float32 None" in caught.value.got and "y: resource ()" in caught.value.got


def _key(value: object) -> object:
    return value if isinstance(value, bytes) else repr(value)
