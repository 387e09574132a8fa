"""The product of rows with panels of a matrix, four at a time, where a register holds a panel's row of sixteen numbers.

Legend and facts: see `products.py`; a result is the same sum, bit by bit.
Six rows by sixty-four outputs keep twenty-four sums, four parts of the matrix and a value in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from colonnade.backends.lanes import vectors
from colonnade.backends.memory import kernel, load_f32

_SIXTEEN = vectors(16)
_load, _store, _lanes, _add, _times, _positive = (
    _SIXTEEN.load,
    _SIXTEEN.store,
    _SIXTEEN.lanes,
    _SIXTEEN.add,
    _SIXTEEN.multiply_add,
    _SIXTEEN.positive,
)
LINE = 64
"""Bytes of a panel's row."""
ROWS, TOGETHER = 6, 64
"""Of a group, and outputs of four panels."""
BLOCK = 512
"""Of the inner dim: four panels' are 128 KiB, which the second cache holds."""
ZERO = np.float32(0)


@kernel
def _put(out: int, value: Any, bias: int, relu: bool) -> None:
    if bias != 0:
        value = _add(value, _load(bias))
    if relu:
        value = _positive(value)
    _store(out, value)


@kernel
def _put_four(out: int, p: Any, q: Any, r: Any, s: Any, bias: int, relu: bool) -> None:
    step = LINE if bias != 0 else 0
    _put(out, p, bias, relu)
    _put(out + LINE, q, bias + step, relu)
    _put(out + 2 * LINE, r, bias + 2 * step, relu)
    _put(out + 3 * LINE, s, bias + 3 * step, relu)


@kernel
def _six_by_four(
    out: int, so: int, a: int, sa: int, m: int, panel: int, bias: int, relu: bool, rows: int, inner: int, first: bool
) -> None:
    """Of fewer rows the last one is computed as often as it takes.

    panel: bytes from a panel to the next.   first: whether sums begin here, and do not go on with what lies in `out`.
    """
    last = rows - 1
    r1, r2, r3, r4 = min(1, last), min(2, last), min(3, last), min(4, last)
    o1, o2, o3, o4, o5 = out + r1 * so, out + r2 * so, out + r3 * so, out + r4 * so, out + last * so
    a1, a2, a3, a4, a5 = a + r1 * sa, a + r2 * sa, a + r3 * sa, a + r4 * sa, a + last * sa
    p0 = p1 = p2 = p3 = p4 = p5 = q0 = q1 = q2 = q3 = q4 = q5 = _lanes(ZERO)
    t0 = s0 = t1 = s1 = t2 = s2 = t3 = s3 = t4 = s4 = t5 = s5 = _lanes(ZERO)
    if not first:
        p0, q0, t0, s0 = _load(out), _load(out + LINE), _load(out + 2 * LINE), _load(out + 3 * LINE)
        p1, q1, t1, s1 = _load(o1), _load(o1 + LINE), _load(o1 + 2 * LINE), _load(o1 + 3 * LINE)
        p2, q2, t2, s2 = _load(o2), _load(o2 + LINE), _load(o2 + 2 * LINE), _load(o2 + 3 * LINE)
        p3, q3, t3, s3 = _load(o3), _load(o3 + LINE), _load(o3 + 2 * LINE), _load(o3 + 3 * LINE)
        p4, q4, t4, s4 = _load(o4), _load(o4 + LINE), _load(o4 + 2 * LINE), _load(o4 + 3 * LINE)
        p5, q5, t5, s5 = _load(o5), _load(o5 + LINE), _load(o5 + 2 * LINE), _load(o5 + 3 * LINE)
    n, r, s = m + panel, m + 2 * panel, m + 3 * panel
    for k in range(inner):
        w, x, y, z = _load(m + k * LINE), _load(n + k * LINE), _load(r + k * LINE), _load(s + k * LINE)
        v = _lanes(load_f32(a + 4 * k))
        p0, q0, t0, s0 = _times(v, w, p0), _times(v, x, q0), _times(v, y, t0), _times(v, z, s0)
        v = _lanes(load_f32(a1 + 4 * k))
        p1, q1, t1, s1 = _times(v, w, p1), _times(v, x, q1), _times(v, y, t1), _times(v, z, s1)
        v = _lanes(load_f32(a2 + 4 * k))
        p2, q2, t2, s2 = _times(v, w, p2), _times(v, x, q2), _times(v, y, t2), _times(v, z, s2)
        v = _lanes(load_f32(a3 + 4 * k))
        p3, q3, t3, s3 = _times(v, w, p3), _times(v, x, q3), _times(v, y, t3), _times(v, z, s3)
        v = _lanes(load_f32(a4 + 4 * k))
        p4, q4, t4, s4 = _times(v, w, p4), _times(v, x, q4), _times(v, y, t4), _times(v, z, s4)
        v = _lanes(load_f32(a5 + 4 * k))
        p5, q5, t5, s5 = _times(v, w, p5), _times(v, x, q5), _times(v, y, t5), _times(v, z, s5)
    _put_four(out, p0, q0, t0, s0, bias, relu)
    _put_four(o1, p1, q1, t1, s1, bias, relu)
    _put_four(o2, p2, q2, t2, s2, bias, relu)
    _put_four(o3, p3, q3, t3, s3, bias, relu)
    _put_four(o4, p4, q4, t4, s4, bias, relu)
    _put_four(o5, p5, q5, t5, s5, bias, relu)


@kernel
def wide_panels(
    out: int, so: int, a: int, sa: int, matrix: int, bias: int, relu: bool, rows: int, inner: int, n: int, begins: bool
) -> None:
    """The first n outputs, a multiple of `TOGETHER`, six rows at a time.   begins: as of `product`."""
    panel = LINE * inner
    for k in range(0, inner, BLOCK):
        count = min(BLOCK, inner - k)
        last, first = k + count == inner, begins and k == 0
        for j in range(0, n, TOGETHER):
            m, added = matrix + 4 * j * inner + LINE * k, bias + 4 * j if last and bias else 0
            for r in range(0, rows, ROWS):
                x, y = a + r * sa + 4 * k, out + r * so + 4 * j
                _six_by_four(y, so, x, sa, m, panel, added, relu and last, min(ROWS, rows - r), count, first)
