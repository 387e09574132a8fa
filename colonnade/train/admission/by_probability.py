"""Ids are admitted by chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colonnade.core.given import is_number
from colonnade.errors import OptionError
from colonnade.train.admission.admission import Admission, Admitter
from colonnade.train.initializers.initializer import random_words
from colonnade.train.tables.store import Budget, Fresh, Keys

OTHER = 0xA5A5A5A55A5A5A5A
"""Told apart from the random numbers of values."""


@dataclass(frozen=True)
class ByProbability(Admission):
    """Each occurrence of an id is admitted with this probability. Facts: by (seed, table, id, step) alone."""

    probability: float

    def __post_init__(self) -> None:
        if not is_number(self.probability) or not 0 < self.probability <= 1:
            raise OptionError("an admission that cannot work", got=str(self), want="a probability above 0, to 1")

    def begin(self, name: str, fresh: Fresh, budget: Budget) -> Admitter:
        return _Chance(self.probability, self.key_of(fresh))

    @staticmethod
    def key_of(fresh: Fresh) -> int:
        """The 64-bit key of a table's random numbers."""
        return fresh.draw_key ^ OTHER


class _Chance(Admitter):
    def __init__(self, probability: float, key: int) -> None:
        self.probability, self.key = probability, key

    def admit(self, keys: Keys, step: int) -> npt.NDArray[np.bool_]:
        share = random_words(self.key, keys.ids, 1, step % 2**32)[:, 0] * 2.0**-32
        admitted: npt.NDArray[np.bool_] = share < 1 - power(1 - self.probability, keys.counts)
        return admitted


def power(base: float, times: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """A base to whole powers, by squaring. Facts: the same bits wherever these products are formed."""
    made, left = np.ones(len(times)), times.copy()
    while left.any():
        made = np.where(left & 1, made * base, made)
        base *= base
        left >>= 1
    return made
