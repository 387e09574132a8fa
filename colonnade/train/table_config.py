"""What a user says of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from colonnade.core.given import is_number, is_positive
from colonnade.train.admission import Admission
from colonnade.train.eviction import Eviction
from colonnade.train.initializers import Initializer, Uniform
from colonnade.train.loops import words as w
from colonnade.train.optimizers import Adagrad, Optimizer

REDUCTIONS = ("sum", "mean")


@dataclass(frozen=True)
class TableConfig:
    """A dynamic table.

    dtype: float32, bfloat16 or float16; what is computed is float32.   key: what its rows belong to, the name if empty:
    a table that is renamed keeps its key.   default: every value of an id without a row.   repeats: whether an id
    learns by the `sum` or the `mean` of its occurrences' gradients.   admission: which ids get a row (None: all).
    eviction: which rows are given up.   trainable: whether rows change and are made.   device: where rows lie, "cpu" or
    "cuda" (None: where the engine is).
    """

    name: str
    embedding_dim: int
    dtype: str = "float32"
    initializer: Initializer = field(default_factory=Uniform)
    optimizer: Optimizer = field(default_factory=Adagrad)
    key: str = ""
    default: float = 0.0
    repeats: str = "sum"
    admission: Admission | None = None
    eviction: tuple[Eviction, ...] = ()
    trainable: bool = True
    device: str | None = None

    @property
    def stable_key(self) -> str:
        """What its rows belong to."""
        return self.key or self.name

    def problems(self) -> Iterator[str]:
        """What is wrong with it."""
        if not is_positive(self.embedding_dim):
            yield f"table {self.name!r}: embedding_dim {self.embedding_dim!r}, want a whole number, at least 1"
        if not is_number(self.default):
            yield f"table {self.name!r}: default {self.default!r}, want a number"
        if self.dtype not in w.FORMS:
            yield f"table {self.name!r}: dtype {self.dtype!r}, want one of {', '.join(w.FORMS)}"
        if self.device not in (None, "cpu", "cuda"):
            yield f"table {self.name!r}: device {self.device!r}, want cpu or cuda"
        if self.repeats not in REDUCTIONS:
            yield f"table {self.name!r}: repeats {self.repeats!r}, want one of {', '.join(REDUCTIONS)}"
