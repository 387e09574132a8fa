"""`seed_hash` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.seed_hash import SeedHash


@emits(SeedHash)
def emit(op: SeedHash, code: Code, x: Emitted) -> Number:
    """The seed in every lane."""
    assert isinstance(x, Number)
    seed = code.let(f"{x.name} * 0 + {code.parameter(op.seed)}")
    return number(code, op, [x], code.call("join_hash", seed, x.name))
