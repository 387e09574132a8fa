"""`mod` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.mod import Mod
from colonnade.ops.op import ElementFacts


@emits(Mod)
def emit(op: Mod, code: Code, x: Emitted) -> Number:
    """By a product with the reciprocal `floor(2^64 / d)`, corrected: a division takes a hundred instructions."""
    assert isinstance(x, Number)
    divisor = code.parameter(op.divisor)
    reciprocal = code.parameter(_signed(min((1 << 64) // op.divisor, (1 << 64) - 1)))
    return number(code, op, [x], code.call("mod", x.name, divisor, reciprocal))


def floor_mod(divisor: int, code: Code, x: Number) -> Number:
    """The remainder that is never negative: a negative x is first moved up by a multiple of the divisor, >= 2^63."""
    up = -(-(2**63) // divisor) * divisor
    moved = f"{x.name}.to(tl.uint64, bitcast=True) + {code.parameter(up - 2**64)}.to(tl.uint64, bitcast=True)"
    raised = code.let(f"tl.where({x.name} < 0, ({moved}).to(tl.int64, bitcast=True), {x.name})")
    return emit(Mod(divisor), code, Number(raised, ElementFacts("int64")))


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
