"""The tile of `multi_hash`: the product as a uint64 of the same remainder; two tiles of `mod` do the rest."""

from __future__ import annotations

from colonnade.backends.cpu.tiles.mod import lower as lower_mod
from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_i64, store_i64
from colonnade.ops.mod import Mod
from colonnade.ops.multi_hash import FACTORS, MultiHash


@tile
@kernel
def scaled(step: int, source: int, n: int, target: int) -> None:
    """`x * factor`, moved up by the second parameter where it is negative; wraps around."""
    factor, up = load_i64(step + 8), load_i64(step + 16)
    for i in range(n):
        x = load_i64(source + 8 * i) * factor
        store_i64(target + 8 * i, x + up if x < 0 else x)


@lowering(MultiHash)
def lower(op: MultiHash, dtype: str, memory: Memory) -> list[Step]:
    """Parameters: the factor, and a multiple of the prime from 2^63 on, as an int64."""
    prime = op.prime
    up = -(-(2**63) // prime) * prime - 2**64
    made = Step("scaled", (FACTORS[op.part], up))
    return [made, *(s for divisor in (prime, op.buckets) for s in lower_mod(Mod(divisor), "int64", memory))]
