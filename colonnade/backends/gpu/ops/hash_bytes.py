"""`hash_bytes` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, Text, emits, number
from colonnade.ops.hash_bytes import HashBytes


@emits(HashBytes)
def emit(op: HashBytes, code: Code, x: Emitted) -> Number:
    """Over the bytes in device memory."""
    assert isinstance(x, Text)
    if op.function == "murmur":
        return number(code, op, [x], code.call("murmur64", x.data, x.start, x.length, "live", file="murmur"))
    hashed = code.call("fingerprint64", x.data, x.start, x.length, "live", file="fingerprint")
    return number(code, op, [x], code.let(f"{hashed}.to(tl.int64, bitcast=True)"))
