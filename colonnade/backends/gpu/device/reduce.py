"""Rows of many lanes into one."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit


@jit
def greater(a, b):
    """The greater of two, NaN where one is."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@jit
def greatest_row(rows):
    """[1, D] from [N, D]."""
    return tl.reduce(rows, 0, greater, keep_dims=True)


@jit
def plus(a, b):
    """The sum of two. Triton's own is run by numpy in the interpreter, where -0.0 and -0.0 make 0.0."""
    return a + b


@jit
def sum_of_rows(rows):
    """[1, D] from [N, D], in an order that does not depend on the values."""
    return tl.reduce(rows, 0, plus, keep_dims=True)
