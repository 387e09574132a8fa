"""The tiles of `cast`."""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_f32, load_f64, load_i32, load_i64, store_f32, store_f64, store_i64
from colonnade.ops.cast import Cast

LEAST_32, LEAST_64 = -(2**31), -(2**63)
END_32, END_64 = np.float64(2**31), np.float64(2**63)


@kernel
def _whole_32(x: float) -> int:
    return int(x) if x >= -END_32 and x < END_32 else LEAST_32


@kernel
def _whole_64(x: float) -> int:
    return int(x) if x >= -END_64 and x < END_64 else LEAST_64


@tile
@kernel
def cast_int_int32(step: int, source: int, n: int, target: int) -> None:
    """Integer to int32: the lower half, its sign kept."""
    for i in range(n):
        store_i64(target + 8 * i, load_i32(source + 8 * i))


@tile
@kernel
def cast_int_f32(step: int, source: int, n: int, target: int) -> None:
    """Integer to float32, rounded once."""
    for i in range(n):
        store_f32(target + 4 * i, np.float32(load_i64(source + 8 * i)))


@tile
@kernel
def cast_int_f64(step: int, source: int, n: int, target: int) -> None:
    """Integer to float64."""
    for i in range(n):
        store_f64(target + 8 * i, np.float64(load_i64(source + 8 * i)))


@tile
@kernel
def cast_f32_int32(step: int, source: int, n: int, target: int) -> None:
    """float32 to int32."""
    for i in range(n):
        store_i64(target + 8 * i, _whole_32(np.float64(load_f32(source + 4 * i))))


@tile
@kernel
def cast_f32_int64(step: int, source: int, n: int, target: int) -> None:
    """float32 to int64."""
    for i in range(n):
        store_i64(target + 8 * i, _whole_64(np.float64(load_f32(source + 4 * i))))


@tile
@kernel
def cast_f32_f64(step: int, source: int, n: int, target: int) -> None:
    """float32 to float64."""
    for i in range(n):
        store_f64(target + 8 * i, np.float64(load_f32(source + 4 * i)))


@tile
@kernel
def cast_f64_int32(step: int, source: int, n: int, target: int) -> None:
    """float64 to int32."""
    for i in range(n):
        store_i64(target + 8 * i, _whole_32(load_f64(source + 8 * i)))


@tile
@kernel
def cast_f64_int64(step: int, source: int, n: int, target: int) -> None:
    """float64 to int64."""
    for i in range(n):
        store_i64(target + 8 * i, _whole_64(load_f64(source + 8 * i)))


@tile
@kernel
def cast_f64_f32(step: int, source: int, n: int, target: int) -> None:
    """float64 to float32."""
    for i in range(n):
        store_f32(target + 4 * i, np.float32(load_f64(source + 8 * i)))


SHORT = {"float32": "f32", "float64": "f64"}


@lowering(Cast)
def lower(op: Cast, dtype: str, memory: Memory) -> list[Step]:
    """No parameters, and no step where the elements lie in memory as they are."""
    if op.to == dtype or (dtype == "int32" and op.to == "int64"):
        return []
    return [Step(f"cast_{SHORT.get(dtype, 'int')}_{SHORT.get(op.to, op.to)}")]
