"""Branches, assertions and loops: folded where sizes and constants decide, checked, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade
from colonnade.compiler import lower
from colonnade.errors import UnsupportedOps
from colonnade.frontends.tensorflow.importer import SEVERAL_OUTPUTS
from colonnade.frontends.tensorflow.rules import RULES
from colonnade.frontends.tensorflow.spellings import SPELLINGS
from colonnade.testing.tensorflow import tensorflow
from tests.oracle.dense_models import check, floats
from tests.oracle.tf_models import saved

Made = dict[str, Any]


def given(tf: Any) -> Any:
    return tf.compat.v1.placeholder(tf.float32, (None, 4), name="x")


def unsupported(tf: Any, x: Any) -> Any:
    return tf.raw_ops.InvGrad(y=x, dy=x)


def sizes_decide(tf: Any) -> tuple[Made, Made]:
    x = given(tf)
    wide = tf.cond(tf.equal(tf.shape(x)[1], 4), lambda: x * 2.0, lambda: unsupported(tf, x))
    rank = tf.cond(tf.equal(tf.rank(x), 3), lambda: (unsupported(tf, x), x), lambda: (x + 1.0, x))
    index = tf.switch_case(tf.shape(x)[1] - 3, [lambda: unsupported(tf, x), lambda: x - 1.0, lambda: x])
    outside = tf.switch_case(tf.constant(7), [lambda: unsupported(tf, x), lambda: x * 3.0])
    return {"x": x}, {"wide": wide, "rank": rank[0] + rank[1], "index": index, "outside": outside}


def training_is_off(tf: Any) -> tuple[Made, Made]:
    """Switch and Merge of TensorFlow 1; nothing feeds the flag."""
    x = given(tf)
    flag = tf.compat.v1.placeholder_with_default(False, (), name="is_training")
    dropped = tf.compat.v1.cond(flag, lambda: unsupported(tf, x), lambda: x * 0.5)
    inner = tf.compat.v1.cond(
        tf.logical_not(flag), lambda: tf.compat.v1.cond(flag, lambda: x, lambda: x - 2.0), lambda: x
    )
    return {"x": x}, {"dropped": dropped, "inner": inner + dropped}


def asserted(tf: Any) -> tuple[Made, Made]:
    x = given(tf)

    @tf.function
    def body(x: Any) -> Any:
        tf.debugging.assert_less(x, 1000.0, message="x is large")
        tf.debugging.assert_equal(tf.shape(x)[1], 4)
        return tf.nn.relu(x)

    with tf.control_dependencies([tf.debugging.assert_greater_equal(x, -1000.0)]):
        other = tf.identity(x) + 1.0
    return {"x": x}, {"out": body(x), "other": other, "third": x * 2.0}


def numerics(tf: Any) -> tuple[Made, Made]:
    x = given(tf)
    return {"x": x}, {"out": tf.debugging.check_numerics(x, "x") * 2.0, "shape": tf.ensure_shape(x, (3, None)) + 1.0}


def feeds() -> list[Made]:
    made = [{"x": np.nan_to_num(floats(seed, rows, 4), nan=1, posinf=5, neginf=-5)} for seed, rows in ((1, 3), (2, 0))]
    made.append({"x": np.clip(floats(3, 3, 4, special=False), -9, 9)})
    return [*made, {"x": np.float32([[1, 2, 1001, 3]] * 3)}, {"x": np.float32([[1, np.nan, 3, -2000]] * 3)}]


@pytest.mark.parametrize("v1", [False, True])
@pytest.mark.parametrize("build", [sizes_decide, training_is_off, asserted, numerics])
def test_control_flow_equals_tensorflow(build: Callable[[Any], tuple[Made, Made]], v1: bool, tmp_path: Path) -> None:
    tf = tensorflow()
    if v1 == (build is not training_is_off):
        return
    before = tf.compat.v1.control_flow_v2_enabled()
    if v1:
        tf.compat.v1.disable_control_flow_v2()
    try:
        check(tmp_path / "model", build, feeds())
    finally:
        if before:
            tf.compat.v1.enable_control_flow_v2()


def test_what_is_proven_is_not_checked(tmp_path: Path) -> None:
    program, *_ = lower(saved(tmp_path / "model", asserted))
    assert [line.op for line in program.dense].count("colonnade.guard") == 2


def data_decide(tf: Any, x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: -x)


def loop(tf: Any, x: Any) -> Any:
    return tf.while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, y * 2.0), (0, x))[1]


@pytest.mark.parametrize(("build", "said"), [(data_decide, "only the data decide"), (loop, "While")])
def test_what_is_refused_is_named_with_the_outputs_it_feeds(build: Any, said: str, tmp_path: Path) -> None:
    def model(tf: Any) -> tuple[Made, Made]:
        x = given(tf)
        made = build(tf, x)
        return {"x": x}, {"a": made, "b": made + 1.0, "fine": x * 2.0, "bits": unsupported(tf, x)}

    path = saved(tmp_path / "model", model)
    with pytest.raises(UnsupportedOps) as caught:
        colonnade.compile(path, target="reference")
    assert said in caught.value.got and "feeds a, b" in caught.value.got
    assert "(InvGrad) feeds bits" in caught.value.got and "--outputs fine" in caught.value.help
    made = colonnade.compile(path, target="reference", outputs=["fine"])
    assert made({"x": np.ones((2, 4), np.float32)})["fine"].tolist() == [[2.0] * 4] * 2


def test_ops_of_one_output_have_one() -> None:
    from tensorflow.python.framework import op_def_registry

    found = {name: op_def_registry.get(name) for name in (SPELLINGS.keys() | RULES.keys()) - SEVERAL_OUTPUTS}
    several = {name for name, made in found.items() if made is not None and len(made.output_arg) != 1}
    assert not several
    listed = {n for n, made in found.items() if made is not None and made.output_arg and made.output_arg[0].number_attr}
    assert not listed
