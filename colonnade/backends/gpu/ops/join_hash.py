"""`join_hash` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.join_hash import JoinHash


@emits(JoinHash)
def emit(op: JoinHash, code: Code, a: Emitted, b: Emitted) -> Number:
    """In registers."""
    assert isinstance(a, Number) and isinstance(b, Number)
    return number(code, op, [a, b], code.call("join_hash", a.name, b.name))
