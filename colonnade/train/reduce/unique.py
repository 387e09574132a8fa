"""Each key of a batch once: so that tables are asked, and rows written, once for each.

Legend: F features; N ids of all features; U distinct keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.backends.memory import address_of
from colonnade.train.compiled import LOOPS
from colonnade.train.loops import unique as loop
from colonnade.train.tables.store import Keys, Store

Array = npt.NDArray[Any]


class Unique:
    """Numbers the distinct keys of batches; keeps the memory that it works in. Facts: for one thread."""

    def __init__(self) -> None:
        self._loops = LOOPS.warm()
        self._slots = np.zeros(64, np.uint64)

    def run(self, store: Store, tables: Array, starts: Array, sizes: Array, values: Array, inverse: Array) -> Keys:
        """The distinct keys, in the order in which they first occur.

        tables, starts, sizes: int64 [F], of each feature its table in the store and where its ids lie.
        values: int64 [N].   inverse: int32 [N], the number of each id's key, written at the features' places.
        """
        total = int(sizes.sum())
        features = np.empty((len(tables), loop.UNIQUE_BYTES // 8), np.int64)
        features[:, loop.TABLE // 8] = tables
        features[:, loop.IDS // 8] = address_of(values) + 8 * starts
        features[:, loop.SIZE // 8] = sizes
        features[:, loop.INVERSE // 8] = address_of(inverse) + 4 * starts
        num_slots = 1 << max(2 * total - 1, 63).bit_length()
        if num_slots > len(self._slots):
            self._slots = np.zeros(num_slots, np.uint64)
        tables_U, ids_U = np.empty(total, np.int64), np.empty(total, np.int64)
        keys = Keys(np.empty(total, np.uint64), tables_U, ids_U, np.empty(total, np.int32))
        written = [address_of(x) for x in (keys.hashes, keys.tables, keys.ids, keys.counts)]
        at = (store.at, address_of(features), len(features), address_of(self._slots))
        found = self._loops["unique"](*at, num_slots - 1, *written)
        return keys.take(slice(0, found))


def reference(tables: Sequence[int], values: Sequence[Array]) -> tuple[list[tuple[int, int]], list[list[int]]]:
    """The distinct (table, id) in the order in which they first occur, and their numbers for each feature's ids."""
    numbers: dict[tuple[int, int], int] = {}
    inverse = [
        [numbers.setdefault((table, int(id_)), len(numbers)) for id_ in ids]
        for table, ids in zip(tables, values, strict=True)
    ]
    return list(numbers), inverse
