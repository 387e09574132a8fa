"""Serialized Examples against TensorFlow's parser: random features, and random, odd and damaged bytes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from colonnade.core.examples import Feature
from colonnade.errors import FeedError
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.testing.tensorflow import tensorflow
from tests.unit.ops.graph import examples

KINDS = ("dense", "steps", "sparse", "ragged")


def _tensorflow(op: ParseExample, rows: list[bytes]) -> list[Any] | None:
    tf = tensorflow()
    sparse, dense, ragged = op.of("sparse"), op.of("dense", "steps"), op.of("ragged")
    try:
        made = tf.raw_ops.ParseExampleV2(
            serialized=tf.constant(rows, tf.string),
            names=tf.constant([], tf.string),
            sparse_keys=tf.constant([f.key for f in sparse], tf.string),
            dense_keys=tf.constant([f.key for f in dense], tf.string),
            ragged_keys=tf.constant([f.key for f in ragged], tf.string),
            dense_defaults=[tf.constant([] if f.default is None else f.default.array, f.dtype) for f in dense],
            num_sparse=len(sparse),
            sparse_types=[f.dtype for f in sparse],
            ragged_value_types=[f.dtype for f in ragged],
            ragged_split_types=[f.splits for f in ragged],
            dense_shapes=[[None, *f.shape] if f.kind == "steps" else f.shape for f in dense],
        )
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError):  # its message quotes bytes that are no text
        return None
    return [x.numpy() for group in made for x in group]


def _check(features: tuple[Feature, ...], rows: list[bytes]) -> bool:
    """Whether both answered, equally; False where both refused."""
    op = ParseExample(features)
    serialized = np.empty(len(rows), object)
    serialized[:] = rows
    try:
        got: Any = op.reference(serialized)
    except FeedError:
        got = None
    want = _tensorflow(op, rows)
    what = f"{features}\n{rows}\nours {got}\nTensorFlow {want}"
    assert (got is None) == (want is None), what
    if got is None or want is None:
        return False
    for a, b in zip(got if op.num_outputs > 1 else [got], want, strict=True):
        a = np.asarray(a)
        assert a.dtype == b.dtype and a.shape == b.shape, what
        same = a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
        assert same, what
    return True


def test_examples_as_they_come() -> None:
    answered = 0
    for seed in range(150):
        r = random.Random(seed)
        features = examples.wanted(r, KINDS)
        answered += _check(features, [examples.serialized(r, features, damage=0) for _ in range(r.randint(0, 5))])
    assert answered > 100


def test_damaged_examples() -> None:
    answered = 0
    for seed in range(600):
        r = random.Random(f"damaged {seed}")
        features = examples.wanted(r, KINDS)
        row = examples.serialized(r, features, damage=1)
        for _ in range(r.choice([0, 0, 1, 3])):
            row = examples.damaged(r, row)
        answered += _check(features, [row])
    assert 80 < answered < 520


@pytest.mark.parametrize("kind", KINDS)
def test_no_examples(kind: str) -> None:
    r = random.Random(kind)
    assert _check(examples.wanted(r, (kind,)), [])
