"""Room for elements whose number only the data decide, and for what batches share, by what the last ones needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from colonnade.core.expr import Expr

SLACK = 1.125
"""How much more room than the largest batch needed."""
PERIOD = 256
"""After so many batches, room is what the largest of them needed."""


class Room:
    """How many elements of each node there is room for, where a batch had more than was guessed.

    Facts: a batch that needs more makes more; what none needed in a whole period is given back.
    """

    def __init__(self, nodes: Sequence[Expr]) -> None:
        self._nodes = tuple(nodes)
        self._counts: dict[Expr, int] = {}
        self._most = np.zeros(len(nodes), np.int64)
        self._batches = 0

    @property
    def counts(self) -> Mapping[Expr, int]:
        """By node."""
        return self._counts

    def grow(self, found: npt.NDArray[np.int64]) -> None:
        """Make room for a batch. found: int64, the elements of each node."""
        for node, count in zip(self._nodes, found.tolist(), strict=True):
            self._counts[node] = max(self._counts.get(node, 0), int(SLACK * count))

    def note(self, found: npt.NDArray[np.int64]) -> None:
        """Know that a batch had so many."""
        np.maximum(self._most, found, out=self._most)
        self._batches += 1
        if self._batches == PERIOD:
            most = dict(zip(self._nodes, self._most.tolist(), strict=True))
            self._counts = {node: min(count, int(SLACK * most[node])) for node, count in self._counts.items()}
            self._most[:], self._batches = 0, 0


class Shared:
    """How large memory is that batches use one after the other. Units: bytes.

    Facts: a batch that needs more makes more; of what no batch of a period needed the half is given back.
    """

    def __init__(self) -> None:
        self._size = self._most = self._batches = 0

    def of(self, wanted: int) -> int:
        """The size with which a batch that wants so many is run."""
        if wanted > self._size:
            self._size = int(SLACK * wanted)
        self._most, self._batches = max(self._most, wanted), self._batches + 1
        if self._batches == PERIOD:
            fits = int(SLACK * self._most)
            self._size = fits if self._size > 2 * fits else self._size
            self._most = self._batches = 0
        return self._size
