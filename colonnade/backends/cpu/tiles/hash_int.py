"""The tiles of `hash_int`: the bytes of an integer are hashed where they lie."""

from __future__ import annotations

from colonnade.backends.cpu.fingerprint import fingerprint64
from colonnade.backends.cpu.murmur import murmur64
from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, store_u64
from colonnade.ops.hash_int import HashInt


@tile
@kernel
def farm_int(step: int, source: int, n: int, target: int) -> None:
    """Integer to uint64."""
    for i in range(n):
        store_u64(target + 8 * i, fingerprint64(source + 8 * i, 8))


@tile
@kernel
def murmur_int(step: int, source: int, n: int, target: int) -> None:
    """Integer to uint64."""
    for i in range(n):
        store_u64(target + 8 * i, murmur64(source + 8 * i, 8))


@lowering(HashInt)
def lower(op: HashInt, dtype: str, memory: Memory) -> list[Step]:
    """No parameters."""
    return [Step(f"{op.function}_int")]
