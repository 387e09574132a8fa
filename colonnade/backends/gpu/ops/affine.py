"""`affine` on the gpu."""

from __future__ import annotations

import numpy as np

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.affine import Affine


@emits(Affine)
def emit(op: Affine, code: Code, x: Emitted) -> Number:
    """Kernels are compiled without fused products and sums."""
    assert isinstance(x, Number)
    numbers = code.constant(np.array([op.scale, op.shift], np.float32))
    scale, shift = code.once(f"tl.load({numbers})"), code.once(f"tl.load({numbers} + 1)")
    return number(code, op, [x], code.let(f"{x.name} * {scale} + {shift}"))
