"""The tile of `hash_decimal`: Fingerprint64 of an integer's decimal text."""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.fingerprint import fingerprint64
from colonnade.backends.cpu.intrinsics import scratch
from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_i64, store_u8, store_u64
from colonnade.errors import GraphError
from colonnade.ops.hash_decimal import HashDecimal

LONGEST = 20
"""Characters of -2^63."""
text = scratch(64)


@kernel
def print_decimal(value: int, end: int) -> int:
    """Write the decimal text so that it ends at `end`; gives its length."""
    rest = np.uint64(value)
    if value < 0:
        rest = np.uint64(0) - rest
    at = end
    while True:
        shorter = rest // np.uint64(10)
        at -= 1
        store_u8(at, np.uint8(rest - shorter * np.uint64(10) + np.uint64(48)))
        rest = shorter
        if rest == np.uint64(0):
            break
    if value < 0:
        at -= 1
        store_u8(at, np.uint8(45))
    return end - at


@kernel
def fingerprint64_decimal(value: int) -> np.uint64:
    """The fingerprint of the decimal text."""
    end = text() + LONGEST
    length = print_decimal(value, end)
    return fingerprint64(end - length, length)


@tile
@kernel
def hash_decimal(step: int, source: int, n: int, target: int) -> None:
    """Integer to uint64."""
    for i in range(n):
        store_u64(target + 8 * i, fingerprint64_decimal(load_i64(source + 8 * i)))


@lowering(HashDecimal)
def lower(op: HashDecimal, dtype: str, memory: Memory) -> list[Step]:
    """No parameters."""
    if op.function != "farm":
        raise GraphError("the cpu backend does not know this hash", got=op.function, want="farm")
    return [Step("hash_decimal")]
