"""What a policy of admission says.

Legend: M ids without a row, which are distinct and of one table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch

from colonnade.train.tables.store import Budget, Fresh, Keys, Store


class Admitter(ABC):
    """A policy at work on one table. Facts: asked in training alone; an id that is not admitted is looked up as the
    default row, and learns nothing.
    """

    @abstractmethod
    def admit(self, keys: Keys, step: int) -> npt.NDArray[np.bool_]:
        """Which ids get a row now, `[M]`. Facts: changes nothing."""

    @property
    def remembers(self) -> Store | None:
        """The ids that wait, of which `state` gives ids, steps and counts; None: it has no such."""
        return None

    @property
    def bytes(self) -> int:
        """Memory of the budget that it has taken."""
        return 0

    def reserve(self, keys: Keys, admitted: npt.NDArray[np.bool_]) -> None:
        """Make room for what `note` will remember. Errors: BudgetError."""
        del keys, admitted  # most remember nothing

    def note(self, keys: Keys, admitted: npt.NDArray[np.bool_], step: int) -> None:
        """Remember which ids were asked for and admitted. Facts: there is room."""
        del keys, admitted, step

    def state(self) -> dict[str, torch.Tensor]:
        """What it must remember."""
        return {}

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Remember what `state` gave."""
        assert not state


class Admission(ABC):
    """A frozen dataclass: a policy and its settings."""

    @abstractmethod
    def begin(self, name: str, fresh: Fresh, budget: Budget) -> Admitter:
        """The policy for one table."""
