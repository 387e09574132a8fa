"""The tile of `greater`."""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.tiles.registry import Memory, Step, filter_tile, lowering
from colonnade.backends.memory import kernel, load_f32, load_i64, store_u8
from colonnade.ops.greater import Greater

DROP = np.uint8(0)
ZERO, LEAST = np.float32(0), np.float32(np.finfo(np.float32).tiny)


@filter_tile
@kernel
def greater(step: int, source: int, n: int, mask: int) -> None:
    """float32; a value below the second parameter's, whatever its sign, counts as zero."""
    words = load_i64(step + 8)
    bound, least = load_f32(words), load_f32(words + 4)
    for i in range(n):
        x = load_f32(source + 4 * i)
        if x < least and -x < least:
            x = ZERO
        if not x > bound:
            store_u8(mask + i, DROP)


@lowering(Greater)
def lower(op: Greater, dtype: str, memory: Memory) -> list[Step]:
    """Parameter: the address of bound and least magnitude."""
    return [Step("greater", (memory.add(np.array([op.bound, LEAST if op.flush_denormals else ZERO], np.float32)),))]
