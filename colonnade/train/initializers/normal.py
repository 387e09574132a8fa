"""Normal values."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.train.initializers.initializer import Draw, Initializer, refuse_unless
from colonnade.train.loops.words import NORMAL


@dataclass(frozen=True)
class Normal(Initializer):
    """Normal, of `mean` and standard deviation `std`."""

    mean: float = 0.0
    std: float = 0.01

    def __post_init__(self) -> None:
        refuse_unless(0 < self.std < float("inf"), self, "a finite std above 0")

    def draw(self, embedding_dim: int) -> Draw:
        return Draw(NORMAL, self.mean, self.std)
