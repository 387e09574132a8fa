"""`hash_decimal` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.hash_decimal import HashDecimal


@emits(HashDecimal)
def emit(op: HashDecimal, code: Code, x: Emitted) -> Number:
    """Over digits that are made in registers."""
    assert isinstance(x, Number)
    hashed = code.call("fingerprint64_decimal", f"{x.name}.to(tl.int64)", "live", file="decimal")
    return number(code, op, [x], code.let(f"{hashed}.to(tl.int64, bitcast=True)"))
