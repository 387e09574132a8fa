"""`sip_decimal` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.sip_decimal import SipDecimal


@emits(SipDecimal)
def emit(op: SipDecimal, code: Code, x: Emitted) -> Number:
    """Over digits that are made in registers."""
    assert isinstance(x, Number)
    keys = code.parameter(op.key0), code.parameter(op.key1)
    made = code.call("siphash64_decimal", f"{x.name}.to(tl.int64)", *keys, file="siphash")
    return number(code, op, [x], made)
