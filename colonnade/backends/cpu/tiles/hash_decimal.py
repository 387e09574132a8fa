"""The tile of `hash_decimal`: Fingerprint64 of an integer's decimal text."""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.fingerprint import fingerprint64
from colonnade.backends.cpu.intrinsics import scratch
from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_i64, lowest_bit, store_u8, store_u64
from colonnade.errors import GraphError
from colonnade.ops.hash_decimal import HashDecimal

LONGEST = 32
"""Room for three times eight characters and a sign; -2^63 has 20."""
text = scratch(64)

U = np.uint64
EIGHT = U(10**8)
ZEROS = U(0x3030303030303030)
"""Eight times the character 0."""


@kernel
def _digits(value: U) -> U:
    """The eight decimal digits of value < 10^8, a byte each, the first lowest.

    Facts: halves, quarters and eighths are divided side by side, each by a product and a shift that are exact there.
    """
    high = value // U(10_000)
    halves = high | (value - high * U(10_000)) << U(32)
    hundreds = halves * U(10_486) >> U(20) & U(0x0000007F0000007F)
    quarters = hundreds | (halves - hundreds * U(100)) << U(16)
    tens = quarters * U(103) >> U(10) & U(0x000F000F000F000F)
    return tens | (quarters - tens * U(10)) << U(8)


@kernel
def print_decimal(value: int, end: int) -> int:
    """Write the decimal text so that it ends at `end`, in up to LONGEST bytes before it; gives its length.

    Facts: eight characters at a time: what reads the text does not wait for many small stores.
    """
    rest = U(value)
    if value < 0:
        rest = U(0) - rest
    at, length = end - 8, 0
    while rest >= EIGHT:
        more = rest // EIGHT
        store_u64(at, _digits(rest - more * EIGHT) + ZEROS)
        rest = more
        at -= 8
        length += 8
    digits = _digits(rest)
    store_u64(at, digits + ZEROS)
    length += 8 - (lowest_bit(digits) >> 3) if rest != U(0) else 1
    if value < 0:
        length += 1
        store_u8(end - length, np.uint8(45))
    return length


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
