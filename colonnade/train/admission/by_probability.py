"""Ids are admitted by chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
        if not 0 < self.probability <= 1:
            raise OptionError("an admission that cannot work", got=str(self), want="a probability above 0, to 1")

    def begin(self, name: str, fresh: Fresh, budget: Budget) -> Admitter:
        return _Chance(self.probability, fresh.draw_key ^ OTHER)


class _Chance(Admitter):
    def __init__(self, probability: float, key: int) -> None:
        self.probability, self.key = probability, key

    def admit(self, keys: Keys, step: int) -> npt.NDArray[np.bool_]:
        share = random_words(self.key, keys.ids, 1, step % 2**32)[:, 0] * 2.0**-32
        admitted: npt.NDArray[np.bool_] = share < 1 - (1 - self.probability) ** keys.counts.astype(np.float64)
        return admitted
