"""`or_else` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.or_else import OrElse


@emits(OrElse)
def emit(op: OrElse, code: Code, a: Emitted, b: Emitted) -> Number:
    """In registers."""
    assert isinstance(a, Number) and isinstance(b, Number)
    other = code.let(f"{b.name} + {code.parameter(op.added)}")
    return number(code, op, [a, b], code.let(f"tl.where({a.name} >= 0, {a.name}, {other})"))
