"""Normal values near their mean."""

from __future__ import annotations

import math
from dataclasses import dataclass

from colonnade.train.initializers.initializer import Draw, Initializer, refuse_unless
from colonnade.train.loops.words import TRUNCATED

LEAST = 0.01
"""The least share of normal values within the bounds: what lies outside is drawn again."""


@dataclass(frozen=True)
class TruncatedNormal(Initializer):
    """Normal, of `mean` and standard deviation `std`, from `low` to `high` deviations from the mean."""

    mean: float = 0.0
    std: float = 0.01
    low: float = -2.0
    high: float = 2.0

    def __post_init__(self) -> None:
        refuse_unless(0 < self.std < float("inf"), self, "a finite std above 0")
        share = (math.erf(self.high / math.sqrt(2)) - math.erf(self.low / math.sqrt(2))) / 2
        refuse_unless(share >= LEAST, self, f"bounds that hold {LEAST:.0%} of normal values; Units: deviations")

    def draw(self, embedding_dim: int) -> Draw:
        return Draw(TRUNCATED, self.mean, self.std, self.low, self.high)
