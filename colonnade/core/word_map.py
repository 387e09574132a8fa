"""A map from keys to integers as one array: open addressing, half empty, searched slot by slot from a key's home.

A slot is four words. Of a string: hash, place of its bytes, length (-1: the slot is empty), value. Of an integer: the
key, 0, length (0; -1: empty), value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.core.fingerprint import fingerprint64

Array = npt.NDArray[Any]
Words = npt.NDArray[np.int64]

SLOT_WORDS = 4
HASH, PLACE, LENGTH, VALUE = range(SLOT_WORDS)
EMPTY = -1
FEWEST = 8
SPREAD = 0x9E3779B97F4A7C15
"""An integer key's home is the upper bits of its product with this, 2^64 divided by the golden ratio."""


@dataclass(frozen=True)
class WordMap:
    """slots: int64 [a power of two, 4].   text: the keys' bytes as uint64, each from a word of its own, its number the
    slot's place; 16 bytes more can be read.

    Facts: a string's home is its hash, an integer's `home`, both counted modulo the slots.
    """

    slots: Words
    text: npt.NDArray[np.uint64]

    @property
    def mask(self) -> int:
        """The number of slots less one."""
        return len(self.slots) - 1

    @property
    def shift(self) -> int:
        """How far an integer key's product is shifted down to its home."""
        return 64 - self.mask.bit_length()


def word_map(keys: Array, values: Array) -> WordMap:
    """The map of distinct keys, strings (bytes) or int64, to int64 values."""
    count = 1 << max(2 * len(keys) - 1, FEWEST - 1).bit_length()
    rows = np.zeros((len(keys), SLOT_WORDS), np.int64)
    rows[:, VALUE] = values
    if keys.dtype != object:
        rows[:, HASH] = keys
        shift = np.uint64(64 - (count - 1).bit_length())
        with np.errstate(over="ignore"):
            homes = (keys.astype(np.int64).view(np.uint64) * np.uint64(SPREAD)) >> shift
        return WordMap(_filled(rows, homes.astype(np.int64), count), np.zeros(2, np.uint64))
    rows[:, LENGTH] = [len(key) for key in keys]
    words = (rows[:, LENGTH] + 7) // 8
    rows[:, PLACE] = np.cumsum(words) - words
    rows[:, HASH] = np.array([fingerprint64(key) for key in keys], np.uint64).view(np.int64)
    text = b"".join(key.ljust(8 * int(n), b"\0") for key, n in zip(keys, words, strict=True)) + b"\0" * 16
    return WordMap(_filled(rows, rows[:, HASH] & (count - 1), count), np.frombuffer(text, np.uint64))


def _filled(rows: Words, homes: Words, count: int) -> Words:
    """The slots, after every row went to the first free slot from its home on."""
    slots = np.zeros((count, SLOT_WORDS), np.int64)
    slots[:, LENGTH] = EMPTY
    pending, at = np.arange(len(rows)), homes.copy()
    while len(pending):
        free = slots[at[pending], LENGTH] == EMPTY
        wanted, first = np.unique(at[pending[free]], return_index=True)
        slots[wanted] = rows[pending[free][first]]
        done = np.zeros(len(rows), np.bool_)
        done[pending[free][first]] = True
        pending = pending[~done[pending]]
        taken = slots[at[pending], LENGTH] != EMPTY
        at[pending[taken]] = (at[pending[taken]] + 1) & (count - 1)
    return slots
