"""The reference backend pools in TensorFlow's order: unweighted results are bit-equal, weighted ones close."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import torch

from colonnade.core.pooling import pool

SIZES = (1, 2, 3, 5, 8, 9, 10, 11, 16, 17, 18, 25, 40, 69, 100)
SEGMENTS = {
    "sum": tf.sparse.segment_sum,
    "mean": tf.sparse.segment_mean,
    "sqrtn": tf.sparse.segment_sqrt_n,
}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dim", [1, 3, 8, 33])
def test_unweighted(n: int, dim: int) -> None:
    vectors = np.random.default_rng(n).standard_normal((n, dim)).astype(np.float32)
    rows = torch.zeros(n, dtype=torch.int64)
    for pooling, segment in SEGMENTS.items():
        want = segment(vectors, np.arange(n, dtype=np.int32), np.zeros(n, np.int32)).numpy()
        assert pool(torch.from_numpy(vectors), rows, None, pooling, 1).numpy().tobytes() == want.tobytes()
    want = tf.math.segment_max(vectors, np.zeros(n, np.int32)).numpy()
    assert pool(torch.from_numpy(vectors), rows, None, "max", 1).numpy().tobytes() == want.tobytes()


@pytest.mark.parametrize("n", SIZES)
def test_weighted(n: int) -> None:
    rng = np.random.default_rng(n)
    vectors = rng.standard_normal((n, 8)).astype(np.float32)
    weights = rng.uniform(0.1, 2, n).astype(np.float32)
    places = [[0, i] for i in range(n)]
    ids = tf.sparse.SparseTensor(places, list(range(n)), [1, n])
    factors = tf.sparse.SparseTensor(places, weights, [1, n])
    for pooling in SEGMENTS:
        want = tf.nn.embedding_lookup_sparse(vectors, ids, factors, combiner=pooling).numpy()
        got = pool(
            torch.from_numpy(vectors), torch.zeros(n, dtype=torch.int64), torch.from_numpy(weights), pooling, 1
        ).numpy()
        np.testing.assert_allclose(got, want, rtol=0, atol=4e-7 * n)
