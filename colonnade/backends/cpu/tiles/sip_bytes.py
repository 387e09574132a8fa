"""The tile of `sip_bytes`: SipHash-2-4 of each string."""

from __future__ import annotations

from colonnade.backends.cpu.siphash import siphash64
from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_i64, load_u64, store_u64
from colonnade.ops.sip_bytes import SipBytes


@tile
@kernel
def sip_bytes(step: int, source: int, n: int, target: int) -> None:
    """String to uint64."""
    key0, key1 = load_u64(step + 8), load_u64(step + 16)
    for i in range(n):
        store_u64(target + 8 * i, siphash64(load_i64(source + 16 * i), load_i64(source + 16 * i + 8), key0, key1))


@lowering(SipBytes)
def lower(op: SipBytes, dtype: str, memory: Memory) -> list[Step]:
    """Parameters: the key."""
    return [Step("sip_bytes", (op.key0, op.key1))]
