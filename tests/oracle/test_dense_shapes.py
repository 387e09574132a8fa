"""Ops that cut, move, count and pick in towers, against TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.oracle.dense_models import check, floats

Made = dict[str, Any]
PLACES = np.array([[2, 0], [1, 1], [0, 2]], np.int32)


def cuts(tf: Any, x: Any, u: Any, k: Any) -> Made:
    first, second, third = tf.split(u, 3, axis=1)
    left, right = tf.split(x, [4, 2], axis=1)
    a, b, c = tf.unstack(u, axis=1)
    rest = tf.split(x, [1, -1], axis=-1)
    return {
        "first": first,
        "third": third,
        "product": tf.matmul(second, third, transpose_b=True),
        "left": left,
        "right": right,
        "rest": rest[1],
        "stacked": tf.stack([c, a], axis=1),
        "gated": tf.sigmoid(a) * b,
        "reversed": tf.reverse(u, [1, -1]),
        "padded": tf.pad(u, [[0, 0], [1, 0], [0, 2]], constant_values=-1.5),
        "zeros": tf.pad(x, [[0, 0], [2, 1]]),
        "mirrored": tf.pad(x, [[0, 0], [2, 1]], "SYMMETRIC"),
        "tiled": tf.tile(u[:, :1], [1, 3, 2]),
        "dims": tf.expand_dims(tf.expand_dims(x, 1), -1),
        "squeezed": tf.squeeze(u[:, 0:1], [1]),
        "moved": tf.transpose(u, [0, 2, 1]),
        "new": x[:, tf.newaxis, ::2],
        "last": u[:, -1],
        "back": x[:, ::-1],
        "inner": u[..., 1:3],
    }


def picks(tf: Any, x: Any, u: Any, k: Any) -> Made:
    values, places = tf.math.top_k(x, 3)
    rows = tf.range(tf.shape(u)[0])
    return {
        "columns": tf.gather(x, [3, 0, 0], axis=1),
        "matrix": tf.gather(x, PLACES, axis=1),
        "own": tf.gather(u, k[:, :2] % 3, axis=1, batch_dims=1),
        "own_inner": tf.gather(x, k[:, :3] % 6, axis=1, batch_dims=1),
        "table": tf.gather(tf.constant(floats(1, 5, 2, special=False)), k % 5),
        "nd": tf.gather_nd(u, tf.stack([rows, tf.cast(k[:, 0] % 3, tf.int32)], axis=1)),
        "hot": tf.one_hot(k, 4),
        "hot_int": tf.one_hot(k[:, 0], 3, on_value=5, off_value=-1, axis=0),
        "hot_middle": tf.one_hot(k, 4, axis=1),
        "top": values,
        "places": places,
        "best": tf.argmax(x, 1),
        "best32": tf.argmax(x, 1, output_type=tf.int32),
        "worst": tf.argmin(x, 1),
        "best_u": tf.argmax(u, 2),
        "one": tf.gather(x, 2, axis=1),
    }


def folds(tf: Any, x: Any, u: Any, k: Any) -> Made:
    finite = tf.where(tf.abs(u) < 1000.0, u, 0.5)
    finite_x = tf.where(tf.abs(x) < 1000.0, x, 0.5)
    names = ("sum", "mean", "max", "min", "prod")
    outputs: Made = {}
    for name in names:
        fold = getattr(tf, f"reduce_{name}")
        outputs |= {
            f"{name}_last": fold(finite, -1),
            f"{name}_kept": fold(finite, 1, keepdims=True),
            f"{name}_two": fold(finite, [1, 2]),
            f"{name}_two_kept": fold(finite, [-1, 1], keepdims=True),
            f"{name}_none": fold(finite, []),
        }
    outputs |= {f"{n}_ints": getattr(tf, f"reduce_{n}")(k, 1) for n in ("sum", "max", "min", "prod")}
    return outputs | {
        "max_special": tf.reduce_max(u, 1),
        "min_special": tf.reduce_min(x, 1),
        "any": tf.reduce_any(u > 1, [1, 2]),
        "all": tf.reduce_all(x > -100, 1, keepdims=True),
        "count": tf.math.count_nonzero(k, 1),
        "running": tf.cumsum(tf.where(x > 1e6, np.float32(np.inf), finite_x), 1),
        "running_ints": tf.cumsum(k, 1, exclusive=True, reverse=True),
        "before": tf.cumsum(finite_x, 1, exclusive=True),
        "behind": tf.cumsum(finite, 1, reverse=True),
        "product": tf.math.cumprod(finite, -1, exclusive=True),
        "std": tf.math.reduce_std(finite, [1, 2]),
    }


def sizes(tf: Any, x: Any, u: Any, k: Any) -> Made:
    """What a graph makes of the size of a batch."""
    batch = tf.shape(x)[0]
    token = tf.tile(tf.constant(floats(2, 1, 1, 4, special=False)), [batch, 1, 1])
    return {
        "token": tf.concat([token, u], 1),
        "ones": tf.ones([batch, 2]) * x[:, :2],
        "filled": tf.fill(tf.stack([batch, 3]), 2.5),
        "broadcast": tf.broadcast_to(tf.constant(np.float32([1, 2, 3])), [batch, 3]),
        "positions": tf.reshape(tf.range(batch), (-1, 1)),
        "share": x / tf.cast(batch, tf.float32),
        "flat": tf.reshape(u, [batch, -1]),
        "back": tf.reshape(tf.reshape(u, [-1, 4]) + 1.0, [-1, 3, 4]),
        "scaled": tf.matmul(u, u, transpose_b=True) / tf.sqrt(tf.cast(tf.shape(u)[-1], tf.float32)),
        "dense": tf.tensordot(u, tf.constant(floats(3, 4, 5, special=False)), [[2], [0]]),
        "lower": tf.linalg.band_part(tf.ones([3, 3]), -1, 0) * tf.matmul(u, u, transpose_b=True),
    }


@pytest.mark.parametrize("made", [cuts, picks, folds, sizes])
def test_shape_ops_equal_tensorflow(made: Any, tmp_path: Path) -> None:
    def build(tf: Any) -> tuple[Made, Made]:
        inputs = {
            "x": tf.compat.v1.placeholder(tf.float32, (None, 6), name="x"),
            "u": tf.compat.v1.placeholder(tf.float32, (None, 3, 4), name="u"),
            "k": tf.compat.v1.placeholder(tf.int64, (None, 6), name="k"),
        }
        return inputs, made(tf, **inputs)

    feeds = []
    for seed, rows in enumerate((7, 1, 0, 33)):
        generator = np.random.default_rng(seed)
        special = made is not sizes
        x, u = floats(seed, rows, 6, special=special), floats(seed + 9, rows, 3, 4, special=special)
        if made is picks:
            x = np.nan_to_num(x, nan=2.5)  # TensorFlow's top_k has no order for NaN
        feeds.append({"x": x, "u": u, "k": generator.integers(-4, 9, (rows, 6))})
    exact = (lambda name: name != "gated") if made in (cuts, picks) else (lambda name: "special" in name)
    check(tmp_path / "model", build, feeds, rtol=4e-6, exact=exact)
