"""SIMD loads and stores, scratch memory and calls of addresses for numba, in portable LLVM IR.

Legend: an address is an int64. Loads and stores assume no alignment unless they say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from colonnade.backends.atomics import callee
from colonnade.backends.lanes import LANES, LANES_TYPE, VECTOR, WORDS, splat
from colonnade.backends.memory import (
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    I128,
    POINTER,
    intrinsic,
    pointer,
)

BYTES = 16


def _all(kind: Any, value: Any) -> Any:
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def _has_f16c(context: Any) -> bool:
    """Whether code is made for a CPU that converts float16 itself; LLVM would call a library that may not be there."""
    _, cpu, features = context.codegen().magic_tuple()
    return cpu == "x86-64-v3" or "+f16c" in features.split(",")


def _from_f16(context: Any, builder: Any, bits: Any, words: Any, floats: Any) -> Any:
    """Exact, whatever the CPU's mode for denormals."""
    if _has_f16c(context):
        half = ir.HalfType() if floats is F32 else ir.VectorType(ir.HalfType(), floats.count)
        return builder.fpext(builder.bitcast(bits, half), floats)
    bits = builder.zext(bits, words)
    size = builder.and_(bits, _all(words, 0x7FFF))
    body = builder.shl(size, _all(words, 13))
    normal = builder.add(body, _all(words, (127 - 15) << 23))
    endless = builder.add(body, _all(words, 2 * (127 - 15) << 23))
    tiny = builder.bitcast(builder.fmul(builder.sitofp(size, floats), _all(floats, 2.0**-24)), words)
    found = builder.select(builder.icmp_signed(">=", body, _all(words, 31 << 23)), endless, normal)
    found = builder.select(builder.icmp_signed("<", body, _all(words, 1 << 23)), tiny, found)
    sign = builder.shl(builder.and_(bits, _all(words, 0x8000)), _all(words, 16))
    return builder.bitcast(builder.or_(found, sign), floats)


def _from_bf16(context: Any, builder: Any, bits: Any, words: Any, floats: Any) -> Any:
    return builder.bitcast(builder.shl(builder.zext(bits, words), _all(words, 16)), floats)


def _from_u8(context: Any, builder: Any, bits: Any, words: Any, floats: Any) -> Any:
    return builder.sitofp(builder.zext(bits, words), floats)


