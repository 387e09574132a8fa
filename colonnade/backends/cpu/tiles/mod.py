"""The tiles of `mod`: by a mask for powers of two, else by a multiplication with the precomputed reciprocal."""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.intrinsics import high_product
from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_u64, store_u64
from colonnade.ops.mod import Mod

U = np.uint64


@tile
@kernel
def mod_power_of_two(step: int, source: int, n: int, target: int) -> None:
    """`x & mask`."""
    mask = load_u64(step + 8)
    for i in range(n):
        store_u64(target + 8 * i, load_u64(source + 8 * i) & mask)


@tile
@kernel
def mod_by_product(step: int, source: int, n: int, target: int) -> None:
    """`x - divisor * (x // divisor)`.

    Source: Granlund and Montgomery, "Division by invariant integers using multiplication": with a 65-bit reciprocal
    2^64 + m, x // divisor = (((x - t) >> 1) + t) >> shift where t is the upper word of m * x.
    """
    divisor, reciprocal, shift = load_u64(step + 8), load_u64(step + 16), load_u64(step + 24)
    for i in range(n):
        x = load_u64(source + 8 * i)
        t = high_product(reciprocal, x)
        quotient = (((x - t) >> U(1)) + t) >> shift
        store_u64(target + 8 * i, x - quotient * divisor)


@lowering(Mod)
def lower(op: Mod, dtype: str, memory: Memory) -> list[Step]:
    """Parameters: mask, or divisor, reciprocal, shift."""
    divisor = op.divisor
    if divisor & (divisor - 1) == 0:
        return [Step("mod_power_of_two", (divisor - 1,))]
    bits = divisor.bit_length()
    reciprocal = (((1 << bits) - divisor << 64) // divisor) + 1
    return [Step("mod_by_product", (divisor, _signed(reciprocal), bits - 1))]


def _signed(word: int) -> int:
    """The int64 with the bits of a uint64."""
    return word - (1 << 64) if word >> 63 else word
