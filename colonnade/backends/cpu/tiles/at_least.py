"""The tile of `at_least`."""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.tiles.registry import Memory, Step, filter_tile, lowering
from colonnade.backends.memory import kernel, load_i64, store_u8
from colonnade.ops.at_least import AtLeast

DROP = np.uint8(0)
LEAST, MOST = -(2**63), 2**63 - 1


@filter_tile
@kernel
def at_least(step: int, source: int, n: int, mask: int) -> None:
    """Integers."""
    bound = load_i64(step + 8)
    for i in range(n):
        if load_i64(source + 8 * i) < bound:
            store_u8(mask + i, DROP)


@filter_tile
@kernel
def never(step: int, source: int, n: int, mask: int) -> None:
    """Drops every element."""
    for i in range(n):
        store_u8(mask + i, DROP)


@lowering(AtLeast)
def lower(op: AtLeast, dtype: str, memory: Memory) -> list[Step]:
    """Parameter: the bound."""
    return [Step("never")] if op.bound > MOST else [Step("at_least", (max(op.bound, LEAST),))]
