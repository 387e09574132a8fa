"""A kernel that takes matrices from a block on the host and puts each where its own address says."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit


@jit
def place_rows(source, moves, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """Kernel: matrix m of `source` to its address, a program for each tile of its elements.

    Shapes: source float32; moves int64 [M, 5]: the first element in `source`, a multiple of ALIGNED; rows; width;
    address; elements from row to row there.
    """
    words = moves + 5 * tl.program_id(1)
    start, rows, width = tl.load(words), tl.load(words + 1).to(tl.int32), tl.load(words + 2).to(tl.int32)
    target = tl.load(words + 3).to(tl.pointer_type(tl.float32))
    stride = tl.load(words + 4)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = at < rows * width
    row = at // width
    values = tl.load(source + tl.multiple_of(start, ALIGNED) + at, mask=live, other=0)
    tl.store(target + row.to(tl.int64) * stride + (at - row * width), values, mask=live)
