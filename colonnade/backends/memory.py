"""Raw memory for numba: addresses of arrays, functions written for addresses, loads and stores in portable LLVM IR.

Legend: an address is an int64. Loads and stores assume no alignment.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic as _intrinsic

F = TypeVar("F", bound=Callable[..., Any])

F32, F64 = ir.FloatType(), ir.DoubleType()
I1, I8, I16, I32, I64, I128 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64, 128))
POINTER = ir.PointerType()


def kernel(function: F) -> F:
    """Compile with numba when an entry point needs it: no GIL, C division, no bounds checks."""
    return cast(F, njit(nogil=True, error_model="numpy", boundscheck=False)(function))


def inlined(function: F) -> F:
    """As `kernel`, and copied into whatever calls it: for what a loop does with each of many elements."""
    return cast(F, njit(nogil=True, error_model="numpy", boundscheck=False, forceinline=True)(function))


def intrinsic(function: Callable[..., Any]) -> Any:
    """A function whose LLVM IR we write: called without its first operand, numba's typing context."""
    return _intrinsic(function)


NULL_IS_VALID = "null_pointer_is_valid"


def pointer(builder: Any, address: Any) -> Any:
    """The pointer of an address, in a function for which LLVM then makes nothing of null pointers.

    Facts: LLVM may write `rows + 8 * i` as the pointer 8 * i, moved by `rows`; where i can be 0, and a caller's library
    optimizes the function once more, that is an access at null to it, which it takes to be impossible: so it would take
    i not to be 0.
    """
    set.add(builder.function.attributes, NULL_IS_VALID)  # llvmlite's own `add` does not know the name
    return builder.inttoptr(address, POINTER)


def loading(llvm: ir.Type, numba_type: types.Type) -> Any:
    """A function that loads values of a type; of integers narrower than their numba type, widened."""

    @intrinsic
    def load(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(pointer(builder, args[0]), typ=llvm, align=1)
            if numba_type is types.int64 and llvm is not I64:
                return builder.sext(value, I64) if llvm is I32 else builder.zext(value, I64)
            return value

        return numba_type(types.int64), generate

    return load


def storing(llvm: ir.Type, numba_type: types.Type) -> Any:
    """A function that stores values of a type."""

    @intrinsic
    def store(typing: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.store(args[1], pointer(builder, args[0]), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, numba_type), generate

    return store


load_u8: Callable[[int], np.uint8] = loading(I8, types.uint8)
store_u8: Callable[[int, np.uint8], None] = storing(I8, types.uint8)
load_u16: Callable[[int], int] = loading(I16, types.int64)
"""Widened to int64."""
store_i32: Callable[[int, np.int32], None] = storing(I32, types.int32)
load_i32: Callable[[int], int] = loading(I32, types.int64)
"""Widened to int64."""
load_u32: Callable[[int], np.uint32] = loading(I32, types.uint32)
load_i64: Callable[[int], int] = loading(I64, types.int64)
store_i64: Callable[[int, int], None] = storing(I64, types.int64)
load_u64: Callable[[int], np.uint64] = loading(I64, types.uint64)
store_u64: Callable[[int, np.uint64], None] = storing(I64, types.uint64)
load_f32: Callable[[int], np.float32] = loading(F32, types.float32)
store_f32: Callable[[int, np.float32], None] = storing(F32, types.float32)
load_f64: Callable[[int], np.float64] = loading(F64, types.float64)
store_f64: Callable[[int, np.float64], None] = storing(F64, types.float64)


def _bitcast(llvm: ir.Type, to: types.Type, of: types.Type) -> Any:
    """A function that gives the same bits as another type."""

    @intrinsic
    def cast_bits(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], llvm)

        return to(of), generate

    return cast_bits


bits_of_f64: Callable[[float], int] = _bitcast(I64, types.int64, types.float64)
f64_of_bits: Callable[[int], float] = _bitcast(F64, types.float64, types.int64)

_DATA = 16  # where in numpy's array object its data pointer lies


def _slow_address(array: npt.NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _fast_address(array: npt.NDArray[Any]) -> int:
    return ctypes.c_int64.from_address(id(array) + _DATA).value


def _choose_address() -> Any:
    """The layout of an array object is part of numpy's C interface; it is checked, as another Python may differ."""
    probes: list[npt.NDArray[Any]] = [np.zeros(3), np.zeros((2, 5), np.uint8)[1:, 1:]]
    fits = ctypes.sizeof(ctypes.c_void_p) == 8 and object.__basicsize__ == _DATA
    return _fast_address if fits and all(_fast_address(p) == _slow_address(p) for p in probes) else _slow_address


address_of = _choose_address()


@intrinsic
def _lowest_bit(typing: Any, bits: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(I1, 0))

    return types.int64(types.int64), generate


lowest_bit: Callable[[int], int] = _lowest_bit
"""The number of the lowest bit that is set."""
