"""Vectors of float32 for numba, of eight and of other lengths, in portable LLVM IR.

Legend: an address is an int64. Loads and stores assume no alignment.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model

from colonnade.backends.memory import F32, I32, inlined, intrinsic, load_f32, loading, store_f32, storing

LANES = 8


class _Lanes(types.Type):
    """A numba value of so many float32 lanes."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(name=f"lanes{count}f32")


VECTOR, WORDS = ir.VectorType(F32, LANES), ir.VectorType(I32, LANES)


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, ir.VectorType(F32, fe_type.count))


def splat(builder: Any, value: Any, vector: ir.VectorType) -> Any:
    """The value in every lane."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, undefined, zeros)


@dataclass(frozen=True)
class Vectors:
    """What is done to `count` values at once: those of a register, of several, or of a part of one.

    lanes: the value in every lane.   multiply_add: `a * b + c`, rounded once where the CPU does both at once.
    positive: `0` in lanes where a < 0, else `a`.
    """

    count: int
    type: types.Type
    load: Any
    store: Any
    lanes: Any
    add: Any
    sub: Any
    mul: Any
    div: Any
    multiply_add: Any
    positive: Any


@cache
def vectors(count: int) -> Vectors:
    """Vectors of a length."""
    kind, vector = _Lanes(count), ir.VectorType(F32, count)

    def lanewise(name: str) -> Any:
        @intrinsic
        def operate(typing: Any, a: Any, b: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                return getattr(builder, name)(args[0], args[1])

            return kind(kind, kind), generate

        return operate

    @intrinsic
    def lanes(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return splat(builder, args[0], vector)

        return kind(types.float32), generate

    @intrinsic
    def multiply_add(typing: Any, a: Any, b: Any, c: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            function = ir.FunctionType(vector, [vector] * 3)
            return builder.call(
                cgutils.get_or_insert_function(builder.module, function, f"llvm.fmuladd.v{count}f32"), args
            )

        return kind(kind, kind, kind), generate

    @intrinsic
    def positive(typing: Any, a: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            zeros = ir.Constant(vector, [0.0] * count)
            return builder.select(builder.fcmp_ordered("<", args[0], zeros), zeros, args[0])

        return kind(kind), generate

    operations = (lanewise(name) for name in ("fadd", "fsub", "fmul", "fdiv"))
    return Vectors(
        count, kind, loading(vector, kind), storing(vector, kind), lanes, *operations, multiply_add, positive
    )


_EIGHT = vectors(LANES)
LANES_TYPE = _EIGHT.type
load_lanes, store_lanes, lanes = _EIGHT.load, _EIGHT.store, _EIGHT.lanes
add_lanes, sub_lanes, mul_lanes, div_lanes = _EIGHT.add, _EIGHT.sub, _EIGHT.mul, _EIGHT.div
multiply_add, positive_lanes = _EIGHT.multiply_add, _EIGHT.positive


@intrinsic
def _has_wide_registers(typing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, _, features = context.codegen().magic_tuple()
        return ir.Constant(ir.IntType(1), int("+avx512f" in features.split(",")))

    return types.boolean(), generate


has_wide_registers = _has_wide_registers
"""Whether the CPU that code is made for has registers of sixteen float32, and 32 of them: known to the compiler."""


@inlined
def copy_row(row: int, out: int, dim: int) -> None:
    """`out = row`, bit by bit."""
    k = 0
    while k + LANES <= dim:
        store_lanes(out + 4 * k, load_lanes(row + 4 * k))
        k += LANES
    while k < dim:
        store_f32(out + 4 * k, load_f32(row + 4 * k))
        k += 1


def _extreme(order: str) -> Any:
    @intrinsic
    def choose(typing: Any, a: Any, b: Any) -> Any:
        """`b` in lanes where it is the more extreme or NaN, else `a`."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            a, b = args
            chosen = builder.or_(builder.fcmp_ordered(order, b, a), builder.fcmp_unordered("uno", b, b))
            return builder.select(chosen, b, a)

        return LANES_TYPE(LANES_TYPE, LANES_TYPE), generate

    return choose


min_lanes, max_lanes = _extreme("<"), _extreme(">")


@intrinsic
def lane_of(typing: Any, a: Any, k: Any) -> Any:
    """The value in lane k."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], builder.trunc(args[1], I32))

    return types.float32(LANES_TYPE, types.int64), generate


@intrinsic
def to_f32(typing: Any, integer: Any) -> Any:
    """The nearest float32 of an int64. Facts: numba's own conversion rounds twice, by way of float64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.sitofp(args[0], F32)

    return types.float32(types.int64), generate
