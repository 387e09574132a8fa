"""Xavier's values: a variance by the sizes on both sides."""

from __future__ import annotations

import math
from dataclasses import dataclass

from colonnade.train.initializers.initializer import Draw, Initializer, refuse_unless
from colonnade.train.loops.words import NORMAL, UNIFORM


@dataclass(frozen=True)
class Xavier(Initializer):
    """Mean 0 and variance `2 gain^2 / (rows + embedding_dim)`, as torch draws a matrix of so many rows.

    rows: how many the table is expected to have.   normal: whether normal, else uniform.
    """

    rows: int
    gain: float = 1.0
    normal: bool = False

    def __post_init__(self) -> None:
        refuse_unless(self.rows >= 0 and 0 < self.gain < float("inf"), self, "rows >= 0 and a finite gain above 0")

    def draw(self, embedding_dim: int) -> Draw:
        std = self.gain * math.sqrt(2 / (self.rows + embedding_dim))
        return Draw(NORMAL, 0.0, std) if self.normal else Draw(UNIFORM, -math.sqrt(3) * std, math.sqrt(3) * std)
