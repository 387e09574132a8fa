"""The tile of `wrap_negative`."""

from __future__ import annotations

from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_i64, store_i64
from colonnade.ops.wrap_negative import WrapNegative


@tile
@kernel
def wrap_negative(step: int, source: int, n: int, target: int) -> None:
    """Integers."""
    size = load_i64(step + 8)
    for i in range(n):
        x = load_i64(source + 8 * i)
        store_i64(target + 8 * i, x + size if x < 0 else x)


@lowering(WrapNegative)
def lower(op: WrapNegative, dtype: str, memory: Memory) -> list[Step]:
    """Parameter: the size."""
    return [Step("wrap_negative", (op.size,))]