def _load_as_f32(stored: ir.Type, convert: Callable[..., Any], count: int) -> Any:
    words, floats, numba_type = (I32, F32, types.float32) if count == 1 else (WORDS, VECTOR, LANES_TYPE)

    @intrinsic
    def load(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = stored if count == 1 else ir.VectorType(stored, count)
            bits = builder.load(pointer(builder, args[0]), typ=kind, align=1)
            return convert(context, builder, bits, words, floats)

        return numba_type(types.int64), generate

    return load


f16_lanes, f16_number = _load_as_f32(I16, _from_f16, LANES), _load_as_f32(I16, _from_f16, 1)
bf16_lanes, bf16_number = _load_as_f32(I16, _from_bf16, LANES), _load_as_f32(I16, _from_bf16, 1)
u8_lanes, u8_number = _load_as_f32(I8, _from_u8, LANES), _load_as_f32(I8, _from_u8, 1)
"""Eight numbers, or one, at an address, as float32."""


@intrinsic
def stream_lanes(typing: Any, address: Any, value: Any) -> Any:
    """Store past the caches. Facts: the address is a multiple of 32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        done = builder.store(args[1], pointer(builder, args[0]), align=4 * LANES)
        done.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))
        return context.get_dummy_value()

    return types.void(types.int64, LANES_TYPE), generate


def _count_at_most(element: ir.Type, numba_type: types.Type) -> Any:
    @intrinsic
    def count(typing: Any, address: Any, x: Any) -> Any:
        """How many of the 16 numbers at the address (a multiple of 64) are <= x; NaN compares false."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = ir.VectorType(element, LANES)
            total = ir.Constant(I64, 0)
            for half in (0, 1):
                at = builder.add(args[0], ir.Constant(I64, half * LANES * (4 if element is F32 else 8)))
                bounds = builder.load(pointer(builder, at), typ=vector, align=32)
                hits = builder.bitcast(builder.fcmp_ordered("<=", bounds, splat(builder, args[1], vector)), I8)
                # Two counts are cheaper than one of joined masks where a register holds eight lanes.
                total = builder.add(total, builder.zext(builder.ctpop(builder.zext(hits, I32)), I64))
            return total

        return types.int64(types.int64, numba_type), generate

    return count


count_at_most_f32: Callable[[int, np.float32], int] = _count_at_most(F32, types.float32)
count_at_most_f64: Callable[[int, np.float64], int] = _count_at_most(F64, types.float64)


@intrinsic
def _equal_bytes_at(typing: Any, address: Any, byte: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(I8, BYTES)
        text = builder.load(pointer(builder, args[0]), typ=vector, align=1)
        hits = builder.icmp_unsigned("==", text, splat(builder, args[1], vector))
        return builder.zext(builder.bitcast(hits, I16), I64)

    return types.int64(types.int64, types.uint8), generate


equal_bytes_at: Callable[[int, np.uint8], int] = _equal_bytes_at
"""Bit i of the result: whether byte i of the 16 at an address is the given one."""


def scratch(size: int) -> Callable[[], int]:
    """A numba function that gives the address of `size` bytes on the caller's stack, a multiple of 64."""

    @intrinsic
    def allocate(typing: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            with builder.goto_entry_block():
                memory = builder.alloca(ir.ArrayType(I8, size))
                memory.align = 64
            return builder.ptrtoint(memory, I64)

        return types.int64(), generate

    return cast(Callable[[], int], allocate)


@intrinsic
def _high_product(typing: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of the 128-bit product of two uint64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = builder.mul(builder.zext(args[0], I128), builder.zext(args[1], I128))
        return builder.trunc(builder.lshr(wide, ir.Constant(I128, 64)), I64)

    return types.uint64(types.uint64, types.uint64), generate


high_product: Callable[[np.uint64, np.uint64], np.uint64] = _high_product


def _hint(locality: int) -> Callable[[int], None]:
    """Ask for the cache line at an address. locality: 3 for the first cache, 2 for the second."""

    @intrinsic
    def hint(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.FunctionType(ir.VoidType(), [POINTER, I32, I32, I32])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(function, [pointer(builder, args[0]), *(ir.Constant(I32, k) for k in (0, locality, 1))])
            return context.get_dummy_value()

        return types.void(types.int64), generate

    found: Callable[[int], None] = hint
    return found


prefetch = _hint(3)
prefetch_second = _hint(2)


@intrinsic
def _call_tile(typing: Any, function: Any, step: Any, source: Any, n: Any, target: Any) -> Any:
    """Call the C function `void f(int64, int64, int64, int64)` at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.call(callee(builder, args[0], ir.FunctionType(ir.VoidType(), [I64] * 4)), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


call_tile: Callable[[int, int, int, int, int], None] = _call_tile


@intrinsic
def _call_five(typing: Any, function: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """Call the C function `int64 f(int64, int64, int64, int64, int64)` at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(callee(builder, args[0], ir.FunctionType(I64, [I64] * 5)), args[1:])

    return types.int64(*[types.int64] * 6), generate


call_five: Callable[[int, int, int, int, int, int], int] = _call_five


@intrinsic
def _call_six(typing: Any, function: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
    """Call the C function `int64 f(int64, int64, int64, int64, int64, int64)` at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(callee(builder, args[0], ir.FunctionType(I64, [I64] * 6)), args[1:])

    return types.int64(*[types.int64] * 7), generate


call_six: Callable[[int, int, int, int, int, int, int], int] = _call_six
