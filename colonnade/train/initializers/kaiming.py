"""Kaiming's values: a variance by the size on one side."""

from __future__ import annotations

import math
from dataclasses import dataclass

from colonnade.train.initializers.initializer import Draw, Initializer, refuse_unless
from colonnade.train.loops.words import NORMAL, UNIFORM


@dataclass(frozen=True)
class Kaiming(Initializer):
    """Mean 0 and variance `gain^2 / fan`, as torch draws a matrix; fan is the embedding_dim, or `rows` where given.

    gain: sqrt(2) for a ReLU behind it.   normal: whether normal, else uniform.
    """

    rows: int | None = None
    gain: float = math.sqrt(2)
    normal: bool = False

    def __post_init__(self) -> None:
        fits = (self.rows is None or self.rows > 0) and 0 < self.gain < float("inf")
        refuse_unless(fits, self, "rows > 0 and a finite gain above 0")

    def draw(self, embedding_dim: int) -> Draw:
        std = self.gain / math.sqrt(embedding_dim if self.rows is None else self.rows)
        return Draw(NORMAL, 0.0, std) if self.normal else Draw(UNIFORM, -math.sqrt(3) * std, math.sqrt(3) * std)
