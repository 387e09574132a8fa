"""Atomics, system calls and calls of addresses for numba, in portable LLVM IR: what threads need of each other."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from colonnade.backends.memory import I32, I64, intrinsic, pointer


def _atomic(operation: str) -> Any:
    @intrinsic
    def update(typing: Any, address: Any, value: Any) -> Any:
        """The old value at the address (a multiple of 8), replaced by the new one."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.atomic_rmw(operation, pointer(builder, args[0]), args[1], "seq_cst")

        return types.int64(types.int64, types.int64), generate

    return update


atomic_add: Callable[[int, int], int] = _atomic("add")
atomic_swap: Callable[[int, int], int] = _atomic("xchg")


@intrinsic
def _atomic_replace(typing: Any, address: Any, old: Any, new: Any) -> Any:
    """Whether the value at the address was `old` and became `new`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        result = builder.cmpxchg(pointer(builder, args[0]), args[1], args[2], "seq_cst", "seq_cst")
        return builder.extract_value(result, 1)

    return types.boolean(types.int64, types.int64, types.int64), generate


atomic_replace: Callable[[int, int, int], bool] = _atomic_replace


@intrinsic
def _atomic_load(typing: Any, address: Any) -> Any:
    """The value at the address (a multiple of 8)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(pointer(builder, args[0]), "seq_cst", 8, typ=I64)

    return types.int64(types.int64), generate


atomic_load: Callable[[int], int] = _atomic_load


@intrinsic
def _pause(typing: Any) -> Any:
    """Tell the CPU that this is a spin loop."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if platform.machine() in ("x86_64", "AMD64"):
            name, kinds, operands = "llvm.x86.sse2.pause", [], []
        else:
            name, kinds, operands = "llvm.aarch64.hint", [I32], [ir.Constant(I32, 1)]
        hint = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), kinds), name)
        builder.call(hint, operands)
        return context.get_dummy_value()

    return types.void(), generate


pause: Callable[[], None] = _pause


@intrinsic
def _cycles(typing: Any) -> Any:
    """The CPU's clock in ticks of any length; 0 where programs may not read it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if platform.machine() not in ("x86_64", "AMD64"):
            return ir.Constant(I64, 0)
        kind = ir.FunctionType(I64, [])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.readcyclecounter"), [])

    return types.int64(), generate


cycles: Callable[[], int] = _cycles


@intrinsic
def _system_call(typing: Any, number: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """libc's `syscall` with four operands."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(I64, [I64], var_arg=True)
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "syscall"), list(args))

    return types.int64(*[types.int64] * 5), generate


system_call: Callable[[int, int, int, int, int], int] = _system_call


@intrinsic
def _call_worker(typing: Any, function: Any, operand: Any) -> Any:
    """Call the C function `int64 f(int64)` at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(callee(builder, args[0], ir.FunctionType(I64, [I64])), args[1:])

    return types.int64(types.int64, types.int64), generate


call_worker: Callable[[int, int], int] = _call_worker


def callee(builder: Any, address: Any, kind: ir.FunctionType) -> Any:
    """The C function of a type at an address, to be called."""
    # llvmlite knows a callee by the type of its pointer.
    return builder.inttoptr(address, kind.as_pointer())
