"""The tiles of `not_equal`."""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.tiles.registry import Memory, Step, filter_tile, lowering
from colonnade.backends.memory import kernel, load_i64, load_u8, store_u8
from colonnade.ops.not_equal import NotEqual

DROP = np.uint8(0)


@kernel
def equal_bytes(a: int, b: int, n: int) -> bool:
    """Whether `n` bytes at two addresses are the same."""
    i = 0
    while i < n and load_u8(a + i) == load_u8(b + i):
        i += 1
    return i == n


@filter_tile
@kernel
def not_equal_bytes(step: int, source: int, n: int, mask: int) -> None:
    """Strings."""
    at, length = load_i64(step + 8), load_i64(step + 16)
    for i in range(n):
        if load_i64(source + 16 * i + 8) == length and equal_bytes(load_i64(source + 16 * i), at, length):
            store_u8(mask + i, DROP)


@filter_tile
@kernel
def not_equal_int(step: int, source: int, n: int, mask: int) -> None:
    """Integers."""
    value = load_i64(step + 8)
    for i in range(n):
        if load_i64(source + 8 * i) == value:
            store_u8(mask + i, DROP)


@lowering(NotEqual)
def lower(op: NotEqual, dtype: str, memory: Memory) -> list[Step]:
    """Parameters: address and length of the bytes, or the value; no step where nothing can be equal."""
    if isinstance(op.value, bytes):
        return [Step("not_equal_bytes", (memory.add(np.frombuffer(op.value, np.uint8)), len(op.value)))]
    return [Step("not_equal_int", (op.value,))] if -(2**63) <= op.value < 2**63 else []
