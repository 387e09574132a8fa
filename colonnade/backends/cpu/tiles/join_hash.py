"""The tiles of `join_hash`, on pairs of hashes, and of `seed_hash`."""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_u64, store_u64
from colonnade.core.fingerprint import CAT
from colonnade.ops.join_hash import JoinHash
from colonnade.ops.seed_hash import SeedHash

U = np.uint64
FACTOR, SHIFT = U(CAT), U(47)


@kernel
def _joined(a: U, b: U) -> U:
    mixed = b * FACTOR
    mixed = (mixed ^ (mixed >> SHIFT)) * FACTOR
    mixed = (a ^ FACTOR ^ mixed) * FACTOR
    mixed = (mixed ^ (mixed >> SHIFT)) * FACTOR
    return mixed ^ (mixed >> SHIFT)


@tile
@kernel
def join_hash(step: int, source: int, n: int, target: int) -> None:
    """Pairs to hashes."""
    for i in range(n):
        store_u64(target + 8 * i, _joined(load_u64(source + 16 * i), load_u64(source + 16 * i + 8)))


@tile
@kernel
def seed_hash(step: int, source: int, n: int, target: int) -> None:
    """Each hash after the seed."""
    seed = load_u64(step + 8)
    for i in range(n):
        store_u64(target + 8 * i, _joined(seed, load_u64(source + 8 * i)))


@lowering(JoinHash)
def lower(op: JoinHash, dtype: str, memory: Memory) -> list[Step]:
    """No parameters."""
    return [Step("join_hash")]


@lowering(SeedHash)
def lower_seed(op: SeedHash, dtype: str, memory: Memory) -> list[Step]:
    """Parameter: the seed."""
    return [Step("seed_hash", (op.seed,))]
