"""The tile of `or_else`, on pairs of integers."""

from __future__ import annotations

from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_i64, store_i64
from colonnade.ops.or_else import OrElse


@tile
@kernel
def or_else(step: int, source: int, n: int, target: int) -> None:
    """Pairs to integers."""
    added = load_i64(step + 8)
    for i in range(n):
        a, b = load_i64(source + 16 * i), load_i64(source + 16 * i + 8)
        store_i64(target + 8 * i, a if a >= 0 else b + added)


@lowering(OrElse)
def lower(op: OrElse, dtype: str, memory: Memory) -> list[Step]:
    """Parameter: what is added."""
    return [Step("or_else", (op.added,))]
