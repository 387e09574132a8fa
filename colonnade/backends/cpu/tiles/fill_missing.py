"""The tiles of `fill_missing`."""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_f32, load_i64, store_f32, store_i64
from colonnade.ops.fill_missing import FillMissing


@tile
@kernel
def fill_int(step: int, source: int, n: int, target: int) -> None:
    """Integers."""
    fill, missing = load_i64(step + 8), load_i64(step + 16)
    for i in range(n):
        x = load_i64(source + 8 * i)
        store_i64(target + 8 * i, fill if x == missing else x)


@tile
@kernel
def fill_f32(step: int, source: int, n: int, target: int) -> None:
    """float32."""
    fill = load_f32(load_i64(step + 8))
    for i in range(n):
        x = load_f32(source + 4 * i)
        store_f32(target + 4 * i, x if x == x else fill)


@lowering(FillMissing)
def lower(op: FillMissing, dtype: str, memory: Memory) -> list[Step]:
    """Parameters: the fill and what is missing, or the address of the fill."""
    if op.missing is None:
        return [Step("fill_f32", (memory.add(np.array([op.fill], np.float32)),))]
    return [Step("fill_int", (int(op.fill), op.missing))]
