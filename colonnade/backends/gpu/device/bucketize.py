"""The number of boundaries that are <= x."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit


@jit
def bucketize(x, boundaries, count, step):
    """int32 [N]. x: float32 or float64 [N]; step: the greatest power of two <= count (1 for none). NaN gives count."""
    found = tl.full(x.shape, 0, tl.int32)
    at = step.to(tl.int32)
    end = count.to(tl.int32)
    x = touched(x, boundaries, end)
    while at > 0:
        probe = found + at
        inside = probe <= end
        boundary = tl.load(boundaries + probe - 1, mask=inside, other=0.0).to(x.dtype)
        found = tl.where(inside & (boundary <= x), probe, found)
        at = at >> 1
    return tl.where(x == x, found, end)


@jit
def touched(x, boundaries, end):
    """x itself; on the way, every sector of the boundaries comes into the cache, all at once instead of step by step.

    A boundary is never NaN, which the compiler does not know: it cannot leave the load out.
    """
    at = tl.arange(0, x.shape[0]) * 8
    boundary = tl.load(boundaries + at, mask=at < end, other=0.0).to(x.dtype)
    return tl.where(boundary == boundary, x, boundary)


@jit
def flushed_float32(x):
    """x with denormals replaced by 0."""
    return tl.where(tl.abs(x) < 1.1754943508222875e-38, 0.0, x)


@jit
def flushed_float64(x):
    """x with denormals replaced by 0."""
    return tl.where(tl.abs(x) < 2.2250738585072014e-308, 0.0, x)
