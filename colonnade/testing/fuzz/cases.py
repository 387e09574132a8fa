"""What a random model is made of: inputs, column cases, towers; its text is what a person reads after a failure."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from colonnade.testing.models.spec import TensorSpec

Attributes = dict[str, Any]
Draw = Callable[[np.random.Generator, str], Attributes]
"""From a dtype to attributes of a case."""
MOST_ADDED = 9
"""Of rows that are added before a dense rest, or in it: it would make much of a small difference of longer sums."""
SEQUENCES = ("sequences", "steps")
"""Styles of sequence feature columns."""
FORMS = ("dense", "sparse", "ragged", "nested", "open", "single", "weights")
"""What an input may be."""


@dataclass(frozen=True)
class Input:
    """An input of a model.

    width: values a row; 0 is one value in a tensor of rank 1.   separator: what strings of rank 1 are split by.
    form: `dense`, `sparse`, `ragged` or `nested` (at most `width` values a row, of `nested` in rows of their own),
    `open` (as many values in every row of a request, at most `width`), `single` (one row, whatever the batch is) or
    `weights` (one for each value of a sparse or ragged input).
    """

    name: str
    dtype: str
    width: int
    separator: str = ""
    form: str = "dense"

    @property
    def spec(self) -> TensorSpec:
        """Its dtype and the shape of what is drawn for it, the batch open."""
        batch = 1 if self.form == "single" else None
        return TensorSpec(self.name, self.dtype, (batch, self.width) if self.width else (batch,))

    def text(self) -> str:
        """One line."""
        split = f" split at {self.separator!r}" if self.separator else ""
        form = "" if self.form == "dense" else f" {self.form}"
        return f"{self.name}: {self.dtype} {list(self.spec.shape or ())}{form}{split}"


@dataclass(frozen=True)
class Case:
    """One feature column of a model, or the Keras layers, or the ops, from an input to its vectors.

    kind: one of `draw.KINDS`.   form: embedding, indicator, shared (with the features of `others`) or plain (one-hots
    of buckets, a number itself); of Keras: one of `draw_keras.FORMS`; of ops: one of `draw_ops.LOOKUPS`.
    others: further features of a cross, of a shared embedding, or of strings that are joined.
    dtype: of the feature column, which may be another integer than its input's.
    size: buckets of a hash or a cross, ids of an identity.   boundaries: also of the floats of a cross.
    default: the id of what is outside; None where there is none.   mask: of Keras: what gets the id 0.
    weights: the input of a weight for each value.
    mode: of Keras, what marks ids (`draw_keras.MODES`); of a sequence, what makes one vector of it
    (`draw_sequences.REDUCTIONS`).   salt: of a hash, 0 for none.   file: whether the words are
    lines of one.   place, span: the place in a row at which it begins to read, -1 for all of it; how many places it
    reads, 0 for one that is a vector over rows.   prep: of ops, what is made of strings first (`strings.STEPS`).
    label: of ops, what ids are called in an output (`build_ops.LABELS`).
    rows, table, parts: of ops: the rows of the table, the number of the case whose table it is, and of how many
    variables it consists.   max_norm: the norm to which rows are scaled, 0 for none.
    pooling: also of ops how the vectors of a lookup that is not pooled become one (`draw_ops.REDUCTIONS`).
    """

    number: int
    tower: int
    input: str
    kind: str
    form: str
    dtype: str
    size: int = 0
    default: int | None = None
    boundaries: tuple[float, ...] = ()
    words: tuple[str | int, ...] = ()
    oov_buckets: int = 0
    embedding_dim: int = 0
    pooling: str = ""
    others: tuple[str, ...] = ()
    mask: str | int | None = None
    weights: str = ""
    rows: int = 0
    table: int = -1
    parts: int = 1
    max_norm: float = 0.0
    mode: str = ""
    salt: int = 0
    file: bool = False
    place: int = -1
    span: int = 0
    prep: tuple[str, ...] = ()
    label: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        """The inputs."""
        return (self.input, *self.others, *((self.weights,) if self.weights else ()))

    def text(self) -> str:
        """One line that leaves out what does not apply."""
        numbers = ("size", "default", "boundaries", "words", "oov_buckets", "embedding_dim", "pooling")
        further = ("others", "mask", "weights", "rows", "max_norm", "mode", "salt", "file", "prep", "label")
        named = (*numbers, *further)
        given = [f"{n}={getattr(self, n)!r}" for n in named if getattr(self, n) not in (None, (), 0, "")]
        if self.default == 0:
            given.append("default=0")
        if self.table not in (-1, self.number):
            given.append(f"table of {self.table}")
        if self.parts > 1:
            given.append(f"parts={self.parts}")
        of = self.input if self.place < 0 else f"{self.input}[:, {self.place}{f':+{self.span}' if self.span else ''}]"
        head = f"{self.number}: {self.form} of {self.kind} {self.dtype} of {of}, tower {self.tower}"
        return f"{head}: {', '.join(given)}"


def placed(item: Input, case: Case) -> Input:
    """An input as a case reads it: all of it, or some places."""
    return item if case.place < 0 else replace(item, width=case.span)


def taken(case: Case, value: Any) -> Any:
    """The places of a tensor that a case reads."""
    if case.place < 0:
        return value
    return value[:, case.place : case.place + case.span] if case.span else value[:, case.place]


@dataclass(frozen=True)
class Tower:
    """What follows the columns of a tower: a structure, then a dense layer of that width, or none (0), then a rest.

    structure: one of `structures.STRUCTURES`, over the vectors of width `dim`.   rest: steps of `rests`.
    straight: whether what the structure makes is fetched as well.   each: whether every column is.
    of: the tower whose columns it has, beside that one.   parts: of how many variables a table of feature columns
    consists.
    """

    number: int
    width: int = 0
    activation: str = ""
    straight: bool = True
    structure: str = "concat"
    dim: int = 0
    rest: tuple[str, ...] = ()
    each: bool = False
    of: int = -1
    parts: int = 1

    @property
    def plain(self) -> bool:
        """Whether it is a concat and no more."""
        return not self.width and not self.rest and self.structure == "concat"

    def text(self) -> str:
        """One line; nothing where it is a concat and no more."""
        parts = [f"dense {self.width} {self.activation}"] if self.width else []
        parts += [f"{self.structure} of width {self.dim}"] if self.structure != "concat" else []
        parts += [f"then {', '.join(self.rest)}"] if self.rest else []
        parts += [f"of the columns of tower {self.of}"] if self.of >= 0 else []
        parts += [f"tables of {self.parts} parts"] if self.parts > 1 else []
        return f"tower {self.number}: {'; '.join(parts)}" if parts else ""


@dataclass(frozen=True)
class Model:
    """The model with this number among those of a seed.

    style: `columns` (feature columns), `examples` (of features of serialized Examples, of which those that are no
    floats have 0 to `width` values a row), `sequences` (sequence feature columns of sparse inputs), `steps` (those of
    Examples), `keras` (layers) or `ops` (plain ops).
    """

    seed: int
    index: int
    inputs: tuple[Input, ...]
    cases: tuple[Case, ...]
    towers: tuple[Tower, ...]
    style: str = "columns"

    @property
    def serialized(self) -> bool:
        """Whether its inputs are features of serialized Examples."""
        return self.style in ("examples", "steps")

    @property
    def newer(self) -> bool:
        """Whether its feature columns are those of `DenseFeatures`, not of `input_layer`."""
        return self.index % 4 > 1

    def only(self, numbers: Collection[int]) -> Model:
        """The model with these cases alone, and the inputs and towers that they need."""
        cases = tuple(c for c in self.cases if c.number in numbers)
        inputs, towers = {name for c in cases for name in c.reads}, {c.tower for c in cases}
        return replace(
            self,
            cases=cases,
            inputs=tuple(i for i in self.inputs if i.name in inputs),
            towers=tuple(t for t in self.towers if t.number in towers or t.of in towers),
        )

    def of_input(self, name: str) -> tuple[Case, ...]:
        """The cases that read an input."""
        return tuple(c for c in self.cases if name in c.reads)

    def text(self) -> str:
        """Inputs, cases and towers, one a line."""
        towers = [t.text() for t in self.towers if t.text()]
        return "\n".join([*(i.text() for i in self.inputs), *(c.text() for c in self.cases), *towers])


def seed_of(model: Model, name: str) -> int:
    """The seed of a table or another variable: that of the whole model, whatever is left of it."""
    return zlib.crc32(f"{model.seed}/{model.index}/{name}".encode()) & 0x7FFFFFFF
