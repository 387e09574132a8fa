"""Rows of many stores updated in place by their gradients. A program is of one part, what the rows of one store learn.

Legend: P parts; N lanes, one row each; D embedding_dim; V state vectors as long as a row, or one number of the row.
`words`: int64 [P, 16]: of a part's store the address of the blocks' addresses, their logarithm, bytes of a row, D, and
where in a row its state lies; the addresses of rows (int64 [N], distinct; -1: none), tables (int32 [N]) and gradients
(float32 [N, D]), and N; where its marks (int8) begin; its first table among all; its kind; the most a gradient may be
(float64).
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit
from colonnade.backends.gpu.device.reduce import plus
from colonnade.backends.gpu.device.text import any_lane
from colonnade.backends.gpu.device.tiles import unit_of
from colonnade.train.gpu.kernels.places import FLOAT32_FORM, floats, ints, load_values, longs, row_at, store_values
from colonnade.train.gpu.kernels.rules import finite, stepped

PART_WORDS = tl.constexpr(16)
PART_KIND = tl.constexpr(11)


@jit
def gradients(grads, lane, k, dim, live, EXACT: tl.constexpr):
    """float32 [N, K]: gradients k of rows; and which there are. EXACT: dim is K."""
    if EXACT:
        width: tl.constexpr = k.shape[0]
        mask = live[:, None] & (k >= 0)[None, :]
        at = grads + (lane * width)[:, None] + k[None, :]
    else:
        mask = live[:, None] & (k < dim)[None, :]
        at = grads + (lane * dim)[:, None] + k[None, :]
    return tl.load(at, mask=mask, other=0), mask


@jit
def squares_of(g):
    """float64 [N]: the sums of squares of gradients."""
    return tl.reduce((g * g).to(tl.float64), 1, plus)


@jit
def squares_of_rows(grads, lane, dim, live, VALUES: tl.constexpr):
    """The same, read part by part."""
    squares = lane.to(tl.float64) * 0
    begin = 0
    while begin < dim:
        g, _ = gradients(grads, lane, begin + tl.arange(0, VALUES), dim, live, False)
        squares += squares_of(g)
        begin += VALUES
    return squares


@jit
def row_rate(squares, states, dim, live, lr, eps):
    """float32 [N, 1]: the rates of rows by row-wise Adagrad. states: float32 pointers [N], written."""
    mean = squares / (squares * 0 + dim)
    before = tl.load(states, mask=live, other=0)
    tl.debug_barrier()  # one of the threads that hold a state writes it: no other must read it after that
    total = finite(before.to(tl.float64) + mean).to(tl.float32)
    tl.store(states, total, mask=live)
    return tl.div_rn(lr, tl.sqrt_rn(total)[:, None] + eps)


@jit
def tile_of_part(words, tiles, num_first, num):
    """A program's part (its words), and which tile of its rows is the program's. tiles: int64 [P], those before."""
    program = tl.program_id(0)
    part = num_first + unit_of(tiles + num_first, num, program)
    return words + PART_WORDS * part, program - tl.load(tiles + part)


@jit
def inspect_of(
    words,
    tile,
    marks,
    barred,
    told,
    SKIPS: tl.constexpr,
    BLOCK: tl.constexpr,
    VALUES: tl.constexpr,
    EXACT: tl.constexpr,
):
    """Mark the rows of a tile that learn nothing, and tell of it what there is to tell.

    barred: int1, by table.   told: int32, whether any gradient is more than it may be, then which tables change.
    SKIPS: rows of such a gradient learn nothing.
    """
    lane = tile * BLOCK + tl.arange(0, BLOCK)
    inside = lane < tl.load(words + 8)
    dim = tl.load(words + 3)
    grads = tl.multiple_of(tl.load(words + 7).to(tl.pointer_type(tl.float32)), 16)
    most = tl.load(words + 12).to(tl.float64, bitcast=True).to(tl.float32)
    row = tl.load(longs(tl.load(words + 5)) + lane, mask=inside, other=-1)
    table = tl.load(ints(tl.load(words + 6)) + lane, mask=inside, other=0) + tl.load(words + 10)
    beyond = (lane * 0).to(tl.int32)
    begin = 0
    while begin < dim:
        # gradients of all rows: which of them learn is not known as early
        g, _ = gradients(grads, lane, begin + tl.arange(0, VALUES), dim, inside, EXACT)
        fits = (tl.abs(g) <= most).to(tl.int32)  # NaN does not
        beyond = beyond | tl.reduce(fits ^ 1, 1, tl.standard._elementwise_max)
        begin += VALUES
    live = inside & (row >= 0) & (tl.load(barred + table, mask=inside, other=1) == 0)
    bad = live & (beyond > 0)
    if any_lane(bad):
        tl.store(told, 1)
    if SKIPS:
        live = live & ~bad
    tl.store(marks + tl.load(words + 9) + lane, live.to(tl.int8) ^ 1, mask=inside)
    # A word that all programs write is written by few of them: others see that it is.
    untold = live & (tl.load(told + 1 + table, mask=live, other=1) == 0)
    tl.store(told + 1 + table, row.to(tl.int32) * 0 + 1, mask=untold)


@jit
def update_of(
    words,
    tile,
    scalars,
    marks,
    RULE: tl.constexpr,
    V: tl.constexpr,
    FORM: tl.constexpr,
    BLOCK: tl.constexpr,
    VALUES: tl.constexpr,
    EXACT: tl.constexpr,
):
    """One step for each row of a tile that is not marked.

    scalars: float32 [tables, 8].   RULE: the name of a rule.   EXACT: rows have VALUES values.
    """
    lane = tile * BLOCK + tl.arange(0, BLOCK)
    inside = lane < tl.load(words + 8)
    dim = tl.load(words + 3)
    grads = tl.multiple_of(tl.load(words + 7).to(tl.pointer_type(tl.float32)), 16)
    marked = tl.load(marks + tl.load(words + 9) + lane, mask=inside, other=1)
    row = tl.load(longs(tl.load(words + 5)) + lane, mask=inside, other=0)
    table = tl.load(ints(tl.load(words + 6)) + lane, mask=inside, other=0) + tl.load(words + 10)
    own = scalars + 8 * table
    c0 = tl.load(own, mask=inside, other=1)[:, None]
    c1 = tl.load(own + 1, mask=inside, other=1)[:, None]
    c2 = tl.load(own + 2, mask=inside, other=1)[:, None]
    c3 = tl.load(own + 3, mask=inside, other=1)[:, None]
    c4 = tl.load(own + 4, mask=inside, other=1)[:, None]
    c5 = tl.load(own + 5, mask=inside, other=1)[:, None]
    c6 = tl.load(own + 6, mask=inside, other=1)[:, None]
    c7 = tl.load(own + 7, mask=inside, other=1)[:, None]
    live = marked == 0
    address = row_at(longs(tl.load(words)), row, live, tl.load(words + 1), tl.load(words + 2))
    states = floats(address + tl.load(words + 4))
    vectors = states
    width = dim
    if EXACT:
        width = tl.multiple_of(dim, VALUES)
        if V > 0 and FORM == FLOAT32_FORM and VALUES >= 4:
            vectors = tl.multiple_of((address + tl.load(words + 4)).to(tl.pointer_type(tl.float32)), 16)
    of_row = c0
    k = tl.arange(0, VALUES)
    if EXACT:
        # All is asked for at once, before anything is waited for.
        g, _ = gradients(grads, lane, k, dim, inside, EXACT)
        w = load_values(address, k, live[:, None] & (k >= 0)[None, :], FORM)
    if RULE == "row_wise_adagrad":
        if EXACT:
            squares = squares_of(g)
        else:
            squares = squares_of_rows(grads, lane, dim, live, VALUES)
        of_row = row_rate(squares, states, dim, live, c0, c1)
    begin = 0
    while begin < dim:
        k = begin + tl.arange(0, VALUES)
        if EXACT:
            mask = live[:, None] & (k >= 0)[None, :]
        else:
            g, mask = gradients(grads, lane, k, dim, live, EXACT)
            w = load_values(address, k, mask, FORM)
        s = g * 0
        t = g * 0
        if V > 0:
            at = vectors[:, None] + k[None, :]
            s = tl.load(at, mask=mask, other=0)
        if V > 1:
            t = tl.load(at + width, mask=mask, other=0)
        w, s, t = stepped(w, g, s, t, c0, c1, c2, c3, c4, c5, c6, c7, of_row, RULE)
        store_values(address, k, w, mask, FORM)
        if V > 0:
            tl.store(at, s, mask=mask)
        if V > 1:
            tl.store(at + width, t, mask=mask)
        begin += VALUES
