"""Rows updated in place by their gradients.

Legend: N lanes, one row each; D embedding_dim; V state vectors as long as a row, or one number of the row.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit, kernel
from colonnade.backends.gpu.device.reduce import plus
from colonnade.train.gpu.kernels.places import floats, load_values, row_at, store_values
from colonnade.train.gpu.kernels.rows import lanes_of
from colonnade.train.gpu.kernels.rules import adagrad, adam, finite, ftrl, row_wise_adagrad, sgd


@jit
def gradients(grads, lane, k, dim, live):
    """float32 [N, K]: gradients k of rows; and which there are."""
    mask = live[:, None] & (k < dim)[None, :]
    return tl.load(grads + (lane * dim)[:, None] + k[None, :], mask=mask, other=0), mask


@jit
def row_rate(grads, states, lane, dim, live, lr, eps, VALUES: tl.constexpr):
    """float32 [N, 1]: the rates of rows by row-wise Adagrad. states: float32 pointers [N], written."""
    squares = lane.to(tl.float64) * 0
    begin = 0
    while begin < dim:
        g, _ = gradients(grads, lane, begin + tl.arange(0, VALUES), dim, live)
        squares += tl.reduce((g * g).to(tl.float64), 1, plus)
        begin += VALUES
    mean = squares / (squares * 0 + dim)
    before = tl.load(states, mask=live, other=0)
    tl.debug_barrier()  # one of the threads that hold a state writes it: no other must read it after that
    total = finite(before.to(tl.float64) + mean).to(tl.float32)
    tl.store(states, total, mask=live)
    return tl.div_rn(lr, tl.sqrt_rn(total)[:, None] + eps)


@kernel
def update(
    blocks,
    num_shift,
    row_bytes,
    rows,
    tables,
    grads,
    scalars,
    num,
    dim,
    num_states_at,
    RULE: tl.constexpr,
    V: tl.constexpr,
    FORM: tl.constexpr,
    BLOCK: tl.constexpr,
    VALUES: tl.constexpr,
):
    """Kernel: one step for each row that is not -1.

    rows: int64 [N], distinct.   tables: int32 [N].   grads: float32 [N, D].   scalars: float32 [tables, 8].
    num_states_at: where in a row its state lies.   RULE: the name of a rule.
    """
    lane = lanes_of(BLOCK)
    row = tl.load(rows + lane, mask=lane < num, other=-1)
    live = row >= 0
    address = row_at(blocks, row, live, num_shift, row_bytes)
    own = scalars + 8 * tl.load(tables + lane, mask=live, other=0)
    c0 = tl.load(own, mask=live, other=1)[:, None]
    c1 = tl.load(own + 1, mask=live, other=1)[:, None]
    c2 = tl.load(own + 2, mask=live, other=1)[:, None]
    c3 = tl.load(own + 3, mask=live, other=1)[:, None]
    c4 = tl.load(own + 4, mask=live, other=1)[:, None]
    c5 = tl.load(own + 5, mask=live, other=1)[:, None]
    c6 = tl.load(own + 6, mask=live, other=1)[:, None]
    c7 = tl.load(own + 7, mask=live, other=1)[:, None]
    states = floats(address + num_states_at)
    of_row = c0
    if RULE == "row_wise_adagrad":
        of_row = row_rate(grads, states, lane, dim, live, c0, c1, VALUES)
    begin = 0
    while begin < dim:
        k = begin + tl.arange(0, VALUES)
        g, mask = gradients(grads, lane, k, dim, live)
        w = load_values(address, k, mask, FORM)
        at = states[:, None] + k[None, :]
        s = g * 0
        t = g * 0
        if V > 0:
            s = tl.load(at, mask=mask, other=0)
        if V > 1:
            t = tl.load(at + dim, mask=mask, other=0)
        if RULE == "sgd":
            w, s, t = sgd(w, g, s, t, c0, c1, c2, c3, c4, c5, c6, c7, of_row)
        elif RULE == "adagrad":
            w, s, t = adagrad(w, g, s, t, c0, c1, c2, c3, c4, c5, c6, c7, of_row)
        elif RULE == "row_wise_adagrad":
            w, s, t = row_wise_adagrad(w, g, s, t, c0, c1, c2, c3, c4, c5, c6, c7, of_row)
        elif RULE == "adam":
            w, s, t = adam(w, g, s, t, c0, c1, c2, c3, c4, c5, c6, c7, of_row)
        else:
            tl.static_assert(RULE == "ftrl")
            w, s, t = ftrl(w, g, s, t, c0, c1, c2, c3, c4, c5, c6, c7, of_row)
        store_values(address, k, w, mask, FORM)
        if V > 0:
            tl.store(at, s, mask=mask)
        if V > 1:
            tl.store(at + dim, t, mask=mask)
        begin += VALUES
