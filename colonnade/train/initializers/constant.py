"""Every value the same."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.train.initializers.initializer import Draw, Initializer
from colonnade.train.loops.words import CONSTANT


@dataclass(frozen=True)
class Constant(Initializer):
    """`value`."""

    value: float = 0.0

    def draw(self, embedding_dim: int) -> Draw:
        return Draw(CONSTANT, self.value)
