"""Maps of open addressing: every key is found from its home on, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.core.fingerprint import fingerprint64
from colonnade.core.word_map import EMPTY, HASH, LENGTH, PLACE, SPREAD, VALUE, WordMap, word_map


def found(made: WordMap, key: bytes | int) -> int | None:
    """The value of a key, one slot after the other."""
    if isinstance(key, bytes):
        hashed, length = fingerprint64(key), len(key)
        at = hashed & made.mask
    else:
        hashed, length = key % 2**64, 0
        at = (key * SPREAD % 2**64) >> made.shift
    while made.slots[at, LENGTH] != EMPTY:
        slot = made.slots[at]
        same = int(slot[HASH]) % 2**64 == hashed and slot[LENGTH] == length
        text = made.text.tobytes()[8 * slot[PLACE] : 8 * slot[PLACE] + slot[LENGTH]]
        if same and (not isinstance(key, bytes) or text == key):
            return int(slot[VALUE])
        at = (at + 1) & made.mask
    return None


@pytest.mark.parametrize("size", [0, 1, 4, 5, 100, 3000])
def test_every_key_is_found(size: int) -> None:
    rng = np.random.default_rng(size)
    texts = np.empty(size, object)
    texts[:] = [bytes(rng.integers(0, 256, k % 40, np.uint8)) + b"%d" % k for k in range(size)]
    numbers = np.unique(rng.integers(-(2**63), 2**63 - 1, size))
    for keys in (texts, numbers, np.arange(size)):
        values = rng.permutation(len(keys))
        made = word_map(keys, values)
        assert len(made.slots) >= 2 * len(keys) and len(made.slots) & made.mask == 0
        assert [found(made, key) for key in keys.tolist()] == values.tolist()
        assert found(made, b"absent" if keys is texts else -12345) is None


def test_the_empty_string_is_a_key() -> None:
    made = word_map(np.array([b"", b"\0", b"\0\0"], object), np.array([5, 6, 7]))
    assert [found(made, key) for key in (b"", b"\0", b"\0\0", b"\0\0\0")] == [5, 6, 7, None]
