"""What a random model is made of: inputs, column cases, towers; its text is what a person reads after a failure."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import dataclass, replace

from colonnade.testing.models.spec import TensorSpec


@dataclass(frozen=True)
class Input:
    """An input of a model.

    width: values a row; 0 is one value in a tensor of rank 1.   separator: what strings of rank 1 are split by.
    """

    name: str
    dtype: str
    width: int
    separator: str = ""

    @property
    def spec(self) -> TensorSpec:
        """Its dtype and shape, the batch open."""
        return TensorSpec(self.name, self.dtype, (None, self.width) if self.width else (None,))

    def text(self) -> str:
        """One line."""
        split = f" split at {self.separator!r}" if self.separator else ""
        return f"{self.name}: {self.dtype} {list(self.spec.shape or ())}{split}"


@dataclass(frozen=True)
class Case:
    """One feature column of a model, or the Keras layers from an input to its vectors.

    kind: one of `draw.KINDS`.   form: embedding, indicator, shared (with the features of `others`), flat (of Keras: the
    vectors side by side) or plain (the one-hot of buckets, a number itself).
    others: further features of a cross, or of a shared embedding.
    dtype: of the feature column, which may be another integer than its input's.
    size: buckets of a hash or a cross, ids of an identity.   default: the id of what is outside; None where there is
    none.   mask: of Keras: what gets the id 0.   weights: the input of a weight for each value.
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

    @property
    def reads(self) -> tuple[str, ...]:
        """The inputs."""
        return (self.input, *self.others, *((self.weights,) if self.weights else ()))

    def text(self) -> str:
        """One line that leaves out what does not apply."""
        numbers = ("size", "default", "boundaries", "words", "oov_buckets", "embedding_dim", "pooling")
        named = (*numbers, "others", "mask", "weights")
        given = [f"{n}={getattr(self, n)!r}" for n in named if getattr(self, n) not in (None, (), 0, "")]
        if self.default == 0:
            given.append("default=0")
        head = f"{self.number}: {self.form} of {self.kind} {self.dtype} of {self.input}, tower {self.tower}"
        return f"{head}: {', '.join(given)}"


@dataclass(frozen=True)
class Tower:
    """What follows the input layer of a tower: a dense layer of that width, or nothing (0).

    straight: whether the layer's own output is fetched as well.
    """

    number: int
    width: int = 0
    activation: str = ""
    straight: bool = True


@dataclass(frozen=True)
class Model:
    """The model with this number among those of a seed.

    style: `columns` (feature columns of dense inputs), `examples` (of features of serialized Examples, of which those
    that are no floats have 0 to `width` values a row) or `keras` (layers).
    """

    seed: int
    index: int
    inputs: tuple[Input, ...]
    cases: tuple[Case, ...]
    towers: tuple[Tower, ...]
    style: str = "columns"

    def only(self, numbers: Collection[int]) -> Model:
        """The model with these cases alone, and the inputs and towers that they need."""
        cases = tuple(c for c in self.cases if c.number in numbers)
        inputs, towers = {name for c in cases for name in c.reads}, {c.tower for c in cases}
        return replace(
            self,
            cases=cases,
            inputs=tuple(i for i in self.inputs if i.name in inputs),
            towers=tuple(t for t in self.towers if t.number in towers),
        )

    def of_input(self, name: str) -> tuple[Case, ...]:
        """The cases that read an input."""
        return tuple(c for c in self.cases if name in c.reads)

    def text(self) -> str:
        """Inputs, cases and towers, one a line."""
        towers = [f"tower {t.number}: dense {t.width} {t.activation}" for t in self.towers if t.width]
        return "\n".join([*(i.text() for i in self.inputs), *(c.text() for c in self.cases), *towers])


def seed_of(model: Model, name: str) -> int:
    """The seed of a table or another variable: that of the whole model, whatever is left of it."""
    return zlib.crc32(f"{model.seed}/{model.index}/{name}".encode()) & 0x7FFFFFFF
