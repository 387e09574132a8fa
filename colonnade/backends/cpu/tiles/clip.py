"""The tiles of `clip`."""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_f32, load_i64, store_f32, store_i64
from colonnade.ops.clip import Clip


@tile
@kernel
def clip_int(step: int, source: int, n: int, target: int) -> None:
    """Integers."""
    least, most = load_i64(step + 8), load_i64(step + 16)
    for i in range(n):
        x = load_i64(source + 8 * i)
        store_i64(target + 8 * i, least if x < least else (most if x > most else x))


@tile
@kernel
def clip_f32(step: int, source: int, n: int, target: int) -> None:
    """float32."""
    words = load_i64(step + 8)
    least, most = load_f32(words), load_f32(words + 4)
    for i in range(n):
        x = load_f32(source + 4 * i)
        store_f32(target + 4 * i, least if x < least else (most if x > most else x))


@lowering(Clip)
def lower(op: Clip, dtype: str, memory: Memory) -> list[Step]:
    """Parameters: the bounds, or the address of theirs."""
    if dtype == "float32":
        return [Step("clip_f32", (memory.add(np.array([op.least, op.most], np.float32)),))]
    return [Step("clip_int", (int(op.least), int(op.most)))]
