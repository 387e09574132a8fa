"""Uniform values."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.train.initializers.initializer import Draw, Initializer, refuse_unless
from colonnade.train.loops.words import UNIFORM


@dataclass(frozen=True)
class Uniform(Initializer):
    """From `low` to `high`: 2^24 values at equal distances."""

    low: float = -0.05
    high: float = 0.05

    def __post_init__(self) -> None:
        refuse_unless(self.low < self.high < float("inf") and self.low > -float("inf"), self, "low < high, both finite")

    def draw(self, embedding_dim: int) -> Draw:
        return Draw(UNIFORM, self.low, self.high)
