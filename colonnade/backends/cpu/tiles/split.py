"""The tile of `split`: strings to their tokens, resumable at any token."""

from __future__ import annotations

from colonnade.backends.cpu.intrinsics import kernel, load_u8
from colonnade.backends.cpu.tiles.not_equal import equal_bytes


@kernel
def find(text: int, start: int, length: int, separator: int, width: int) -> int:
    """Where the first separator at or after `start` begins, or `length`."""
    first = load_u8(separator)
    if width == 1:
        for at in range(start, length):
            if load_u8(text + at) == first:
                return at
        return length
    at = start
    while at + width <= length:
        if load_u8(text + at) == first and equal_bytes(text + at, separator, width):
            return at
        at += 1
    return length
