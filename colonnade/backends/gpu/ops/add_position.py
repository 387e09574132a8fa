"""`add_position` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.add_position import AddPosition


@emits(AddPosition)
def emit(op: AddPosition, code: Code, x: Emitted, place: Emitted) -> Number:
    """In 64 bits."""
    assert isinstance(x, Number) and isinstance(place, Number)
    stride = code.parameter(op.stride)
    return number(code, op, [x], code.let(f"{x.name}.to(tl.int64) + {place.name}.to(tl.int64) * {stride}"))
