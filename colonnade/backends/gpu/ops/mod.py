"""`mod` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.mod import Mod


@emits(Mod)
def emit(op: Mod, code: Code, x: Emitted) -> Number:
    """By a product with the reciprocal `floor(2^64 / d)`, corrected: a division takes a hundred instructions."""
    assert isinstance(x, Number)
    divisor = code.parameter(op.divisor)
    reciprocal = code.parameter(_signed(min((1 << 64) // op.divisor, (1 << 64) - 1)))
    return number(code, op, [x], code.call("mod", x.name, divisor, reciprocal))


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
