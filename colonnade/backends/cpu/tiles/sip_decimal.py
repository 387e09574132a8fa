"""The tile of `sip_decimal`: SipHash-2-4 of an integer's decimal text."""

from __future__ import annotations

from colonnade.backends.cpu.siphash import siphash64
from colonnade.backends.cpu.tiles.hash_decimal import LONGEST, print_decimal, text
from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_i64, load_u64, store_u64
from colonnade.ops.sip_decimal import SipDecimal


@tile
@kernel
def sip_decimal(step: int, source: int, n: int, target: int) -> None:
    """Integer to uint64."""
    key0, key1 = load_u64(step + 8), load_u64(step + 16)
    end = text() + LONGEST
    for i in range(n):
        length = print_decimal(load_i64(source + 8 * i), end)
        store_u64(target + 8 * i, siphash64(end - length, length, key0, key1))


@lowering(SipDecimal)
def lower(op: SipDecimal, dtype: str, memory: Memory) -> list[Step]:
    """Parameters: the key."""
    return [Step("sip_decimal", (op.key0, op.key1))]
