"""What a policy of eviction says.

Legend: R rows of a table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.core.given import is_positive
from colonnade.errors import OptionError

Numbers = npt.NDArray[Any]


class Eviction(ABC):
    """A frozen dataclass: a policy and its settings. Facts: never asked outside training; by these numbers alone."""

    @abstractmethod
    def chosen(self, ids: Numbers, steps: Numbers, counts: Numbers, step: int) -> npt.NDArray[np.int64]:
        """The places of the rows to give up.

        ids, steps, counts: int64 [R]; in which step each was last looked up, and how often it was.   step: now.
        """


def first_of(excess: int, *by: Numbers) -> npt.NDArray[np.int64]:
    """The places of so many rows, the smallest `by` the first numbers, then by the next."""
    if excess <= 0:
        return np.empty(0, np.int64)
    return np.lexsort(by[::-1])[:excess]


def refuse_unless_positive(value: int, what: object, name: str) -> None:
    """Errors: OptionError naming a policy, unless a setting is a whole number of at least 1."""
    if not is_positive(value):
        raise OptionError("an eviction that cannot work", got=str(what), want=f"{name}: a whole number, at least 1")
