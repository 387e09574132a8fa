"""Models saved with a number of rows: few elements are known one by one, many by a rule; both are read alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade.core import facts
from colonnade.testing.oracle import TensorFlowModel
from tests.oracle.tf_models import TARGETS, compiled, saved

Pooled = Callable[[Any, Any, Any], Any]
"""Of TensorFlow, a table of 10 rows and ids `[rows, 3]`."""
FORMS: dict[str, Pooled] = {
    "sum": lambda tf, t, x: tf.reduce_sum(tf.gather(t, x), 1),
    "mean": lambda tf, t, x: tf.reduce_mean(tf.gather(t, x), 1),
    "sparse": lambda tf, t, x: tf.nn.safe_embedding_lookup_sparse(t, tf.sparse.from_dense(x), combiner="sqrtn"),
    "masked": lambda tf, t, x: tf.reduce_sum(tf.where(tf.not_equal(x, 0)[..., None], tf.gather(t, x), 0.0), 1),
    "hot": lambda tf, t, x: tf.reduce_max(tf.one_hot(x, 10), 1),
    "rows": lambda tf, t, x: tf.gather(t, x),
    "hashed": lambda tf, t, x: tf.reduce_sum(
        tf.gather(t, tf.strings.to_hash_bucket_fast(tf.strings.as_string(x), 10)), 1
    ),
}


@pytest.mark.parametrize("rows", [1, 2, 5, 40])
@pytest.mark.parametrize("name", FORMS)
def test_a_fixed_number_of_rows(tmp_path: Path, name: str, rows: int) -> None:
    def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        x = tf.compat.v1.placeholder(tf.int64, [rows, 3], "x")
        return {"x": x}, {"out": FORMS[name](tf, tf.compat.v1.get_variable("t", (10, 4)), x)}

    path = saved(tmp_path / "m", build)
    feed = {"x": np.random.default_rng(rows).integers(0, 10, (rows, 3))}
    with TensorFlowModel(path) as model:
        want = model.run(feed)["out"]
    for target in TARGETS:
        executable = compiled(path, target)
        assert executable.program.columns
        np.testing.assert_allclose(executable(feed)["out"], want, rtol=1e-6, atol=1e-6, err_msg=target)


@pytest.mark.parametrize(
    "term", [facts.Term(1, 1, None), facts.Term(3, 4, None), facts.Term(-2, 1, 5), facts.Term(1, 2, 3)]
)
def test_numbers_one_by_one_are_told_by_the_same_rule(term: facts.Term) -> None:
    values = [7 + term.coefficient * (i // term.divisor % (term.modulus or 99)) for i in range(24)]
    known = facts.facts("int64", (24,), content=tuple(values))
    assert facts.as_indexed(known) == facts.indexed((term,), 7, 24)
    wrong = facts.facts("int64", (24,), content=(*values[:-1], values[-1] + 1))
    assert facts.as_indexed(wrong) is None
