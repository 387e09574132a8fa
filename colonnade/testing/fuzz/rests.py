"""Random dense rests: steps from one `[B, W]` to the next, none of which makes much of a small difference.

Legend: B batch, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

Rng = np.random.Generator
Step = Callable[[Any, Any, Rng], Any]
WIDE = 256
"""Width from which on a step does not widen what it is given."""


def applied(tf: Any, x: Any, steps: tuple[str, ...], seed: int) -> Any:
    """The steps of these names, one after the other."""
    for place, name in enumerate(steps):
        x = ({**STEPS, **LAST}[name])(tf, x, np.random.default_rng([seed, place]))
    return x


def _width(x: Any) -> int:
    return int(x.shape[1])


def _vector(x: Any, rng: Rng, low: float = -1.0, high: float = 1.0) -> Any:
    return rng.uniform(low, high, _width(x)).astype(np.float32)


def _matrix(x: Any, rng: Rng, columns: int) -> Any:
    return (rng.uniform(-1, 1, (_width(x), columns)) / max(1, _width(x)) ** 0.5).astype(np.float32)


def _parts(x: Any) -> int:
    """A divisor of the width, 1 where it is prime."""
    return next((k for k in (2, 3, 5, 7) if _width(x) % k == 0), 1)


def _transposed(tf: Any, x: Any, rng: Rng) -> Any:
    k = _parts(x)
    cut = tf.reshape(x, [-1, k, _width(x) // k])
    return tf.reshape(tf.transpose(cut, [0, 2, 1]), [tf.shape(x)[0], _width(x)])


def _normed(tf: Any, x: Any, rng: Rng) -> Any:
    mean = tf.reduce_mean(x, 1, keepdims=True)
    return tf.concat([x, (x - mean) * tf.math.rsqrt(1.0 + tf.reduce_mean(tf.square(x - mean), 1, keepdims=True))], 1)


def _padded(tf: Any, x: Any, rng: Rng) -> Any:
    return tf.pad(x, [[0, 0], [int(rng.integers(3)), 1]], constant_values=0.5)


def _mirrored(tf: Any, x: Any, rng: Rng) -> Any:
    return tf.pad(x, [[0, 0], [1, 0]], mode="SYMMETRIC")


def _gathered(tf: Any, x: Any, rng: Rng) -> Any:
    return tf.gather(x, rng.integers(_width(x), size=_width(x)).astype(np.int32), axis=1)


def _sliced(tf: Any, x: Any, rng: Rng) -> Any:
    start = int(rng.integers(_width(x)))
    return (x[:, start:], tf.slice(x, [0, start], [-1, 1]), x[:, ::-2], x[:, : start + 1], x[:, -1:])[rng.integers(5)]


def _unstacked(tf: Any, x: Any, rng: Rng) -> Any:
    k = _parts(x)
    rows = tf.unstack(tf.reshape(x, [-1, k, _width(x) // k]), axis=1)
    return tf.concat([rows[-1], *(a * b for a, b in pairwise(rows))], 1)


def _split(tf: Any, x: Any, rng: Rng) -> Any:
    first = int(rng.integers(_width(x)))
    a, b = tf.split(x, [first, _width(x) - first], axis=1)
    return tf.concat([b, a], axis=-1)


def _squared(tf: Any, x: Any, rng: Rng) -> Any:
    """Products of all pairs of the first few."""
    few = x[:, :5]
    pairs = tf.matmul(tf.expand_dims(few, 2), tf.expand_dims(few, 1))
    return tf.concat([x, tf.reshape(tf.linalg.band_part(pairs, 0, -1), [-1, few.shape[1] ** 2])], 1)


def _counted(tf: Any, x: Any, rng: Rng) -> Any:
    return x * tf.cast(tf.range(1, _width(x) + 1), tf.float32) / float(_width(x))


def _filled(tf: Any, x: Any, rng: Rng) -> Any:
    return tf.concat([x, tf.fill([tf.shape(x)[0], 2], 0.25), tf.ones_like(x[:, :1]), tf.zeros_like(x[:, :1])], 1)


def _bits(tf: Any, x: Any, rng: Rng) -> Any:
    finite = tf.logical_not(tf.logical_or(tf.math.is_nan(x), tf.math.is_inf(x)))
    return tf.where(tf.logical_and(finite, tf.math.is_finite(x)), x, tf.zeros_like(x))


def _masked(tf: Any, x: Any, rng: Rng) -> Any:
    mask = tf.constant(rng.random(_width(x)) < 0.7)
    return tf.where(mask, x, 0.125 * x) * tf.cast(tf.reduce_any(mask), tf.float32)


def _doubled(tf: Any, x: Any, rng: Rng) -> Any:
    return tf.cast(tf.cast(x, tf.float64) * 1.5 - tf.constant(0.25, tf.float64), tf.float32)


def _nested(tf: Any, x: Any, rng: Rng) -> Any:
    return tf.squeeze(tf.broadcast_to(tf.expand_dims(x, 1), [tf.shape(x)[0], 1, _width(x)]), [1])


def _scored(tf: Any, x: Any, rng: Rng) -> Any:
    return x / (1.0 + tf.reduce_sum(tf.abs(x), axis=-1, keepdims=True)) + tf.reduce_max(x, 1, keepdims=True)


def _lifted(tf: Any, x: Any) -> Any:
    return 1.0 + tf.abs(x)


STEPS: Mapping[str, Step] = {
    "abs": lambda tf, x, rng: tf.abs(x),
    "neg": lambda tf, x, rng: -x,
    "relu": lambda tf, x, rng: tf.nn.relu(x),
    "relu6": lambda tf, x, rng: tf.nn.relu6(3.0 * x),
    "elu": lambda tf, x, rng: tf.nn.elu(x),
    "selu": lambda tf, x, rng: tf.nn.selu(x),
    "leaky_relu": lambda tf, x, rng: tf.nn.leaky_relu(x, float(rng.uniform(0.01, 0.5))),
    "sigmoid": lambda tf, x, rng: tf.sigmoid(x),
    "tanh": lambda tf, x, rng: tf.tanh(x),
    "softplus": lambda tf, x, rng: tf.nn.softplus(x),
    "softsign": lambda tf, x, rng: tf.nn.softsign(x),
    "swish": lambda tf, x, rng: x * tf.sigmoid(x),
    "gelu": lambda tf, x, rng: tf.nn.gelu(x, approximate=bool(rng.integers(2))),
    "exp": lambda tf, x, rng: tf.exp(-tf.abs(x)),
    "expm1": lambda tf, x, rng: tf.math.expm1(-tf.abs(x)) - 0.5,
    "log": lambda tf, x, rng: tf.math.log(0.5 + _lifted(tf, x)),
    "log1p": lambda tf, x, rng: tf.math.log1p(_lifted(tf, x)),
    "sqrt": lambda tf, x, rng: tf.sqrt(_lifted(tf, x)),
    "rsqrt": lambda tf, x, rng: tf.math.rsqrt(_lifted(tf, x)),
    "reciprocal": lambda tf, x, rng: tf.math.reciprocal(_lifted(tf, x)),
    "square": lambda tf, x, rng: tf.square(tf.tanh(x)),
    "sin": lambda tf, x, rng: tf.sin(x) + 2.0,
    "cos": lambda tf, x, rng: tf.cos(x) + 2.0,
    "tan": lambda tf, x, rng: tf.tan(tf.tanh(x)),
    "asin": lambda tf, x, rng: tf.asin(0.9 * tf.tanh(x)),
    "acos": lambda tf, x, rng: tf.acos(0.9 * tf.tanh(x)),
    "atan": lambda tf, x, rng: tf.atan(x),
    "atan2": lambda tf, x, rng: tf.atan2(x, _lifted(tf, x)),
    "sinh": lambda tf, x, rng: tf.sinh(tf.tanh(x)),
    "cosh": lambda tf, x, rng: tf.cosh(tf.tanh(x)),
    "asinh": lambda tf, x, rng: tf.asinh(x),
    "acosh": lambda tf, x, rng: tf.acosh(0.5 + _lifted(tf, x)),
    "atanh": lambda tf, x, rng: tf.atanh(0.9 * tf.tanh(x)),
    "erf": lambda tf, x, rng: tf.math.erf(x),
    "erfc": lambda tf, x, rng: tf.math.erfc(tf.tanh(x)),
    "add": lambda tf, x, rng: x + _vector(x, rng),
    "sub": lambda tf, x, rng: float(rng.uniform(2, 3)) - tf.tanh(x),
    "mul": lambda tf, x, rng: x * _vector(x, rng, 0.5, 1.5),
    "div": lambda tf, x, rng: x / _vector(x, rng, 0.5, 1.5),
    "divide_no_nan": lambda tf, x, rng: tf.math.divide_no_nan(x, np.where(_vector(x, rng) > 0, np.float32(2), 0)),
    "multiply_no_nan": lambda tf, x, rng: tf.math.multiply_no_nan(x, np.where(_vector(x, rng) > 0, np.float32(2), 0)),
    "xlogy": lambda tf, x, rng: tf.math.xlogy(tf.tanh(x), 1.0 + _lifted(tf, x)),
    "pow": lambda tf, x, rng: tf.pow(_lifted(tf, x), float(rng.uniform(-1, 1))),
    "maximum": lambda tf, x, rng: tf.maximum(x, float(rng.uniform(-0.5, 0.5))),
    "minimum": lambda tf, x, rng: tf.minimum(_vector(x, rng), x),
    "clip": lambda tf, x, rng: tf.clip_by_value(x, -0.5, 0.75),
    "squared_difference": lambda tf, x, rng: tf.math.squared_difference(tf.tanh(x), 2.0),
    "bias": lambda tf, x, rng: tf.nn.bias_add(x, _vector(x, rng)),
    "matmul": lambda tf, x, rng: tf.matmul(x, _matrix(x, rng, int(rng.integers(1, 40)))),
    "einsum": lambda tf, x, rng: tf.einsum("bi,ij->bj", x, _matrix(x, rng, 5)),
    "tensordot": lambda tf, x, rng: tf.tensordot(x, _matrix(x, rng, 3), 1),
    "convolved": lambda tf, x, rng: tf.squeeze(
        tf.nn.conv1d(tf.expand_dims(x, 2), rng.uniform(-0.5, 0.5, (3, 1, 1)).astype(np.float32), 1, "SAME"), 2
    ),
    "softmax": lambda tf, x, rng: tf.nn.softmax(x),
    "log_softmax": lambda tf, x, rng: tf.nn.log_softmax(x) - 1.0,
    "l2": lambda tf, x, rng: tf.math.l2_normalize(x, 1, epsilon=1e-3),
    "normed": _normed,
    "scored": _scored,
    "cumsum": lambda tf, x, rng: tf.concat([x, tf.cumsum(tf.abs(x), 1, exclusive=bool(rng.integers(2)))], 1),
    "cumprod": lambda tf, x, rng: tf.math.cumprod(tf.tanh(x), 1, reverse=bool(rng.integers(2))),
    "mins": lambda tf, x, rng: tf.concat([tf.reduce_min(x, 1, keepdims=True), x], 1),
    "prods": lambda tf, x, rng: tf.concat([x, tf.reduce_prod(x[:, :4], [1], keepdims=True)], 1),
    "transposed": _transposed,
    "reversed": lambda tf, x, rng: tf.reverse(x, [1]),
    "padded": _padded,
    "mirrored": _mirrored,
    "tiled": lambda tf, x, rng: tf.tile(x, [1, 2 if _width(x) < WIDE else 1]),
    "gathered": _gathered,
    "sliced": _sliced,
    "unstacked": _unstacked,
    "split": _split,
    "squared": _squared,
    "counted": _counted,
    "filled": _filled,
    "bits": _bits,
    "masked": _masked,
    "doubled": _doubled,
    "nested": _nested,
    "kept": lambda tf, x, rng: tf.where(x > 0.0, x, 0.25 * x),
    "top_k": lambda tf, x, rng: tf.math.top_k(tf.where(tf.math.is_nan(x), 0.0, x), min(3, _width(x))).values,
    "stopped": lambda tf, x, rng: tf.stop_gradient(tf.identity(x)),
}
"""A step by its name."""


LAST: Mapping[str, Step] = {
    "round": lambda tf, x, rng: tf.round(10.0 * x),
    "floor": lambda tf, x, rng: tf.floor(7.0 * x),
    "ceil": lambda tf, x, rng: tf.math.ceil(7.0 * x),
    "sign": lambda tf, x, rng: tf.sign(x),
    "above": lambda tf, x, rng: tf.cast(x > 0.1, tf.float32),
    "whole": lambda tf, x, rng: tf.cast(100.0 * x, tf.int32),
    "largest": lambda tf, x, rng: tf.argmax(x, 1),
    "labelled": lambda tf, x, rng: tf.gather(tf.constant([f"é{k}" for k in range(_width(x))]), tf.argmax(x, 1)),
}
"""Steps that make a whole number of a small difference: they end a rest."""
