"""`hash_int` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.hash_int import HashInt


@emits(HashInt)
def emit(op: HashInt, code: Code, x: Emitted) -> Number:
    """In registers: eight bytes are their own first and last word."""
    assert isinstance(x, Number)
    if op.function == "murmur":
        return number(code, op, [x], code.call("murmur64_int", x.name, file="murmur"))
    word = code.let(f"{x.name}.to(tl.uint64, bitcast=True)")
    hashed = code.call("hash_upto16", word, word, f"{x.name} * 0 + 8", file="fingerprint")
    return number(code, op, [x], code.let(f"{hashed}.to(tl.int64, bitcast=True)"))
