"""The tile of `add_position`, on pairs of an integer and its place."""

from __future__ import annotations

from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_i64, store_i64
from colonnade.ops.add_position import AddPosition


@tile
@kernel
def add_position(step: int, source: int, n: int, target: int) -> None:
    """Pairs to integers."""
    stride = load_i64(step + 8)
    for i in range(n):
        store_i64(target + 8 * i, load_i64(source + 16 * i) + stride * load_i64(source + 16 * i + 8))


@lowering(AddPosition)
def lower(op: AddPosition, dtype: str, memory: Memory) -> list[Step]:
    """Parameter: the stride."""
    return [Step("add_position", (op.stride,))]
