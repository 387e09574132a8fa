"""The tile of `split`: strings to their tokens, resumable at any token."""

from __future__ import annotations

from colonnade.backends.cpu.intrinsics import BYTES, equal_bytes_at
from colonnade.backends.cpu.tiles.not_equal import equal_bytes
from colonnade.backends.memory import kernel, load_u8, lowest_bit


@kernel
def find(text: int, start: int, length: int, separator: int, width: int) -> int:
    """Where the first separator at or after `start` begins, or `length`."""
    first = load_u8(separator)
    at = start
    if width == 1:
        while at + BYTES <= length:
            hits = equal_bytes_at(text + at, first)
            if hits != 0:
                return at + lowest_bit(hits)
            at += BYTES
        while at < length and load_u8(text + at) != first:
            at += 1
        return at
    while at + width <= length:
        if load_u8(text + at) == first and equal_bytes(text + at, separator, width):
            return at
        at += 1
    return length
