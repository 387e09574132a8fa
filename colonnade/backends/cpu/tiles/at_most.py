"""The tile of `at_most`."""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.tiles.registry import Memory, Step, filter_tile, lowering
from colonnade.backends.memory import kernel, load_i64, store_u8
from colonnade.ops.at_most import AtMost

DROP = np.uint8(0)
LEAST, MOST = -(2**63), 2**63 - 1


@filter_tile
@kernel
def at_most(step: int, source: int, n: int, mask: int) -> None:
    """Integers."""
    bound = load_i64(step + 8)
    for i in range(n):
        if load_i64(source + 8 * i) > bound:
            store_u8(mask + i, DROP)


@lowering(AtMost)
def lower(op: AtMost, dtype: str, memory: Memory) -> list[Step]:
    """Parameter: the bound."""
    return [Step("never")] if op.bound < LEAST else [Step("at_most", (min(op.bound, MOST),))]
