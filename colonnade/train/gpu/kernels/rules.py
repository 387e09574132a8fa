"""Optimizers' steps, in the order of operations of the loops on the CPU.

A rule gets values w and gradients g, [N, K], two state vectors s and t (zeros where it has none), the numbers c of its
table, [N, 1] each, and a number of the row, [N, 1]; it gives new values and states.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit

LARGEST = tl.constexpr(3.4028234663852886e38)


@jit
def sgd(w, g, s, t, c0, c1, c2, c3, c4, c5, c6, c7, of_row):
    """c: lr, decay."""
    return w - c0 * (g + c1 * w), s, t


@jit
def adagrad(w, g, s, t, c0, c1, c2, c3, c4, c5, c6, c7, of_row):
    """c: lr, decay, eps.   s: sum of squares."""
    g = g + c1 * w
    s = finite(s + g * g)
    return w - tl.div_rn(c0 * g, tl.sqrt_rn(s) + c2), s, t


@jit
def row_wise_adagrad(w, g, s, t, c0, c1, c2, c3, c4, c5, c6, c7, of_row):
    """of_row: the row's rate."""
    return w - of_row * g, s, t


@jit
def adam(w, g, s, t, c0, c1, c2, c3, c4, c5, c6, c7, of_row):
    """c: lr, decay, eps, 1 - beta1, beta2, 1 - beta2, root, keep.   s: mean.   t: mean of squares."""
    g = g + c1 * w
    s = s + c3 * (g - s)
    t = finite(c4 * t + c5 * (g * g))
    divisor = tl.div_rn(tl.sqrt_rn(t), t * 0 + c6) + c2
    return c7 * w - tl.div_rn(c0 * s, divisor), s, t


@jit
def ftrl(w, g, s, t, c0, c1, c2, c3, c4, c5, c6, c7, of_row):
    """c: lr, l1, l2, beta.   s: sum of squares.   t: linear."""
    old = tl.sqrt_rn(s)
    s = finite(s + g * g)
    new = tl.sqrt_rn(s)
    lr = g * 0 + c0
    t = t + (g - tl.div_rn(new - old, lr) * w)
    above = larger(t - c1)
    below = larger((0.0 - t) - c1)
    return tl.div_rn(below - above, tl.div_rn(c3 + new, lr) + (c2 + c2)), s, t


@jit
def stepped(w, g, s, t, c0, c1, c2, c3, c4, c5, c6, c7, of_row, RULE: tl.constexpr):
    """New values and states by the rule of that name."""
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
    return w, s, t


@jit
def finite(x):
    """The smaller of x and the largest float32."""
    return tl.where(x < LARGEST, x, LARGEST)


@jit
def larger(x):
    """The larger of 0 and x; of NaN, NaN."""
    return tl.where((x > 0.0) | (x != x), x, 0.0)
