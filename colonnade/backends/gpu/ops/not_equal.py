"""`not_equal` on the gpu."""

from __future__ import annotations

import numpy as np

from colonnade.backends.gpu.emit import Code, Emitted, Number, Text, emits, number
from colonnade.ops.not_equal import NotEqual


@emits(NotEqual)
def emit(op: NotEqual, code: Code, x: Emitted) -> Number:
    """Integers in 64 bits; the empty string by its length, others by their words."""
    if isinstance(x, Text):
        assert isinstance(op.value, bytes)
        if not op.value:
            return number(code, op, [x], code.let(f"{x.length} != 0"))
        other = code.constant(words_of(op.value))
        length = code.parameter(len(op.value))
        same = code.call("text_equals", x.data, x.start, x.length, other, length, "live", file="text")
        return number(code, op, [x], code.let(f"~{same}"))
    value = int(op.value)
    inside = -(2**63) <= value < 2**63
    other, known = code.parameter(value if inside else 0), code.parameter(int(inside))
    return number(code, op, [x], code.let(f"({x.name}.to(tl.int64) != {other}) | ({known} == 0)"))


def words_of(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Bytes as whole words, with 16 bytes to spare."""
    return np.frombuffer(data + b"\0" * (16 + -len(data) % 8), np.uint64)
