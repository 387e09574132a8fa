"""The tile of `affine`."""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_f32, load_i64, store_f32
from colonnade.ops.affine import Affine


@tile
@kernel
def affine(step: int, source: int, n: int, target: int) -> None:
    """float32; product and sum are rounded each by itself."""
    words = load_i64(step + 8)
    scale, shift = load_f32(words), load_f32(words + 4)
    for i in range(n):
        store_f32(target + 4 * i, load_f32(source + 4 * i) * scale + shift)


@lowering(Affine)
def lower(op: Affine, dtype: str, memory: Memory) -> list[Step]:
    """Parameter: the address of scale and shift."""
    return [Step("affine", (memory.add(np.array([op.scale, op.shift], np.float32)),))]
