"""What an optimizer says: its state, the numbers of a step, and its rule as torch computes it.

Legend: U rows; D embedding_dim.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, cast

import torch

from colonnade.errors import OptionError
from colonnade.train.optimizers.schedules import Schedule

Rate = float | Schedule
LARGEST, LARGEST_SQUARED = 3.4028234663852886e38, 1.8446742e19
"""The largest float32, and one whose square is not infinite."""


@dataclass(frozen=True)
class State:
    """A part of a row's state. per_value: whether there is one number for each value, or one for the row."""

    name: str
    initial: float = 0.0
    per_value: bool = True


class Optimizer(ABC):
    """A frozen dataclass: a rule and its settings.

    loop: the name of the loop that computes it.   Facts: `eps` and the other numbers are float32 in the loops, and
    state is float32 whatever the values are stored in. No state becomes infinite: gradients beyond `most`, whose
    squares are infinite in float32, are refused as infinite ones are, and sums of squares stop at the largest number.
    """

    loop: ClassVar[str]
    most: ClassVar[float] = LARGEST_SQUARED
    least_rate: ClassVar[float] = 0.0
    lr: Rate

    def __post_init__(self) -> None:
        """Errors: OptionError for numbers that float32 has not, and for a learning rate that no step can take."""
        given = [getattr(self, field.name) for field in dataclasses.fields(self)]
        numbers: list[Any] = [x for x in given if isinstance(x, Real)]
        refuse_unless(all(-LARGEST <= x <= LARGEST for x in numbers), self, "numbers that float32 holds")
        if not isinstance(self.lr, Schedule):
            refuse_unless(self._takes(self.lr), self, self._rates())

    def _takes(self, lr: Any) -> bool:
        return isinstance(lr, Real) and bool(self.least_rate <= cast(float, lr) <= LARGEST)

    def _rates(self) -> str:
        return f"a learning rate from {self.least_rate} to {LARGEST}, or a Schedule of such"

    @property
    @abstractmethod
    def states(self) -> tuple[State, ...]:
        """What is kept of each row; those per value first."""

    @abstractmethod
    def scalars(self, step: int, lr: float) -> tuple[float, ...]:
        """The numbers that the loop reads. step: how often the table was updated, this time included."""

    @abstractmethod
    def reference(
        self, values_UD: torch.Tensor, states: tuple[torch.Tensor, ...], grads_UD: torch.Tensor, step: int, lr: float
    ) -> torch.Tensor:
        """The new values; the states, `[U, D]` or `[U, 1]`, are changed in place."""

    def rate(self, step: int) -> float:
        """The learning rate of a step of the training. Errors: OptionError where a schedule gives none."""
        if not isinstance(self.lr, Schedule):
            return self.lr
        found = self.lr.at(step)
        if not self._takes(found):
            what = "a schedule whose learning rate cannot be taken"
            raise OptionError(what, where=f"step {step} of {self.lr}", got=str(found), want=self._rates())
        return found

    def num_states(self, embedding_dim: int) -> int:
        """Numbers of state of a row."""
        return sum(embedding_dim if state.per_value else 1 for state in self.states)

    @property
    def settings(self) -> str:
        """What the numbers of a state mean, in words: the rule and its settings but for the learning rate."""
        own = [field.name for field in dataclasses.fields(self) if field.name != "lr"]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in own)})"

    def fresh(self, embedding_dim: int) -> list[float]:
        """The state of a new row."""
        return [s.initial for s in self.states for _ in range(embedding_dim if s.per_value else 1)]


def refuse_unless(holds: bool, what: object, want: str) -> None:
    """Errors: OptionError naming an optimizer, unless the condition holds."""
    if not holds:
        raise OptionError("an optimizer that cannot work", got=str(what), want=want)
