"""Learning rates that change with the step, counted from 1."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from colonnade.errors import OptionError


class Schedule(ABC):
    """A frozen dataclass that gives a step's learning rate."""

    def _refuse_unless(self, holds: bool, want: str) -> None:
        if not holds:
            raise OptionError("a schedule that cannot work", got=str(self), want=want)

    @abstractmethod
    def at(self, step: int) -> float:
        """The learning rate of a step."""


@dataclass(frozen=True)
class Exponential(Schedule):
    """`lr * rate^((step - 1) / steps)`."""

    lr: float
    rate: float
    steps: int = 1

    def __post_init__(self) -> None:
        self._refuse_unless(self.steps >= 1 and self.rate > 0, "steps of at least 1 and a rate above 0")

    def at(self, step: int) -> float:
        try:
            return self.lr * self.rate ** ((step - 1) / self.steps)
        except OverflowError:  # of Python's powers alone
            return math.inf


@dataclass(frozen=True)
class Cosine(Schedule):
    """From `lr` to `least` along half a cosine over `steps`, then `least`."""

    lr: float
    steps: int
    least: float = 0.0

    def __post_init__(self) -> None:
        self._refuse_unless(self.steps >= 1, "steps of at least 1")

    def at(self, step: int) -> float:
        share = min((step - 1) / self.steps, 1.0)
        return self.least + (self.lr - self.least) * (1 + math.cos(math.pi * share)) / 2


@dataclass(frozen=True)
class WarmUp(Schedule):
    """From `lr / steps` in equal steps up to `lr`, then another schedule (or `lr`), which begins at its step 1."""

    lr: float
    steps: int
    then: Schedule | None = None

    def __post_init__(self) -> None:
        self._refuse_unless(self.steps >= 0, "steps of at least 0")

    def at(self, step: int) -> float:
        if step <= self.steps:
            return self.lr * step / self.steps
        return self.lr if self.then is None else self.then.at(step - self.steps)
