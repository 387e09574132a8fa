"""The lookups of a group of tables whose gradients are still to be learned from.

Legend: U distinct keys; D embedding_dim.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch

from colonnade.errors import GradientError

K = TypeVar("K")
R = TypeVar("R")


@dataclass(frozen=True)
class Lookup(Generic[K, R]):
    """Rows that a training step looked up. values: float32 [U, D], a leaf whose gradient is theirs.

    version: the store's, while which the rows are those of the keys.   heard: the tables that a gradient has come to
    since the last step, by name (None: all, where any has): of the others, values have zeros that nobody asked for.
    """

    keys: K
    rows: R
    values: torch.Tensor
    version: int
    heard: set[str] | None = None

    def unheard(self, tables: Sequence[str]) -> list[bool]:
        """Which of some tables no gradient has come to."""
        return [self.heard is not None and name not in self.heard for name in tables]


@dataclass
class _Era:
    """The time between two replacements of all rows. ended: what ended it; empty: it is now."""

    ended: str = ""


class Pending(Generic[K, R]):
    """Lookups in their order. name: of the tables.

    Facts: those of the current step are held. One that a step has passed lives as long as outputs need it, and is held
    again when a gradient comes to it: that counts at the next step.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lookups: list[Lookup[K, R]] = []
        self._era = _Era()

    def __len__(self) -> int:
        return len(self._lookups)

    def add(self, lookup: Lookup[K, R]) -> None:
        """Hold one more."""
        self._lookups.append(lookup)

    def learned(self) -> Iterator[Lookup[K, R]]:
        """Those that have a gradient."""
        return (lookup for lookup in self._lookups if lookup.values.grad is not None)

    def zero(self) -> None:
        """Forget the gradients that have come."""
        for lookup in self._lookups:
            lookup.values.grad = None
            if lookup.heard is not None:
                lookup.heard.clear()

    def settle(self) -> None:
        """Forget the gradients that have come, and wait for those that may yet come."""
        self.zero()
        nothing = torch.empty(0, dtype=torch.float32)
        given = [(weakref.ref(x.values), _Late(self, replace(x, values=nothing))) for x in self._lookups]
        self._lookups = []
        for values_of, late in given:
            values = values_of()
            if values is not None:  # outputs hold it
                late.follow(values)

    def end(self, why: str) -> None:
        """Forget all: a gradient that comes to any of them from now on is an error, since the rows are no more."""
        self.settle()
        self._era.ended, self._era = why, _Era()


class _Late:
    """What happens when a gradient comes to the values of a lookup that a step has passed: once, then it is held.

    Facts: refers neither to the values nor to who waits, so that both end when their users do.
    """

    def __init__(self, pending: Pending[Any, Any], lookup: Lookup[Any, Any]) -> None:
        self._pending, self._lookup, self._era = weakref.ref(pending), lookup, pending._era
        self._name = pending.name
        self._handle: Any = None

    def follow(self, values: torch.Tensor) -> None:
        """Be called when a gradient has come to them."""
        self._handle = values.register_post_accumulate_grad_hook(self)

    def __call__(self, values: torch.Tensor) -> None:
        """Errors: GradientError where the rows are no more."""
        if self._era.ended:
            values.grad = None
            raise GradientError(
                f"a gradient of rows that were looked up before {self._era.ended}",
                where=self._name,
                help="run the backward pass before, or look the rows up again",
            )
        pending = self._pending()
        if pending is not None:
            self._handle.remove()
            pending.add(replace(self._lookup, values=values))
