"""What a policy of eviction says.

Legend: R rows of a table, in the order of their numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.errors import OptionError

Numbers = npt.NDArray[Any]


class Eviction(ABC):
    """A frozen dataclass: a policy and its settings. Facts: never asked outside training."""

    @abstractmethod
    def chosen(self, steps: Numbers, counts: Numbers, step: int) -> npt.NDArray[np.int64]:
        """The places of the rows to give up.

        steps: int64 [R], in which each was last looked up.   counts: int64 [R], how often.   step: now.
        """


def beyond(order: npt.NDArray[np.int64], capacity: int) -> npt.NDArray[np.int64]:
    """The first of an order, as many as there are beyond a capacity."""
    return order[: max(len(order) - capacity, 0)]


def refuse_unless_positive(value: int, what: object, name: str) -> None:
    """Errors: OptionError naming a policy, unless a setting is at least 1."""
    if value < 1:
        raise OptionError("an eviction that cannot work", got=str(what), want=f"{name} of at least 1")
