"""What a tower makes of the vectors of its cases: concats, stacks, sums, products of pairs.

Legend: B batch, N vectors of one width, D their width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Join = Callable[[Any, Sequence[Any]], Any]


def joined(tf: Any, name: str, vectors: Sequence[Any], width: int) -> Any:
    """One `[B, W]` of all vectors: those of that width by the structure of that name, all others beside it."""
    equal = [v for v in vectors if v.shape[1] == width]
    others = [v for v in vectors if v.shape[1] != width]
    if not equal or name == "concat":
        return tf.concat(vectors, 1)
    made = STRUCTURES[name](tf, equal)
    return tf.concat([made, *others], 1) if others else made


def _stack(tf: Any, equal: Sequence[Any]) -> Any:
    stacked_BND = tf.stack(equal, 1)
    return tf.reshape(stacked_BND, [-1, len(equal) * equal[0].shape[1]])


def _mean(tf: Any, equal: Sequence[Any]) -> Any:
    return tf.reduce_mean(tf.stack(equal, 1), 1)


def _max(tf: Any, equal: Sequence[Any]) -> Any:
    return tf.reduce_max(tf.stack(equal, 0), axis=0)


def _dot(tf: Any, equal: Sequence[Any]) -> Any:
    """The products of all pairs, each pair once."""
    stacked_BND, num = tf.stack(equal, axis=1), len(equal)
    flat = tf.reshape(tf.matmul(stacked_BND, stacked_BND, transpose_b=True), [-1, num * num])
    return tf.gather(flat, [i * num + j for i in range(num) for j in range(i + 1)], axis=1)


def _pairs(tf: Any, equal: Sequence[Any]) -> Any:
    """The squares of all pairs' products, as a lower triangle."""
    stacked_BND, num = tf.reshape(tf.concat(equal, 1), [-1, len(equal), equal[0].shape[1]]), len(equal)
    products = tf.einsum("bnd,bmd->bnm", stacked_BND, stacked_BND)
    return tf.reshape(tf.linalg.band_part(products, -1, 0), [-1, num * num])


def _fm(tf: Any, equal: Sequence[Any]) -> Any:
    """A factorization machine, on top of its squares: alone, it may be a small difference of large numbers."""
    stacked_BND = tf.stack(equal, 1)
    total = tf.reduce_sum(stacked_BND, 1)
    square_of_sum, sum_of_squares = tf.square(total), tf.reduce_sum(tf.square(stacked_BND), 1)
    return tf.concat([total, 0.5 * (square_of_sum - sum_of_squares) + square_of_sum + sum_of_squares], 1)


def _wide(tf: Any, equal: Sequence[Any]) -> Any:
    """A linear sum, beside the size of what it is a sum of."""
    together = tf.concat(equal, 1)
    return tf.concat([tf.reduce_sum(together, 1, keepdims=True), tf.reduce_sum(tf.abs(together), 1, keepdims=True)], 1)


def _outer(tf: Any, equal: Sequence[Any]) -> Any:
    first, last = equal[0][:, :8], equal[-1][:, :8]
    outer = tf.expand_dims(first, 2) * tf.expand_dims(last, 1)
    return tf.concat([*equal, tf.reshape(outer, [-1, first.shape[1] * last.shape[1]])], 1)


def _halves(tf: Any, equal: Sequence[Any]) -> Any:
    together = tf.concat(equal, 1)
    if together.shape[1] % 2:
        return together[:, ::-1]
    left, right = tf.split(together, 2, axis=1)
    return tf.concat([right, left * right], 1)


def _broadcast(tf: Any, equal: Sequence[Any]) -> Any:
    """One vector times each."""
    products = tf.expand_dims(equal[0], 1) * tf.stack(equal, 1)
    return tf.reshape(tf.transpose(products, [0, 2, 1]), [-1, len(equal) * equal[0].shape[1]])


STRUCTURES: Mapping[str, Join] = {
    "concat": lambda tf, equal: tf.concat(equal, 1),
    "stack": _stack,
    "sum": lambda tf, equal: tf.add_n(equal),
    "mean": _mean,
    "max": _max,
    "dot": _dot,
    "pairs": _pairs,
    "fm": _fm,
    "wide": _wide,
    "outer": _outer,
    "halves": _halves,
    "broadcast": _broadcast,
}
