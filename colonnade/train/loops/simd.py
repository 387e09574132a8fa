"""What optimizers need of vectors of eight float32, beside `backends/lanes.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from colonnade.backends.lanes import LANES, LANES_TYPE, VECTOR, lanes, min_lanes
from colonnade.backends.memory import inlined, intrinsic

LARGEST = np.float32(np.finfo(np.float32).max)


@intrinsic
def sqrt_lanes(typing: Any, a: Any) -> Any:
    """The square root of every lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(VECTOR, [VECTOR])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{LANES}f32"), args)

    return LANES_TYPE(LANES_TYPE), generate


@inlined
def finite_lanes(a: Any) -> Any:
    """The largest float32 in lanes that are infinite."""
    return min_lanes(a, lanes(LARGEST))
