"""What a test model consists of: frozen descriptions from which a model, its feeds and its name are made."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal

Kind = Literal["bucketized", "hash", "split_hash"]
Pooling = Literal["sum", "mean", "sqrtn"]
EXAMPLES, DENSE = "examples", "dense"
"""The input of a model that parses; the floats of the bottom network."""


@dataclass(frozen=True)
class TensorSpec:
    """A named tensor of a signature.

    Shapes: `None` in `shape` is a dim known at run time only; `shape=None` is an unknown rank.
    Facts: `dtype` is numpy's name, or `string`.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class ColumnSpec:
    """One embedding column fed by its own input.

    Facts: `boundaries` are float32 values, strictly increasing, empty unless the kind is `bucketized`;
    `separator` counts only for `split_hash`; `rows` is the number of buckets.
    """

    name: str
    kind: Kind
    dtype: str
    rows: int
    embedding_dim: int
    pooling: Pooling
    boundaries: tuple[float, ...] = ()
    separator: str = ";"

    @property
    def input(self) -> TensorSpec:
        """The placeholder that feeds the column."""
        return TensorSpec(self.name, self.dtype, (None,) if self.kind == "split_hash" else (None, 1))


@dataclass(frozen=True)
class ModelSpec:
    """A model: columns concatenated in one input layer, and for `top` a dense network behind it.

    Facts: with `top` empty the output is the concat itself; otherwise the rounded sigmoid of the top network, whose
    input is the bottom network over `num_dense` floats beside the concat. `extra_outputs` adds the signature
    `columns` with the concat (and the sigmoid). `serialized`: the model's one input is serialized Examples, with a
    feature for each column's input (strings and ids of any number, floats of one).
    """

    name: str
    columns: tuple[ColumnSpec, ...]
    num_dense: int = 0
    bottom: tuple[int, ...] = ()
    top: tuple[int, ...] = ()
    seed: int = 0
    extra_outputs: bool = False
    serialized: bool = False

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Every placeholder of the model, columns first."""
        if self.serialized:
            return (TensorSpec(EXAMPLES, "string", (None,)),)
        return self.features

    @property
    def features(self) -> tuple[TensorSpec, ...]:
        """What the columns and the bottom network read, columns first."""
        dense = (TensorSpec(DENSE, "float32", (None, self.num_dense)),) if self.num_dense else ()
        return tuple(column.input for column in self.columns) + dense

    @property
    def width(self) -> int:
        """The width of the columns' concat."""
        return sum(column.embedding_dim for column in self.columns)

    @property
    def digest(self) -> str:
        """12 hex digits that differ for specs that make different models."""
        fields = asdict(self)
        if not self.serialized:
            del fields["serialized"]  # models made before there was such a field keep their digest
        text = json.dumps(fields, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]
