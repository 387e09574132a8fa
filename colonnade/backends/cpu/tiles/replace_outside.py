"""The tile of `replace_outside`."""

from __future__ import annotations

from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_i64, store_i64
from colonnade.ops.replace_outside import ReplaceOutside

LEAST, MOST = -(2**63), 2**63 - 1


@tile
@kernel
def replace_outside(step: int, source: int, n: int, target: int) -> None:
    """Integers."""
    lo, hi, default = load_i64(step + 8), load_i64(step + 16), load_i64(step + 24)
    for i in range(n):
        x = load_i64(source + 8 * i)
        store_i64(target + 8 * i, x if x >= lo and x <= hi else default)


@lowering(ReplaceOutside)
def lower(op: ReplaceOutside, dtype: str, memory: Memory) -> list[Step]:
    """Parameters: both bounds and the default."""
    lo, hi = max(op.lo, LEAST), min(op.hi, MOST)
    return [Step("replace_outside", (lo, hi, op.default) if lo <= hi else (MOST, LEAST, op.default))]
