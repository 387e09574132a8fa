"""`sip_bytes` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, Text, emits, number
from colonnade.ops.sip_bytes import SipBytes


@emits(SipBytes)
def emit(op: SipBytes, code: Code, x: Emitted) -> Number:
    """Over the bytes in device memory."""
    assert isinstance(x, Text)
    keys = code.parameter(op.key0), code.parameter(op.key1)
    return number(code, op, [x], code.call("siphash64", x.data, x.start, x.length, *keys, "live", file="siphash"))
