"""Makes the SavedModel of a KerasSpec: a functional Keras 3 model, written by `model.export`."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.errors import OptionError
from colonnade.testing.models.keras_spec import KerasSpec, LayerSpec
from colonnade.testing.tensorflow import tensorflow

_LIMIT = 3.0**0.5


def build_keras(spec: KerasSpec, path: Path) -> Path:
    """Write the SavedModel of `spec` to the folder `path`, which must not exist, and return it.

    Facts: the same spec gives the same weights.
    Errors: OptionError where TensorFlow is absent or `path` exists.
    """
    if path.exists():
        raise OptionError("the model's folder exists already", got=str(path), want="a path that does not exist")
    keras = tensorflow().keras
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keras_model(keras, spec).export(str(path), verbose=False)
    return path


def keras_model(keras: Any, spec: KerasSpec) -> Any:
    """The model itself."""
    inputs = {i.name: keras.Input(i.shape[1:], name=i.name, dtype=i.dtype) for i in spec.inputs if i.shape is not None}
    made = [_Feature(keras, spec, f).vector(inputs) for f in spec.features]
    hidden = keras.layers.Concatenate(name="features")(made) if len(made) > 1 else made[0]
    for i, width in enumerate(spec.top):
        hidden = _dense(keras, spec, f"top_{i}", width, "relu")(hidden)
    score = _dense(keras, spec, "score", 1, "sigmoid")(hidden)
    return keras.Model(inputs, {"score": score}, name=spec.name)


def _dense(keras: Any, spec: KerasSpec, name: str, width: int, activation: str) -> Any:
    uniform = keras.initializers.HeUniform(seed=_seed(spec, name))
    return keras.layers.Dense(width, activation=activation, kernel_initializer=uniform, name=name)


def _seed(spec: KerasSpec, name: str) -> int:
    return zlib.crc32(f"{spec.seed}/{name}".encode()) & 0x7FFFFFFF


class _Feature:
    """The layers of one feature."""

    def __init__(self, keras: Any, spec: KerasSpec, feature: LayerSpec) -> None:
        self.keras, self.spec, self.feature = keras, spec, feature

    def vector(self, inputs: dict[str, Any]) -> Any:
        """What the feature adds to the concat."""
        feature = self.feature
        x: Any = [inputs[name] for name in feature.of] if feature.of else inputs[feature.name]
        make: Callable[[Any], Any] = getattr(self, feature.kind)
        return make(x)

    def words(self, x: Any) -> Any:
        """StringLookup, Embedding."""
        return self._embedded(self._words()(x), self.feature.size + self.feature.unknown)

    def numbers(self, x: Any) -> Any:
        """IntegerLookup, Embedding."""
        lookup = self._layer("IntegerLookup", vocabulary=self.feature.numbers, num_oov_indices=self.feature.unknown)
        return self._embedded(lookup(x), self.feature.size + self.feature.unknown)

    def hashed_words(self, x: Any) -> Any:
        """Hashing of strings, Embedding."""
        return self._embedded(self._layer("Hashing", num_bins=self.feature.size, mask_value="")(x), self.feature.size)

    def hashed_numbers(self, x: Any) -> Any:
        """Hashing of integers, Embedding."""
        return self._embedded(self._layer("Hashing", num_bins=self.feature.size)(x), self.feature.size)

    def buckets(self, x: Any) -> Any:
        """Discretization, Embedding."""
        buckets = self._layer("Discretization", bin_boundaries=self.feature.boundaries)
        return self._embedded(buckets(x), self.feature.size + 1)

    def normalized(self, x: Any) -> Any:
        """Normalization."""
        rng = np.random.default_rng(_seed(self.spec, self.feature.name))
        mean, variance = rng.normal(size=self.feature.places), rng.uniform(0.2, 2.0, self.feature.places)
        return self._layer("Normalization", mean=mean, variance=variance)(x)

    def encoded_ids(self, x: Any) -> Any:
        """CategoryEncoding of one id."""
        return self._layer("CategoryEncoding", num_tokens=self.feature.size, output_mode="one_hot")(x)

    def ids(self, x: Any) -> Any:
        """Embedding."""
        return self._embedded(x, self.feature.size)

    def crossed(self, x: Any) -> Any:
        """HashedCrossing, Embedding."""
        return self._embedded(self._layer("HashedCrossing", num_bins=self.feature.size)(tuple(x)), self.feature.size)

    def average_of_words(self, x: Any) -> Any:
        """StringLookup, Embedding, the average over the places that hold a word."""
        size = self.feature.size + self.feature.unknown + 1
        ids = self._words(mask_token="")(x)
        rows = self._table(size, mask_zero=True)(ids)
        return self.keras.layers.GlobalAveragePooling1D(name=f"{self.feature.name}_pooled")(rows)

    def encoded_words(self, x: Any) -> Any:
        """StringLookup that marks the words there are."""
        return self.keras.ops.cast(self._words(output_mode="multi_hot")(x), "float32")

    def encoded_buckets(self, x: Any) -> Any:
        """Discretization that marks the bucket."""
        return self._layer("Discretization", bin_boundaries=self.feature.boundaries, output_mode="one_hot")(x)

    def _words(self, **options: Any) -> Any:
        unknown = self.feature.unknown
        return self._layer("StringLookup", vocabulary=list(self.feature.words), num_oov_indices=unknown, **options)

    def _embedded(self, ids: Any, rows: int) -> Any:
        return self.keras.layers.Flatten(name=f"{self.feature.name}_flat")(self._table(rows)(ids))

    def _table(self, rows: int, **options: Any) -> Any:
        uniform = self.keras.initializers.RandomUniform(-_LIMIT, _LIMIT, seed=_seed(self.spec, self.feature.name))
        layer = self.keras.layers.Embedding
        name = f"{self.feature.name}_table"
        return layer(rows, self.feature.embedding_dim, embeddings_initializer=uniform, name=name, **options)

    def _layer(self, layer: str, **options: Any) -> Any:
        return getattr(self.keras.layers, layer)(name=f"{self.feature.name}_{layer.lower()}", **options)
