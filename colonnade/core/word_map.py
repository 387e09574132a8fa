"""A map from keys to integers as one array: open addressing, half empty, searched slot by slot from a key's home.

A slot is four words. Of a string: hash, place of its bytes, length (-1: the slot is empty), value. Of an integer: the
key, 0, length (0; -1: empty), value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.core.fingerprint import fingerprints64

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
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    words = (lengths + 7) // 8
    places = np.cumsum(words) - words
    text = _spread(b"".join(keys), lengths, 8 * places, 8 * int(words.sum()) + 16)
    rows[:, LENGTH], rows[:, PLACE] = lengths, places
    rows[:, HASH] = fingerprints64(text, 8 * places, lengths).view(np.int64)
    return WordMap(_filled(rows, rows[:, HASH] & (count - 1), count), text.view(np.uint64))


def _spread(joined: bytes, lengths: Words, starts: Words, size: int) -> npt.NDArray[np.uint8]:
    """Strings that lie end to end, each moved to a start of its own; zeros between them."""
    made = np.zeros(size, np.uint8)
    moved = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    made[np.arange(len(joined)) + moved] = np.frombuffer(joined, np.uint8)
    return made


def _filled(rows: Words, homes: Words, count: int) -> Words:
    """The slots, after every row went to the first free slot from its home on."""
    slots = np.zeros((count, SLOT_WORDS), np.int64)
    slots[:, LENGTH] = EMPTY
    owners = np.full(count, EMPTY)
    pending, at = np.arange(len(rows)), homes
    while len(pending):
        wants = owners[at] == EMPTY
        owners[at[wants]] = pending[wants]  # of several, one gets it: the last
        left = owners[at] != pending
        pending, at = pending[left], (at[left] + 1) & (count - 1)
    held = np.flatnonzero(owners != EMPTY)
    slots[held] = rows[owners[held]]
    return slots
