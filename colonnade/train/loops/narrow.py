"""float32 values written in 16 bits, rounded to the nearest, ties to even."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from colonnade.backends.memory import F32, I16, I32, intrinsic, kernel, storing

_store_i16 = storing(I16, types.int16)


@intrinsic
def _bits_of(typing: Any, x: Any) -> Any:
    """The bits of a float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], I32)

    return types.uint32(types.float32), generate


@intrinsic
def _float_of(typing: Any, bits: Any) -> Any:
    """The float32 of these bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], F32)

    return types.float32(types.uint32), generate


@kernel
def _store_16(address: int, bits: int) -> None:
    _store_i16(address, np.int16(bits))


@kernel
def store_bf16(address: int, x: np.float32) -> None:
    """Store as bfloat16; NaN stays NaN."""
    bits = np.int64(_bits_of(x))
    if bits & 0x7FFFFFFF > 0x7F800000:
        _store_16(address, (bits >> 16) | 0x40)
    else:
        _store_16(address, (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


@kernel
def store_f16(address: int, x: np.float32) -> None:
    """Store as float16; NaN stays NaN, what is too large becomes infinite."""
    bits = np.int64(_bits_of(x))
    sign, size = (bits >> 16) & 0x8000, bits & 0x7FFFFFFF
    if size > 0x7F800000:
        half = 0x7E00
    elif size >= 0x477FF000:  # 65520, from which on the nearest is infinite
        half = 0x7C00
    elif size < 0x38800000:  # 2^-14, the least normal: counted in steps of 2^-24
        # Adding 2^-1 leaves the steps as the last bits of the sum.
        half = np.int64(_bits_of(np.float32(_float_of(np.uint32(size)) + np.float32(0.5)))) - 0x3F000000
    else:
        half = (size - 0x38000000 + 0xFFF + ((size >> 13) & 1)) >> 13
    _store_16(address, sign | half)
