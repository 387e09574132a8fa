"""Each key of a batch once: so that tables are asked, and rows written, once for each.

Legend: F features; N ids of all features; U distinct keys.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.backends.memory import address_of
from colonnade.train.compiled import LOOPS, Loops
from colonnade.train.loops import unique as loop
from colonnade.train.tables.store import Keys, Store

Array = npt.NDArray[Any]

FEWEST_SLOTS = 64


class Unique:
    """Numbers the distinct keys of batches; keeps the memory that it works in. Facts: for one thread."""

    def __init__(self) -> None:
        self._slots = np.zeros(FEWEST_SLOTS, np.int32)

    @cached_property
    def _loops(self) -> Loops:
        """Compiled when they are first asked for: tables that move to a device do without."""
        return LOOPS.warm()

    def run(self, store: Store, tables: Array, starts: Array, sizes: Array, values: Array, inverse: Array) -> Keys:
        """The distinct keys: table by table, in the order in which they first occur.

        tables, starts, sizes: int64 [F], of each feature its table in the store and where its ids lie.
        values: int64 [N].   inverse: int32 [N], the number of each id's key, written at the features' places.
        """
        total = int(sizes.sum())
        order = np.argsort(tables, kind="stable")
        features = np.empty((len(tables), loop.UNIQUE_BYTES // 8), np.int64)
        features[:, loop.TABLE // 8] = tables[order]
        features[:, loop.IDS // 8] = address_of(values) + 8 * starts[order]
        features[:, loop.SIZE // 8] = sizes[order]
        features[:, loop.INVERSE // 8] = address_of(inverse) + 4 * starts[order]
        num_slots = _slots(tables, sizes)
        features[:, loop.MASK // 8] = num_slots[order] - 1
        if len(num_slots) and num_slots.max() > len(self._slots):
            self._slots = np.zeros(num_slots.max(), np.int32)
        keys = Keys.empty(total)
        written = [address_of(x) for x in (keys.hashes, keys.tables, keys.ids, keys.counts)]
        at = (store.at, address_of(features), len(features), address_of(self._slots))
        return keys.take(slice(0, self._loops["unique"](*at, *written)))


def _slots(tables: Array, sizes: Array) -> Array:
    """Of each feature, how many slots its table's ids are given: a power of two, at least twice as many, int64 [F]."""
    ids = np.bincount(tables, sizes)[tables] if len(tables) else sizes
    made: Array = 1 << np.ceil(np.log2(np.maximum(2 * ids, FEWEST_SLOTS))).astype(np.int64)
    return made


def reference(tables: Sequence[int], values: Sequence[Array]) -> tuple[list[tuple[int, int]], list[list[int]]]:
    """The distinct (table, id), table by table as they first occur, and their numbers for each feature's ids."""
    keys = [[(table, int(id_)) for id_ in ids] for table, ids in zip(tables, values, strict=True)]
    by_table = sorted(itertools.chain(*keys), key=lambda key: key[0])
    numbers = {key: number for number, key in enumerate(dict.fromkeys(by_table))}
    return list(numbers), [[numbers[key] for key in own] for own in keys]
