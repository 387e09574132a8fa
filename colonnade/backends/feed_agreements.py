"""Checks of a packed request: inputs that lack values together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.core.batch import Layout, Packed, Place
from colonnade.errors import FeedError, listed
from colonnade.ir.program import Agreement, Program

Bools = npt.NDArray[np.bool_]
TINY = np.finfo(np.float32).tiny


class Agreements:
    """Which fields of which layout are held against each other."""

    def __init__(self, program: Program, layouts: Sequence[Layout]) -> None:
        self._items = tuple(
            (index, item)
            for item in program.agreements
            for index, layout in enumerate(layouts)
            if item.name in layout.places
        )
        self._places = tuple(layout.places for layout in layouts)

    def __bool__(self) -> bool:
        return bool(self._items)

    def check(self, packed: Sequence[Packed]) -> None:
        """Errors: FeedError that lists the places in which one of two fields has a value and the other has none."""
        problems = [text for index, item in self._items for text in self._differ(packed[index], index, item)]
        if problems:
            raise FeedError(
                "inputs that belong together lack values in different places",
                got=listed(problems),
                want="an id and its weight in the same place, or neither",
                help="a weight of 0 stands for a missing one",
            )

    def _differ(self, packed: Packed, index: int, item: Agreement) -> Iterator[str]:
        one, other = self._places[index][item.name], self._places[index][item.other]
        lacks, lacks_other = _lacking(packed, one, item.missing), _lacking(packed, other, item.other_missing)
        for at in np.flatnonzero(lacks != lacks_other).tolist():
            row, place = divmod(at, one.width)
            without, has = (item.name, item.other) if lacks[at] else (item.other, item.name)
            yield f"row {row}, place {place}: {has!r} has a value, {without!r} has none"


def _lacking(packed: Packed, place: Place, missing: int | bytes | float) -> Bools:
    first, last = packed.rows * place.start, packed.rows * (place.start + place.width)
    if isinstance(missing, bytes):
        ends: npt.NDArray[Any] = packed.string_offsets[first : last + 1]
        found: Bools = np.diff(ends) == 0
        return found
    values = packed.buffers[place.dtype][first:last]
    found = np.abs(values) < TINY if isinstance(missing, float) else values == missing
    return found
