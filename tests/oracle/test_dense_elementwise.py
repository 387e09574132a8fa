"""Elementwise ops of towers against TensorFlow: random numbers, halves, signed zeros, NaN, infinities, extremes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.oracle.dense_models import check, floats

Made = dict[str, Any]

UNARY = (
    *(
        "abs",
        "acos",
        "asin",
        "asinh",
        "atan",
        "ceil",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "expm1",
        "floor",
        "is_finite",
    ),
    *("is_inf", "is_nan", "log", "log1p", "log_sigmoid", "negative", "reciprocal", "rint", "round", "rsqrt"),
    *("sigmoid", "sign", "sin", "sinh", "softplus", "sqrt", "square", "tan", "tanh", "acosh", "atanh"),
)
BINARY = (
    *("add", "atan2", "divide", "divide_no_nan", "equal", "floormod", "greater", "less_equal", "maximum"),
    *("minimum", "multiply", "multiply_no_nan", "not_equal", "squared_difference", "subtract", "xlogy", "pow"),
)
EXACT = {
    *("abs", "ceil", "floor", "negative", "rint", "round", "sign", "maximum", "minimum", "floordiv", "floormod"),
    *("clipped", "clipped_v1", "truncated_mod", "selected", "rows_selected"),
}


def unary(tf: Any, x: Any, y: Any, k: Any, c: Any) -> Made:
    outputs = {name: getattr(tf.math, name)(x) for name in UNARY}
    return outputs | {"xor": tf.math.logical_xor(x > 0, x > 1)}


def binary(tf: Any, x: Any, y: Any, k: Any, c: Any) -> Made:
    outputs = {name: getattr(tf.math, name)(x, y) for name in BINARY}
    outputs |= {f"{name}_column": getattr(tf.math, name)(x, y[:, :1]) for name in ("add", "maximum", "divide_no_nan")}
    return outputs | {
        "floordiv": tf.math.floordiv(tf.round(x), y),
        "truncated_mod": tf.raw_ops.TruncateMod(x=x, y=y),
        "clipped": tf.clip_by_value(x, -1.0, 2.0),
        "clipped_v1": tf.raw_ops.ClipByValue(t=x, clip_value_min=tf.constant(-1.0), clip_value_max=tf.constant(2.0)),
        "selected": tf.where(x > y, x, y),
        "scalar_selected": tf.where(x > 0, x, 0.25),
        "rows_selected": tf.raw_ops.Select(condition=c[:, 0] > 0, x=x, y=y),
        "two": tf.add_n([x, y, x]),
    }


def activations(tf: Any, x: Any, y: Any, k: Any, c: Any) -> Made:
    nn = tf.nn
    return {
        "relu": nn.relu(x),
        "relu6": nn.relu6(x),
        "leaky": nn.leaky_relu(x, 0.1),
        "elu": nn.elu(x),
        "selu": nn.selu(x),
        "softsign": nn.softsign(x),
        "gelu": nn.gelu(x),
        "gelu_tanh": nn.gelu(x, approximate=True),
        "swish": nn.silu(x),
        "swish_beta": nn.silu(x, 1.5),
        "hard_sigmoid": tf.clip_by_value(x * 0.2 + 0.5, 0.0, 1.0),
        "hard_swish": c * nn.relu6(c + 3.0) / 6.0,
        "mish": x * tf.tanh(nn.softplus(x)),
        "prelu": nn.relu(x) - tf.constant(np.float32([0.1] * 6)) * nn.relu(-x),
        "softmax": nn.softmax(c),
        "softmax_other": nn.softmax(tf.reshape(c, (-1, 2, 3)), axis=1),
        "log_softmax": nn.log_softmax(c),
        "logsumexp": tf.reduce_logsumexp(c, axis=1),
        "crossed": tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=c),
    }


def integers(tf: Any, x: Any, y: Any, k: Any, c: Any) -> Made:
    return {
        "div": k // 7,
        "mod": tf.math.mod(k, 7),
        "cut": tf.truncatediv(k, 7),
        "rest": tf.truncatemod(k, 7),
        "negative_mod": tf.math.floormod(k, -7),
        "max": tf.maximum(k, 3),
        "sign": tf.sign(k),
        "square": tf.square(k),
        "to_float": tf.cast(k, tf.float32),
        "to_int32": tf.cast(k, tf.int32),
        "to_bool": tf.cast(k, tf.bool),
        "float_to_int32": tf.cast(x, tf.int32),
        "float_to_int64": tf.cast(x, tf.int64),
        "float_to_bool": tf.cast(x, tf.bool),
        "bool_to_float": tf.cast(x > 0, tf.float32),
        "hour": tf.sin(6.2831855 / 24.0 * tf.cast(tf.math.mod(k, 24), tf.float32)),
        "double": tf.cast(tf.cast(x, tf.float64) * 1.5, tf.int32),
    }


def norms(tf: Any, x: Any, y: Any, k: Any, c: Any) -> Made:
    scale, offset, mean = (tf.constant(floats(s, 6, special=False)) for s in (1, 2, 3))
    variance = tf.constant(np.abs(floats(4, 6, special=False)))
    image = tf.reshape(c, (-1, 1, 1, 6))
    fused, *_ = tf.raw_ops.FusedBatchNormV3(
        x=image, scale=scale, offset=offset, mean=mean, variance=variance, epsilon=1e-3, is_training=False
    )
    center, spread = tf.nn.moments(c, axes=[-1], keepdims=True)
    return {
        "fused": tf.reshape(fused, (-1, 6)),
        "plain": tf.nn.batch_normalization(c, mean, variance, offset, scale, 1e-3),
        "layer": (c - center) * tf.math.rsqrt(spread + 1e-5) * scale + offset,
        "squared": tf.reduce_mean(tf.math.squared_difference(c, tf.reduce_mean(c, -1, keepdims=True)), -1),
        "loss": tf.nn.l2_loss(c),
        "l2": tf.nn.l2_normalize(c, axis=1),
    }


@pytest.mark.parametrize("made", [unary, binary, activations, integers, norms])
def test_elementwise_ops_equal_tensorflow(made: Any, tmp_path: Path) -> None:
    def build(tf: Any) -> tuple[Made, Made]:
        inputs = {n: tf.compat.v1.placeholder(tf.float32, (None, 6), name=n) for n in ("x", "y", "c")}
        inputs["k"] = tf.compat.v1.placeholder(tf.int64, (None, 6), name="k")
        return inputs, made(tf, inputs["x"], inputs["y"], inputs["k"], inputs["c"])

    feeds = []
    for seed, rows in enumerate((7, 1, 0, 64)):
        generator = np.random.default_rng(seed)
        k = generator.integers(-50, 50, (rows, 6))
        k.reshape(-1)[:2] = (2**63 - 1, -(2**63) + 1)[: k.size]
        named = {
            "x": floats(seed, rows, 6),
            "y": np.clip(floats(seed + 50, rows, 6), -1e30, 1e30),
            "c": floats(seed, rows, 6, special=False),
        }
        feeds.append({**named, "k": k})
    # Quotients of larger divisors are denormal, and the floor of one below 0 is -1 or, flushed, 0.
    check(tmp_path / "model", build, feeds, rtol=4e-6, exact=lambda name: name in EXACT)
