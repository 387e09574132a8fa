"""`multi_hash` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.backends.gpu.ops.mod import emit as emit_mod
from colonnade.backends.gpu.ops.mod import floor_mod
from colonnade.ops.mod import Mod
from colonnade.ops.multi_hash import FACTORS, MultiHash


@emits(MultiHash)
def emit(op: MultiHash, code: Code, x: Emitted) -> Number:
    """Two remainders of a product."""
    assert isinstance(x, Number)
    product = Number(code.let(f"{x.name} * {code.parameter(FACTORS[op.part])}"), x.facts)
    rest = emit_mod(Mod(op.buckets), code, floor_mod(op.prime, code, product))
    return number(code, op, [x], rest.name)
