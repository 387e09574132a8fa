"""The tiles of `hash_bytes`: Fingerprint64 or MurmurHash64A of each string."""

from __future__ import annotations

from colonnade.backends.cpu.fingerprint import fingerprint64
from colonnade.backends.cpu.murmur import murmur64
from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_i64, store_u64
from colonnade.ops.hash_bytes import HashBytes


@tile
@kernel
def hash_bytes(step: int, source: int, n: int, target: int) -> None:
    """String to uint64."""
    for i in range(n):
        store_u64(target + 8 * i, fingerprint64(load_i64(source + 16 * i), load_i64(source + 16 * i + 8)))


@tile
@kernel
def murmur_bytes(step: int, source: int, n: int, target: int) -> None:
    """String to uint64."""
    for i in range(n):
        store_u64(target + 8 * i, murmur64(load_i64(source + 16 * i), load_i64(source + 16 * i + 8)))


TILES = {"farm": "hash_bytes", "murmur": "murmur_bytes"}


@lowering(HashBytes)
def lower(op: HashBytes, dtype: str, memory: Memory) -> list[Step]:
    """No parameters."""
    return [Step(TILES[op.function])]
