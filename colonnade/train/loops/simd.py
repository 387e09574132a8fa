"""What optimizers need of vectors of eight float32, beside `backends/lanes.py`."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from colonnade.backends.lanes import LANES, LANES_TYPE, VECTOR
from colonnade.backends.memory import intrinsic


@intrinsic
def sqrt_lanes(typing: Any, a: Any) -> Any:
    """The square root of every lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(VECTOR, [VECTOR])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{LANES}f32"), args)

    return LANES_TYPE(LANES_TYPE), generate
