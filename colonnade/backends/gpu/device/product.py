"""A kernel of the dense rest: a product with a short inner dim."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit


@jit
def product(
    x,
    weight,
    bias,
    out,
    rows,
    inner,
    outputs,
    stride_x,
    stride_weight,
    stride_out,
    HAS_BIAS: tl.constexpr,
    RELU: tl.constexpr,
    TILE: tl.constexpr,
):
    """Kernel: `out [M, N] = x [M, K] @ weight [N, K].T + bias [N]`, then relu, in float32 throughout."""
    m = tl.program_id(0) * TILE + tl.arange(0, TILE)
    n = tl.program_id(1) * TILE + tl.arange(0, TILE)
    in_rows, in_outputs = m < rows, n < outputs
    x_row = x + m.to(tl.int64) * stride_x
    weight_row = weight + n.to(tl.int64) * stride_weight
    total = tl.full((TILE, TILE), 0.0, tl.float32)
    for begin in range(0, inner, TILE):
        k = begin + tl.arange(0, TILE)
        in_inner = k < inner
        left = tl.load(x_row[:, None] + k[None, :], mask=in_rows[:, None] & in_inner[None, :], other=0.0)
        right = tl.load(weight_row[None, :] + k[:, None], mask=in_outputs[None, :] & in_inner[:, None], other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    if HAS_BIAS:
        total += tl.load(bias + n, mask=in_outputs, other=0.0)[None, :]
    if RELU:
        total = tl.where(total < 0.0, 0.0, total)  # NaN stays
    place = out + m.to(tl.int64)[:, None] * stride_out + n[None, :]
    tl.store(place, total, mask=in_rows[:, None] & in_outputs[None, :])
