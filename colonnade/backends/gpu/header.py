"""The header of a request on the device: its number of rows, where its ragged fields lie, and how they are tiled.

words: 0 is the number of rows; then, from word 8, the addresses of ragged fields (values, or offsets and bytes of
strings) and of offsets inputs; then, for the units whose tiles are cut from elements, the tiles before each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.backends.gpu.schedule import Schedule
from colonnade.core.batch import Layout, Packed

FIRST = 8
Array = npt.NDArray[Any]


def words_of(layout: Layout) -> dict[str, int]:
    """The word of each ragged field, which has two, and of each offsets input."""
    words: dict[str, int] = {}
    at = FIRST
    for name in layout.ragged:
        words[name] = at
        at += 2
    for name in dict.fromkeys(place.offsets for place in layout.ragged.values()):
        words[name] = at
        at += 1
    return words


def prefix_of(layout: Layout) -> int:
    """The word where the tiles before each unit begin."""
    return FIRST + 2 * len(layout.ragged) + len({place.offsets for place in layout.ragged.values()})


@dataclass(frozen=True)
class Header:
    """What a program's requests have in their headers. num_words: its size."""

    words: Mapping[str, int]
    prefix: int
    units: tuple[tuple[str | None, int, int], ...]
    """Offsets input, width and items of a tile, of each unit whose tiles are cut from elements."""

    @property
    def num_words(self) -> int:
        """Its size, a multiple of 8."""
        return -(-(self.prefix + len(self.units) + 1) // 8) * 8

    def write(self, words: Array, packed: Packed, addresses: Mapping[str, tuple[int, ...]]) -> int:
        """Fills int64[num_words]; gives the number of tiles that are cut from elements.

        addresses: on the device, of each ragged field's values (or offsets and bytes) and of each offsets input.
        """
        words[0] = packed.rows
        for name, word in self.words.items():
            words[word : word + len(addresses[name])] = addresses[name]
        if not self.units:
            return 0
        tiles = [self._tiles(unit, packed) for unit in self.units]
        words[self.prefix : self.prefix + len(tiles) + 1] = np.cumsum([0, *tiles])
        return int(words[self.prefix + len(tiles)])

    def _tiles(self, unit: tuple[str | None, int, int], packed: Packed) -> int:
        offsets, width, items = unit
        elements = packed.rows * width if offsets is None else int(packed.offsets[offsets][-1])
        return -(-(elements + packed.rows) // items)


def header_of(layout: Layout, schedule: Schedule) -> Header:
    """The header of a layout's requests."""
    units = tuple((u.offsets, u.width, g.structure.items) for g in schedule.tiled for u in g.units)
    return Header(words_of(layout), prefix_of(layout), units)
