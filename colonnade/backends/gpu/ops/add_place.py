"""`add_place` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.add_place import AddPlace


@emits(AddPlace)
def emit(op: AddPlace, code: Code, x: Emitted, place: Emitted) -> Number:
    """In 64 bits."""
    assert isinstance(x, Number) and isinstance(place, Number)
    stride, last = code.parameter(op.stride), code.parameter(op.width - 1)
    inside = f"tl.minimum(tl.maximum({place.name}, 0), {last})"
    return number(code, op, [x, place], code.let(f"{x.name}.to(tl.int64) + {inside} * {stride}"))
