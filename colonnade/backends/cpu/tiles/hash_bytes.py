"""The tile of `hash_bytes`: Fingerprint64 of each string."""

from __future__ import annotations

from colonnade.backends.cpu.fingerprint import fingerprint64
from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_i64, store_u64
from colonnade.errors import GraphError
from colonnade.ops.hash_bytes import HashBytes


@tile
@kernel
def hash_bytes(step: int, source: int, n: int, target: int) -> None:
    """String to uint64."""
    for i in range(n):
        store_u64(target + 8 * i, fingerprint64(load_i64(source + 16 * i), load_i64(source + 16 * i + 8)))


@lowering(HashBytes)
def lower(op: HashBytes, dtype: str, memory: Memory) -> list[Step]:
    """No parameters."""
    if op.function != "farm":
        raise GraphError("the cpu backend does not know this hash", got=op.function, want="farm")
    return [Step("hash_bytes")]
