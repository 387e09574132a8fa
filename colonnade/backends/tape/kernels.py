"""The steps of a tape, each on the rows of a tile.

Legend: `out`, `a`, `b`, `c` are addresses of first rows, `so`, `sa`, .. strides from row to row, `pa`, .. pitches from
element to element, all in bytes; n elements a row.
Facts: sums, products and quotients of elements are bit-equal to torch; exponentials are computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from colonnade.backends.atomics import atomic_add, call_worker, cycles
from colonnade.backends.jobs import FIRST, LAST, WORK
from colonnade.backends.lanes import (
    LANES,
    add_lanes,
    div_lanes,
    lanes,
    load_lanes,
    max_lanes,
    min_lanes,
    mul_lanes,
    positive_lanes,
    store_lanes,
    sub_lanes,
    to_f32,
)
from colonnade.backends.memory import kernel, load_f32, load_i32, load_i64, store_f32, store_i64
from colonnade.backends.tape import words as w
from colonnade.backends.tape.products import product
from colonnade.backends.tape.sparse import gather, sift

ZERO, ONE = np.float32(0), np.float32(1)


@kernel
def _address(call: int, operand: int, row: int) -> int:
    base = load_i64(operand + w.BASE)
    address = load_i64(call + w.BASES + w.BASE_BYTES * base) + load_i64(operand + w.OFFSET)
    if base >= w.TENSORS:
        address += row * load_i64(call + w.BASES + w.BASE_BYTES * base + 8)
    return address


@kernel
def _stride(call: int, operand: int) -> int:
    base = load_i64(operand + w.BASE)
    if base >= w.TENSORS:
        return load_i64(call + w.BASES + w.BASE_BYTES * base + 8)
    return load_i64(operand + w.STRIDE)


def _binary(block: Callable[[Any, Any], Any], number: Callable[[Any, Any], Any]) -> Any:
    @kernel
    def apply(out: int, so: int, a: int, sa: int, pa: int, b: int, sb: int, pb: int, rows: int, n: int) -> None:
        for r in range(rows):
            x, y, z = a + r * sa, b + r * sb, out + r * so
            k = 0
            while k + LANES <= n:
                p = load_lanes(x + 4 * k) if pa != 0 else lanes(load_f32(x))
                q = load_lanes(y + 4 * k) if pb != 0 else lanes(load_f32(y))
                store_lanes(z + 4 * k, block(p, q))
                k += LANES
            while k < n:
                store_f32(z + 4 * k, number(load_f32(x + k * pa), load_f32(y + k * pb)))
                k += 1

    return apply


@kernel
def _add_number(a: np.float32, b: np.float32) -> np.float32:
    return a + b


@kernel
def _sub_number(a: np.float32, b: np.float32) -> np.float32:
    return a - b


@kernel
def _mul_number(a: np.float32, b: np.float32) -> np.float32:
    return a * b


@kernel
def _div_number(a: np.float32, b: np.float32) -> np.float32:
    return a / b


@kernel
def _min_number(a: np.float32, b: np.float32) -> np.float32:
    return b if b < a or b != b else a


@kernel
def _max_number(a: np.float32, b: np.float32) -> np.float32:
    return b if b > a or b != b else a


_add, _sub = _binary(add_lanes, _add_number), _binary(sub_lanes, _sub_number)
_mul, _div = _binary(mul_lanes, _mul_number), _binary(div_lanes, _div_number)
_min, _max = _binary(min_lanes, _min_number), _binary(max_lanes, _max_number)


@kernel
def _copy(out: int, so: int, a: int, sa: int, pa: int, rows: int, n: int) -> None:
    for r in range(rows):
        x, z = a + r * sa, out + r * so
        k = 0
        while k + LANES <= n:
            store_lanes(z + 4 * k, load_lanes(x + 4 * k) if pa != 0 else lanes(load_f32(x)))
            k += LANES
        while k < n:
            store_f32(z + 4 * k, load_f32(x + k * pa))
            k += 1


@kernel
def _copy_wide(out: int, so: int, a: int, sa: int, pa: int, rows: int, n: int) -> None:
    for r in range(rows):
        for k in range(n):
            store_i64(out + r * so + 8 * k, load_i64(a + r * sa + k * pa))


@kernel
def _relu(out: int, so: int, a: int, sa: int, pa: int, rows: int, n: int) -> None:
    for r in range(rows):
        x, z = a + r * sa, out + r * so
        k = 0
        while k + LANES <= n:
            store_lanes(z + 4 * k, positive_lanes(load_lanes(x + 4 * k) if pa != 0 else lanes(load_f32(x))))
            k += LANES
        while k < n:
            value = load_f32(x + k * pa)
            store_f32(z + 4 * k, ZERO if value < ZERO else value)
            k += 1


@kernel
def _unary_number(kind: int, x: np.float32) -> np.float32:
    if kind == w.SIGMOID:
        return np.float32(1.0 / (1.0 + math.exp(-np.float64(x))))
    if kind == w.TANH:
        return np.float32(math.tanh(np.float64(x)))
    if kind == w.EXP:
        return np.float32(math.exp(np.float64(x)))
    if kind == w.SQRT:
        return np.sqrt(x)
    if kind == w.NEG:
        return -x
    if kind == w.ABS:
        return np.abs(x)
    return np.rint(x)


@kernel
def _unary(kind: int, out: int, so: int, a: int, sa: int, pa: int, rows: int, n: int) -> None:
    for r in range(rows):
        for k in range(n):
            store_f32(out + r * so + 4 * k, _unary_number(kind, load_f32(a + r * sa + k * pa)))


@kernel
def _holds(kind: int, a: np.float32, b: np.float32) -> Any:
    if kind == w.EQ:
        return a == b
    if kind == w.NE:
        return a != b
    if kind == w.LT:
        return a < b
    if kind == w.LE:
        return a <= b
    return a > b if kind == w.GT else a >= b


@kernel
def _compare(
    kind: int, out: int, so: int, a: int, sa: int, pa: int, b: int, sb: int, pb: int, rows: int, n: int
) -> None:
    for r in range(rows):
        for k in range(n):
            holds = _holds(kind, load_f32(a + r * sa + k * pa), load_f32(b + r * sb + k * pb))
            store_f32(out + r * so + 4 * k, ONE if holds else ZERO)


@kernel
def _select(
    out: int, so: int, a: int, sa: int, pa: int, b: int, sb: int, pb: int, c: int, sc: int, pc: int, rows: int, n: int
) -> None:
    for r in range(rows):
        for k in range(n):
            chosen = b + r * sb + k * pb if load_f32(a + r * sa + k * pa) != ZERO else c + r * sc + k * pc
            store_f32(out + r * so + 4 * k, load_f32(chosen))


@kernel
def _from_integers(wide: bool, out: int, so: int, a: int, sa: int, pa: int, rows: int, n: int) -> None:
    for r in range(rows):
        for k in range(n):
            at = a + r * sa + k * pa
            store_f32(out + r * so + 4 * k, to_f32(load_i64(at) if wide else load_i32(at)))


@kernel
def _softmax(out: int, so: int, a: int, sa: int, pa: int, rows: int, n: int) -> None:
    for r in range(rows):
        most, total = load_f32(a + r * sa), 0.0
        for k in range(n):
            value = load_f32(a + r * sa + k * pa)
            most = value if value > most else most
        for k in range(n):
            total += math.exp(np.float64(load_f32(a + r * sa + k * pa)) - np.float64(most))
        for k in range(n):
            part = math.exp(np.float64(load_f32(a + r * sa + k * pa)) - np.float64(most))
            store_f32(out + r * so + 4 * k, np.float32(part / total))


@kernel
def _argmax(out: int, so: int, a: int, sa: int, pa: int, rows: int, n: int) -> None:
    """The first place of the largest; NaN is larger than all numbers."""
    for r in range(rows):
        found, most = 0, load_f32(a + r * sa)
        for k in range(1, n):
            value = load_f32(a + r * sa + k * pa)
            if value > most or (value != value and most == most):
                found, most = k, value
        store_i64(out + r * so, found)


@kernel
def _is_flat(stride: int, pitch: int, n: int) -> bool:
    return (stride == 4 * n and pitch == 4) or (stride == 0 and pitch == 0)


@kernel
def _arithmetic(
    code: int, out: int, so: int, a: int, sa: int, pa: int, b: int, sb: int, pb: int, rows: int, n: int
) -> None:
    if so == 4 * n and _is_flat(sa, pa, n) and _is_flat(sb, pb, n):
        n, rows = n * rows, 1
    if code == w.ADD:
        _add(out, so, a, sa, pa, b, sb, pb, rows, n)
    elif code == w.SUB:
        _sub(out, so, a, sa, pa, b, sb, pb, rows, n)
    elif code == w.MUL:
        _mul(out, so, a, sa, pa, b, sb, pb, rows, n)
    elif code == w.DIV:
        _div(out, so, a, sa, pa, b, sb, pb, rows, n)
    elif code == w.MINIMUM:
        _min(out, so, a, sa, pa, b, sb, pb, rows, n)
    else:
        _max(out, so, a, sa, pa, b, sb, pb, rows, n)


@kernel
def _moving(code: int, out: int, so: int, a: int, sa: int, pa: int, rows: int, n: int) -> None:
    if code == w.COPY_WIDE:
        _copy_wide(out, so, a, sa, pa, rows, n)
        return
    if so == 4 * n and _is_flat(sa, pa, n):
        n, rows = n * rows, 1
    if code == w.COPY:
        _copy(out, so, a, sa, pa, rows, n)
    else:
        _relu(out, so, a, sa, pa, rows, n)


@kernel
def _of_one(code: int, kind: int, out: int, so: int, a: int, sa: int, pa: int, rows: int, n: int) -> None:
    """kind: of a unary step; of others the elements of the operand."""
    if code == w.UNARY:
        _unary(kind, out, so, a, sa, pa, rows, n)
    elif code == w.SOFTMAX:
        _softmax(out, so, a, sa, pa, rows, kind)
    elif code == w.ARGMAX:
        _argmax(out, so, a, sa, pa, rows, kind)
    else:
        _from_integers(code == w.FROM_I64, out, so, a, sa, pa, rows, n)


@kernel
def _step(call: int, step: int, row: int, rows: int) -> None:
    code, n, inner = load_i64(step + w.CODE), load_i64(step + w.WIDTH), load_i64(step + w.INNER)
    first = step + w.OPERANDS
    second, third, fourth = first + w.OPERAND_BYTES, first + 2 * w.OPERAND_BYTES, first + 3 * w.OPERAND_BYTES
    out, so = _address(call, first, row), _stride(call, first)
    a, sa, pa = _address(call, second, row), _stride(call, second), load_i64(second + w.PITCH)
    if code >= w.UNARY:
        _of_one(code, inner, out, so, a, sa, pa, rows, n)
        return
    if code >= w.COPY:
        _moving(code, out, so, a, sa, pa, rows, n)
        return
    b, sb, pb = _address(call, third, row), _stride(call, third), load_i64(third + w.PITCH)
    if code <= w.MAXIMUM:
        _arithmetic(code, out, so, a, sa, pa, b, sb, pb, rows, n)
    elif code == w.COMPARE:
        _compare(inner, out, so, a, sa, pa, b, sb, pb, rows, n)
    elif code == w.PRODUCT:
        weights, relu = _address(call, fourth, row), load_i64(step + w.RELU) != 0
        product(out, so, a, sa, weights, b, relu, rows, inner, n, load_i64(step + w.ADDED) == 0)
    elif code == w.SIFT:
        sift(out, so, a, sa, b, inner, _address(call, fourth, 0), rows)
    elif code == w.GATHER:
        gather(out, so, a, b, rows, n)
    else:
        c, sc, pc = _address(call, fourth, row), _stride(call, fourth), load_i64(fourth + w.PITCH)
        _select(out, so, a, sa, pa, b, sb, pb, c, sc, pc, rows, n)


@kernel
def _seated(call: int) -> int:
    """A thread's own context: the caller's, or one with the same words and scratch memory of its own."""
    seat, size = atomic_add(call + w.SEAT, 1), load_i64(call + w.CONTEXT_BYTES)
    mine = call + seat * size
    if seat > 0:
        for word in range(w.BASES + w.BASE_BYTES * w.CONSTANTS, size, 8):
            store_i64(mine + word, load_i64(call + word))
    return mine


@kernel
def _lead(mine: int, table: int, lead: int, row: int, rows: int) -> None:
    """Do the leading job for the rows of a tile. Facts: row `row` then lies where the memory of each result begins."""
    for k in range(load_i64(table)):
        entry = table + 8 + w.ENTRY_BYTES * k
        base = mine + load_i64(entry + w.OWN_WORD)
        address = load_i64(mine + w.BASES) + load_i64(entry + w.SCRATCH_OFFSET) - row * load_i64(base + 8)
        store_i64(base, address)
        store_i64(lead + load_i64(entry + w.LEAD_WORD), address)
    store_i64(lead + FIRST, row)
    store_i64(lead + LAST, row + rows)
    call_worker(load_i64(lead + WORK), lead)


@kernel
def work(call: int) -> int:
    """Every step on every tile that is still to be claimed: a caller and its helpers run this at the same time."""
    count, rows, steps = load_i64(call + w.COUNT), load_i64(call + w.ROWS), load_i64(call + w.STEPS)
    tile, mine = load_i64(call + w.TILE_ROWS), _seated(call)
    lead, table = load_i64(call + w.LEAD), load_i64(call + w.FILLED)
    if lead != 0:
        lead += (mine - call) // load_i64(call + w.CONTEXT_BYTES) * load_i64(call + w.LEAD_BYTES)
    led, spent, ended = 0, 0, cycles()
    while True:
        row = tile * atomic_add(call + w.NEXT, 1)
        if row >= rows:
            store_i64(mine + w.LED_TICKS, led)
            store_i64(mine + w.TICKS, spent)
            return 0
        taken = min(tile, rows - row)
        if lead != 0:
            _lead(mine, table, lead, row, taken)
        began = cycles()
        led += began - ended
        for k in range(count):
            _step(mine, steps + k * w.STEP_BYTES, row, taken)
        ended = cycles()
        spent += ended - began
