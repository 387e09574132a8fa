"""`at_least` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.at_least import AtLeast


@emits(AtLeast)
def emit(op: AtLeast, code: Code, x: Emitted) -> Number:
    """In 64 bits; a bound outside them is one that all or none reach."""
    assert isinstance(x, Number)
    bound = code.parameter(max(op.bound, -(2**63)) if op.bound < 2**63 else 2**63 - 1)
    reached = code.parameter(int(op.bound < 2**63))
    return number(code, op, [x], code.let(f"({x.name}.to(tl.int64) >= {bound}) & ({reached} != 0)"))
