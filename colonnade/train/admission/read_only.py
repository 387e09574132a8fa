"""No id is admitted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colonnade.train.admission.admission import Admission, Admitter
from colonnade.train.tables.store import Budget, Fresh, Keys


@dataclass(frozen=True)
class ReadOnly(Admission):
    """The rows that are there learn; new ones come by hand alone."""

    def begin(self, name: str, fresh: Fresh, budget: Budget) -> Admitter:
        return _Closed()


class _Closed(Admitter):
    def admit(self, keys: Keys, step: int) -> npt.NDArray[np.bool_]:
        return np.zeros(len(keys), np.bool_)
