"""Features of the size of published models, and batches for them: ids and lengths by power laws.

Source: features, tables and batch sizes of the RecIS paper's tables 1 and 2 (an advertising, a search and an e-commerce
model); what the features are made of is ours, about one and a half ops each, as there.
Legend: B batch rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from colonnade.core.ragged import Ragged
from colonnade.core.strings import Strings
from colonnade.errors import OptionError
from colonnade.frontends.feature import Feature, FieldSpec
from colonnade.frontends.feature_set import FeatureSet

LONGEST, MEAN_SCALE = 1000, 17
"""Of sequences: by a power law of exponent 1.5, some 40 elements on average."""
KEPT = 500


@dataclass(frozen=True)
class Workload:
    """A model's features. batch: rows of a training batch on one device.   dims: embedding_dims, of tables in turn."""

    name: str
    features: int
    tables: int
    batch: int
    dims: tuple[int, ...]


WORKLOADS = {
    w.name: w
    for w in (
        Workload("ad", 879, 519, 1200, (8, 16, 32, 64, 128)),
        Workload("search", 589, 398, 256, (4, 8, 16, 32, 64, 128)),
        Workload("lazada", 367, 73, 1024, (4, 8, 16, 32, 64, 128, 256, 416)),
    )
}


def workload(name: str) -> Workload:
    """The workload of that name. Errors: OptionError."""
    if name not in WORKLOADS:
        raise OptionError("no such workload", got=name, want=", ".join(WORKLOADS))
    return WORKLOADS[name]


def features_of(size: Workload) -> FeatureSet:
    """Of twenty features four are sequences, two strings, two buckets, one a cross, a weighted list, a dense number.

    Facts: all are pooled by sum, so that libraries which know one pooling a model can do the same.
    """
    specs: list[FieldSpec] = []
    made: list[Feature] = []
    for k in range(size.features):
        name, kind = f"f{k}", KINDS[k % len(KINDS)]
        table = k % size.tables
        if kind == "cross":
            feature = Feature.cross(name, "f1", "f2").mod(1_000_003)
        else:
            specs.append(_SPECS[kind](name))
            feature = _FEATURES[kind](Feature(name))
        dim = size.dims[table % len(size.dims)]
        made.append(feature.dense() if kind == "number" else feature.embed(f"t{table}", dim, "sum"))
    return FeatureSet(made, specs)


KINDS = ("text", "id", "id", "bucket", "id", "sequence", "id", "id", "number", "sequence", "text", "id", "cross",
         "bucket", "id", "sequence", "id", "weighted", "id", "sequence")  # fmt: skip
BOUNDARIES = tuple(np.linspace(-3, 3, 63).tolist())

_SPECS: dict[str, Callable[[str], FieldSpec]] = {
    "id": lambda name: FieldSpec(name, "int64", ragged=1),
    "text": lambda name: FieldSpec(name, "string"),
    "bucket": lambda name: FieldSpec(name, "float32"),
    "sequence": lambda name: FieldSpec(name, "int64", ragged=1),
    "number": lambda name: FieldSpec(name, "float32", width=4),
    "weighted": lambda name: FieldSpec(name, "int64", ragged=1, weighted=True),
}
_FEATURES: dict[str, Callable[[Feature], Feature]] = {
    "id": lambda f: f.mod(10_000_019),
    "text": lambda f: f.hash_bytes().mod(10_000_019),
    "bucket": lambda f: f.bucketize(BOUNDARIES),
    "sequence": lambda f: f.truncate(KEPT).mod(10_000_019),
    "number": lambda f: f.fill_missing(0.0).clip(-5.0, 5.0).affine(0.5, 1.0),
    "weighted": lambda f: f.drop([0]).hash_int().mod(10_000_019),
}


def batch_of(features: FeatureSet, rows: int, seed: int = 0) -> dict[str, Any]:
    """A batch of all fields. Facts: most lists have one element or two, sequences some forty."""
    rng = np.random.default_rng(seed)
    return {spec.name: _field(rng, spec, KINDS[int(spec.name[1:]) % len(KINDS)], rows) for spec in features.fields}


def _field(rng: np.random.Generator, spec: FieldSpec, kind: str, rows: int) -> Any:
    if spec.dtype == "string":
        return Strings.from_objects([b"item_%d" % k for k in _ids(rng, rows)])
    if spec.dtype == "float32":
        return rng.standard_normal((rows, spec.width)).astype(np.float32)
    lengths = rng.zipf(2.2, rows) if kind != "sequence" else (MEAN_SCALE * rng.pareto(1.5, rows) + 1).astype(np.int64)
    offsets = np.cumsum([0, *np.minimum(lengths, LONGEST)])
    values = torch.from_numpy(_ids(rng, int(offsets[-1])))
    weights = rng.random(len(values)).astype(np.float32) if spec.weighted else None
    return Ragged.of(values, offsets, weights=weights)


def _ids(rng: np.random.Generator, count: int) -> Any:
    return (rng.zipf(1.3, count) - 1) % 2**40
