"""The tiles of `vocabulary`: a search in open addressing, with full comparison of keys.

Source: `colonnade.core.word_map` lays out the slots.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.fingerprint import fingerprint64
from colonnade.backends.cpu.intrinsics import prefetch
from colonnade.backends.cpu.tiles.hash_decimal import fingerprint64_decimal
from colonnade.backends.cpu.tiles.not_equal import equal_bytes
from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_i64, load_u64, store_i64, store_u64
from colonnade.core.word_map import SLOT_WORDS, SPREAD, word_map
from colonnade.ops.vocabulary import Vocabulary

U = np.uint64
SLOT_BYTES = 8 * SLOT_WORDS
FACTOR = U(SPREAD)


@kernel
def _unknown(words: int, hashed: U) -> int | np.int64:
    default, buckets = load_i64(words), load_u64(words + 8)
    return default if buckets == U(0) else default + np.int64(hashed % buckets)


@tile
@kernel
def vocabulary_text(step: int, source: int, n: int, target: int) -> None:
    """Strings. Slots and keys of all are on their way before the first is compared."""
    slots, mask, words = load_i64(step + 8), load_i64(step + 16), load_i64(step + 24)
    text = load_i64(words + 16)
    for i in range(n):
        hashed = fingerprint64(load_i64(source + 16 * i), load_i64(source + 16 * i + 8))
        store_u64(target + 8 * i, hashed)
        prefetch(slots + SLOT_BYTES * (np.int64(hashed) & mask))
    for i in range(n):
        prefetch(text + 8 * load_i64(slots + SLOT_BYTES * (load_i64(target + 8 * i) & mask) + 8))
    for i in range(n):
        x, length = load_i64(source + 16 * i), load_i64(source + 16 * i + 8)
        hashed = load_u64(target + 8 * i)
        at = np.int64(hashed) & mask
        value = 0
        while True:
            slot = slots + SLOT_BYTES * at
            size = load_i64(slot + 16)
            if size < 0:
                value = _unknown(words, hashed)
                break
            if load_u64(slot) == hashed and size == length and equal_bytes(x, text + 8 * load_i64(slot + 8), length):
                value = load_i64(slot + 24)
                break
            at = (at + 1) & mask
        store_i64(target + 8 * i, value)


@kernel
def _slot_of(x: U, slots: int, mask: int, shift: U) -> np.int64 | int:
    """The address of the key's slot, or of an empty one."""
    at = np.int64((x * FACTOR) >> shift)
    while True:
        slot = slots + SLOT_BYTES * at
        if load_i64(slot + 16) < 0 or load_u64(slot) == x:
            return slot
        at = (at + 1) & mask


@tile
@kernel
def vocabulary_int(step: int, source: int, n: int, target: int) -> None:
    """int64."""
    slots, mask, words = load_i64(step + 8), load_i64(step + 16), load_i64(step + 24)
    default, buckets, shift = load_i64(words), load_u64(words + 8), load_u64(words + 16)
    for i in range(n):
        slot = _slot_of(load_u64(source + 8 * i), slots, mask, shift)
        value = load_i64(slot + 24)
        if load_i64(slot + 16) < 0:
            x = load_i64(source + 8 * i)
            value = default if buckets == U(0) else _unknown(words, fingerprint64_decimal(x))
        store_i64(target + 8 * i, value)


@tile
@kernel
def vocabulary_int_mod(step: int, source: int, n: int, target: int) -> None:
    """int64, buckets by the remainder of the integer itself."""
    slots, mask, words = load_i64(step + 8), load_i64(step + 16), load_i64(step + 24)
    default, buckets, shift = load_i64(words), load_i64(words + 8), load_u64(words + 16)
    for i in range(n):
        slot = _slot_of(load_u64(source + 8 * i), slots, mask, shift)
        value = load_i64(slot + 24)
        if load_i64(slot + 16) < 0:
            value = default + load_i64(source + 8 * i) % buckets
        store_i64(target + 8 * i, value)


@lowering(Vocabulary)
def lower(op: Vocabulary, dtype: str, memory: Memory) -> list[Step]:
    """Parameters: address and mask of the slots; address of default, number of buckets, and text or shift."""
    made = word_map(op.keys.array, op.values.array)
    is_text = dtype == "string"
    last = memory.add(made.text) if is_text else made.shift
    words = memory.add(np.array([op.default, op.num_oov, last], np.int64))
    by_value = op.function == "floor_mod" and op.num_oov > 0
    name = "vocabulary_text" if is_text else "vocabulary_int_mod" if by_value else "vocabulary_int"
    return [Step(name, (memory.add(made.slots), made.mask, words))]
