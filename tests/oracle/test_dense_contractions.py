"""Products, sums of products and what stands around them in towers, against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.oracle.dense_models import check, floats

SHAPES = {"m": (6,), "u": (3, 4), "v": (3, 4), "w": (4, 5)}
Made = dict[str, Any]


def batch_products(tf: Any, x: Made) -> Made:
    dots = tf.matmul(x["u"], x["v"], transpose_b=True)
    return {
        "dots": dots,
        "plain": tf.matmul(x["u"], x["w"]),
        "first": tf.matmul(x["u"], x["v"], transpose_a=True),
        "shared": tf.matmul(x["u"], tf.constant(floats(3, 4, 2, special=False))),
        "shared_first": tf.matmul(tf.constant(floats(3, 5, 3, special=False)), x["u"]),
        "v1": tf.raw_ops.BatchMatMul(x=x["u"], y=x["v"], adj_y=True),
        "v3": tf.raw_ops.BatchMatMulV3(x=x["u"], y=x["w"], Tout=tf.float32),
        "lower": tf.linalg.band_part(dots, -1, 0),
        "upper": tf.linalg.band_part(dots, 0, -1),
        "strict": dots - tf.linalg.band_part(dots, -1, 0),
        "all": tf.linalg.band_part(dots, -1, -1),
        "three": tf.linalg.band_part(dots, 1, 1),
    }


def einsums(tf: Any, x: Made) -> Made:
    kernel = tf.constant(floats(4, 4, 2, 3, special=False))
    heads = tf.einsum("abc,cde->abde", x["u"], kernel)
    scores = tf.einsum("aecd,abcd->acbe", heads, heads)
    return {
        "heads": heads,
        "scores": scores,
        "context": tf.einsum("acbe,aecd->abcd", scores, heads),
        "joined": tf.einsum("abcd,cde->abe", heads, tf.constant(floats(5, 2, 3, 4, special=False))),
        "dot": tf.einsum("ab,ab->a", x["m"], x["m"]),
        "outer": tf.einsum("bi,bj->bij", x["m"], x["m"]),
        "moved": tf.einsum("abc->acb", x["u"]),
        "rest": tf.einsum("...i,ij->...j", x["u"], x["w0"]),
        "pairs": tf.einsum("bid,bjd->bij", x["u"], x["v"]),
    }


def add_n(tf: Any, x: Made) -> Made:
    return {"two": tf.add_n([x["u"], x["v"]]), "many": tf.add_n([x["m"] * float(k) for k in range(12)])}


def factorization(tf: Any, x: Made) -> Made:
    """The second-order terms of a factorization machine, a cross layer and normalised vectors."""
    squares = tf.square(tf.reduce_sum(x["u"], 1)) - tf.reduce_sum(tf.square(x["u"]), 1)
    kernel = tf.constant(floats(6, 6, 1, special=False))
    return {
        "fm": 0.5 * tf.reduce_sum(squares, 1, keepdims=True),
        "cross": x["m"] * tf.matmul(x["m"], kernel) + x["m"],
        "normal": tf.nn.l2_normalize(x["u"], axis=-1),
        "cosine": tf.reduce_sum(tf.nn.l2_normalize(x["u"], -1) * tf.nn.l2_normalize(x["v"], -1), -1),
        "l2": tf.norm(x["m"], axis=-1),
    }


def convolutions(tf: Any, x: Made) -> Made:
    kernel, plane = (tf.constant(floats(k, *shape, special=False)) for k, shape in ((8, (2, 4, 5)), (9, (3, 2, 1, 2))))
    image = tf.expand_dims(x["u"], 3)
    return {
        "valid": tf.nn.conv1d(x["u"], kernel, 1, "VALID"),
        "same": tf.nn.conv1d(x["u"], kernel, 2, "SAME"),
        "apart": tf.nn.conv1d(x["u"], kernel, 1, "VALID", dilations=2),
        "causal": tf.nn.conv1d(tf.pad(x["u"], [[0, 0], [1, 0], [0, 0]]), kernel, 1, "VALID"),
        "plane": tf.nn.conv2d(image, plane, 1, "SAME"),
        "strides": tf.nn.conv2d(image, plane, [1, 2, 1, 1], "SAME"),
        "largest": tf.reduce_max(tf.nn.relu(tf.nn.conv2d(image, plane, 1, "VALID")), [1, 2]),
    }


@pytest.mark.parametrize("made", [batch_products, einsums, add_n, factorization, convolutions])
def test_contractions_equal_tensorflow(made: Callable[[Any, Made], Made], tmp_path: Path) -> None:
    def build(tf: Any) -> tuple[Made, Made]:
        inputs = {k: tf.compat.v1.placeholder(tf.float32, (None, *s), name=k) for k, s in SHAPES.items()}
        outputs = made(tf, inputs | {"w0": tf.constant(floats(7, 4, 3, special=False))})
        read = {k: v for k, v in inputs.items()}
        return read, outputs

    feeds = [
        {k: floats(seed, rows, *s, special=False) for k, s in SHAPES.items()} for seed, rows in enumerate((5, 1, 0, 33))
    ]
    bad = {k: v.copy() for k, v in feeds[0].items()}
    for v in bad.values():
        v.reshape(-1)[:2] = (np.inf, np.nan)
    check(tmp_path / "model", build, [*feeds, bad], rtol=2e-5)
