"""`join_hash` and `seed_hash` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.join_hash import JoinHash
from colonnade.ops.seed_hash import SeedHash


@emits(JoinHash)
def emit(op: JoinHash, code: Code, a: Emitted, b: Emitted) -> Number:
    """In registers."""
    assert isinstance(a, Number) and isinstance(b, Number)
    return number(code, op, [a, b], code.call("join_hash", a.name, b.name))


@emits(SeedHash)
def emit_seed(op: SeedHash, code: Code, x: Emitted) -> Number:
    """The seed in every lane."""
    assert isinstance(x, Number)
    seed = code.let(f"{x.name} * 0 + {code.parameter(op.seed)}")
    return number(code, op, [x], code.call("join_hash", seed, x.name))
