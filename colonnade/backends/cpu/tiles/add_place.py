"""The tile of `add_place`, on pairs of an integer and a place."""

from __future__ import annotations

from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_i64, store_i64
from colonnade.ops.add_place import AddPlace


@tile
@kernel
def add_place(step: int, source: int, n: int, target: int) -> None:
    """Pairs to integers."""
    stride, last = load_i64(step + 8), load_i64(step + 16)
    for i in range(n):
        place = min(max(load_i64(source + 16 * i + 8), 0), last)
        store_i64(target + 8 * i, load_i64(source + 16 * i) + stride * place)


@lowering(AddPlace)
def lower(op: AddPlace, dtype: str, memory: Memory) -> list[Step]:
    """Parameters: the stride and the last place."""
    return [Step("add_place", (op.stride, op.width - 1))]
