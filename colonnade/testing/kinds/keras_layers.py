"""Columns made of Keras 3 layers, by kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from colonnade.testing.kinds.cell import Gap, Given, floats, ids, words
from colonnade.testing.kinds.columns import FILE

Build = Callable[[Any, dict[str, Any]], Any]


@dataclass(frozen=True)
class Layers:
    """make(keras, inputs) -> the output."""

    inputs: tuple[Given, ...]
    make: Build
    gap: Gap | None = None


def _embedded(keras: Any, found: Any, rows: int = 10) -> Any:
    return keras.layers.Flatten()(keras.layers.Embedding(rows, 3)(found))


def _pooled(keras: Any, x: dict[str, Any], pool: str) -> Any:
    return getattr(keras.ops, pool)(keras.layers.Embedding(10, 3)(x["x"]), axis=1)


def _shared(keras: Any, x: dict[str, Any]) -> Any:
    table = keras.layers.Embedding(10, 3)
    return keras.layers.Concatenate()([keras.layers.Flatten()(table(x[key])) for key in "xy"])


def _places(keras: Any, x: dict[str, Any]) -> Any:
    hashed = _embedded(keras, keras.layers.Hashing(10)(x["x"][:, 1:]))
    return keras.layers.Concatenate()([keras.layers.Embedding(10, 3)(x["x"][:, 0]), hashed])


def _lookup(keras: Any, x: dict[str, Any], **options: Any) -> Any:
    return _embedded(keras, keras.layers.StringLookup(**options)(x["x"]))


def _masked_average(keras: Any, x: dict[str, Any]) -> Any:
    found = keras.layers.StringLookup(vocabulary=["a", "yy"], num_oov_indices=0, mask_token="")(x["x"])
    return keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(10, 3, mask_zero=True)(found))


def _values_of_places(keras: Any, x: dict[str, Any]) -> Any:
    return keras.ops.mean(keras.layers.Embedding(10, 3)(keras.layers.Reshape((2, 2))(x["x"])), axis=2)


KNOWN, SEVERAL = ids(1, pool=range(10)), ids(3, pool=range(10))
FINITE = Given("x", "float32", 1, (-1.0, 0.0, 0.5, 1.0, 9.99, 10.0, 1e30))
LAYERS: dict[str, Layers] = {
    "numeric": Layers((floats(2),), lambda keras, x: keras.layers.Rescaling(2.0)(x["x"])),
    "bucketized": Layers(
        (FINITE,),
        lambda keras, x: _embedded(keras, keras.layers.Discretization(bin_boundaries=[0.0, 1.0, 10.0])(x["x"])),
    ),
    "hash of strings": Layers((words(),), lambda keras, x: _embedded(keras, keras.layers.Hashing(10)(x["x"]))),
    "hash of integers": Layers((ids(),), lambda keras, x: _embedded(keras, keras.layers.Hashing(10)(x["x"]))),
    "identity": Layers((KNOWN,), lambda keras, x: _embedded(keras, x["x"])),
    "vocabulary list": Layers((words(),), lambda keras, x: _lookup(keras, x, vocabulary=["a", "yy"])),
    "vocabulary list with buckets": Layers(
        (words(),),
        lambda keras, x: _lookup(keras, x, vocabulary=["a", "yy"], num_oov_indices=3),
    ),
    "vocabulary file": Layers((words(),), lambda keras, x: _lookup(keras, x, vocabulary=str(FILE))),
    "hash with a salt": Layers(
        (words(),),
        lambda keras, x: _embedded(keras, keras.layers.Hashing(10, salt=[3, 5], mask_value="")(x["x"])),
    ),
    "vocabulary list, no others": Layers(
        (Given("x", "string", 1, (b"a", b"yy")),),
        lambda keras, x: _lookup(keras, x, vocabulary=["a", "yy"], num_oov_indices=0),
    ),
    "masked average, no others": Layers((Given("x", "string", 3, (b"a", b"yy", b"")),), _masked_average),
    "places of one matrix": Layers((SEVERAL,), _places),
    "counts with weights": Layers(
        (SEVERAL, floats(3, "y")),
        lambda keras, x: keras.layers.CategoryEncoding(10, output_mode="count")(x["x"], count_weights=x["y"]),
    ),
    "crossed": Layers(
        (words(1, "x"), ids(1, "y")),
        lambda keras, x: _embedded(keras, keras.layers.HashedCrossing(10)((x["x"], x["y"]))),
    ),
    "indicator of words": Layers(
        (words(3),), lambda keras, x: keras.layers.Hashing(10, output_mode="multi_hot")(x["x"])
    ),
    "indicator of many ids": Layers(
        (words(3),), lambda keras, x: keras.layers.Hashing(3000, output_mode="count")(x["x"])
    ),
    "one-hot of each value": Layers(
        (replace(FINITE, width=3),),
        lambda keras, x: keras.layers.Discretization(bin_boundaries=[0.0, 1.0, 10.0], output_mode="one_hot")(x["x"]),
    ),
    "shared": Layers((ids(1, "x", range(10)), ids(1, "y", range(10))), _shared),
    "indicator": Layers(
        (SEVERAL,),
        lambda keras, x: keras.layers.CategoryEncoding(10, output_mode="multi_hot")(x["x"]),
    ),
    "several values, sum": Layers((SEVERAL,), lambda keras, x: _pooled(keras, x, "sum")),
    "several values, mean": Layers((SEVERAL,), lambda keras, x: _pooled(keras, x, "mean")),
    "sequence, several values a place": Layers((ids(4, pool=range(10)),), _values_of_places),
    "sequence, not pooled": Layers((SEVERAL,), lambda keras, x: keras.layers.Embedding(10, 3)(x["x"])),
}
