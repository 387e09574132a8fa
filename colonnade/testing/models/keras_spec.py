"""What a test model of Keras layers consists of: a feature a layer or two, and a few dense layers behind them all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from colonnade.testing.models.feeds import Array, Feed, Hints, corner_feed, ordinary_feed
from colonnade.testing.models.spec import TensorSpec

LayerKind = Literal[
    "words",
    "numbers",
    "hashed_words",
    "hashed_numbers",
    "buckets",
    "normalized",
    "encoded_ids",
    "ids",
    "crossed",
    "average_of_words",
    "encoded_words",
    "encoded_buckets",
]
KINDS: tuple[LayerKind, ...] = LayerKind.__args__  # type: ignore[attr-defined]
_INTEGERS = frozenset(("numbers", "hashed_numbers", "encoded_ids", "ids"))
_FLOATS = frozenset(("buckets", "normalized", "encoded_buckets"))
_SEVERAL = frozenset(("average_of_words", "encoded_words"))


@dataclass(frozen=True)
class LayerSpec:
    """A feature and what is done to it.

    size: words, numbers, buckets, boundaries or ids, as its kind has them.   places: values a row.
    unknown: buckets for what the vocabulary lacks.   of: the features that a cross is of; it has no input of its own.
    """

    name: str
    kind: LayerKind
    size: int
    embedding_dim: int
    places: int = 1
    unknown: int = 1
    of: tuple[str, ...] = ()

    @property
    def dtype(self) -> str:
        """The dtype of its input."""
        return "int64" if self.kind in _INTEGERS else "float32" if self.kind in _FLOATS else "string"

    @property
    def input(self) -> TensorSpec:
        """Its input."""
        return TensorSpec(self.name, self.dtype, (None, self.places))

    @property
    def words(self) -> tuple[str, ...]:
        """Its vocabulary, of strings."""
        return tuple(f"{self.name}/{i * 7919 % 100_003}" for i in range(self.size))

    @property
    def numbers(self) -> tuple[int, ...]:
        """Its vocabulary, of integers."""
        return tuple(1 + i * 7919 % 100_003 for i in range(self.size))

    @property
    def boundaries(self) -> tuple[float, ...]:
        """Its boundaries, as far apart as those of a lognormal variable."""
        return tuple(float(x) for x in np.round(np.geomspace(0.01, 1000.0, self.size), 4).astype(np.float32))


@dataclass(frozen=True)
class KerasSpec:
    """A Keras model: every feature's vector in one concat, and dense layers of the widths `top` and of 1 behind it."""

    name: str
    features: tuple[LayerSpec, ...]
    top: tuple[int, ...] = (256, 128, 64)
    seed: int = 0

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Every input of the model."""
        return tuple(feature.input for feature in self.features if not feature.of)

    @property
    def hints(self) -> Hints:
        """What feeds are made of."""
        return Hints(
            boundaries={f.name: f.boundaries for f in self.features if f.kind in ("buckets", "encoded_buckets")},
            ids={f.name: (0, f.size) for f in self.features if f.kind in ("ids", "encoded_ids")},
            vocabulary={
                f.name: [word.encode() for word in f.words]
                for f in self.features
                if f.kind in ("words", "average_of_words", "encoded_words")
            },
        )

    @property
    def digest(self) -> str:
        """12 hex digits that differ for specs that make different models."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]

    def feed(self, batch: int, rng: np.random.Generator) -> Feed:
        """An ordinary request of `batch` rows; words and numbers of a vocabulary are mostly known ones."""
        return self._with_numbers(ordinary_feed(self.inputs, batch, rng, self.hints), rng, 0.9)

    def corner_feed(self, batch: int, rng: np.random.Generator) -> Feed:
        """A request of `batch` rows of corner values."""
        return self._with_numbers(corner_feed(self.inputs, batch, rng, self.hints), rng, 0.3)

    def _with_numbers(self, feed: Feed, rng: np.random.Generator, share: float) -> Feed:
        """The feed with that share of the numbers of vocabularies known."""
        for feature in self.features:
            if feature.kind == "numbers":
                values: Array = feed[feature.name]
                known = rng.random(values.shape) < share
                values[known] = rng.choice(np.array(feature.numbers), int(known.sum()))
        return feed


def keras_model(num_features: int, *, seed: int = 0) -> KerasSpec:
    """A model of `num_features` features, every kind as often, of sizes that differ from feature to feature."""
    rng = np.random.default_rng(seed)
    features: list[LayerSpec] = []
    for i in range(num_features):
        kind = KINDS[i % len(KINDS)]
        crossable = [f.name for f in features if f.kind in ("words", "hashed_words", "numbers", "hashed_numbers")]
        if kind == "crossed" and len(crossable) < 2:
            kind = "hashed_words"
        features.append(_drawn(f"{kind}_{i}", kind, crossable, rng))
    return KerasSpec(f"keras{num_features}", tuple(features), seed=seed)


def _drawn(name: str, kind: LayerKind, crossable: list[str], rng: np.random.Generator) -> LayerSpec:
    few: Callable[[], int] = lambda: int(rng.integers(3, 60))  # noqa: E731
    many: Callable[[], int] = lambda: int(10 ** rng.uniform(1.5, 4.0))  # noqa: E731
    size = few() if kind.startswith("encoded") or kind == "buckets" else many()
    if kind == "normalized":
        size = 1
    places = int(rng.integers(2, 9)) if kind in _SEVERAL else int(rng.integers(1, 5)) if kind == "normalized" else 1
    of = tuple(str(n) for n in rng.choice(crossable, 2, replace=False)) if kind == "crossed" else ()
    dim = int(rng.choice((2, 3, 4, 8, 8, 16, 16, 24, 32)))
    return LayerSpec(name, kind, size, dim, places, unknown=int(rng.integers(1, 4)), of=of)
