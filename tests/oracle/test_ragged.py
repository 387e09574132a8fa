"""Pooled ragged columns against TensorFlow's embedding_lookup_sparse of ragged ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from colonnade.backends.cpu.backend import CpuBackend
from colonnade.backends.reference import ReferenceBackend
from colonnade.core import dims
from colonnade.core.expr import Field
from colonnade.executable import Executable
from colonnade.ir.check_program import check
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Output, Program, Ref, Weights
from colonnade.ir.table import Table
from colonnade.testing.tensorflow import tensorflow

B, N = dims.symbol("B"), dims.symbol("N")
POOLINGS = ("sum", "mean", "sqrtn")
TABLE = np.random.default_rng(0).standard_normal((1000, 24)).astype(np.float32)


def executable(backend: Any) -> Executable:
    """The three poolings of one field, without and with weights."""
    kinds = [(p, w) for w in (None, Field("weight")) for p in POOLINGS]
    columns = tuple(
        Column(f"c{k}", Field("id"), "t", pooling, weights=weights, slots=(Slot("b", 24 * k, 24),))
        for k, (pooling, weights) in enumerate(kinds)
    )
    program = Program(
        inputs=(
            Input("id", "int64", (N,), offsets="splits"),
            Input("weight", "float32", (N,), offsets="splits"),
            Input("splits", "int64", (dims.add(B, 1),)),
        ),
        tables=(Table("t", 1000, 24),),
        columns=columns,
        buffers=(Buffer("b", B, 24 * len(kinds)),),
        dense=(),
        outputs=(Output("y", Ref("b"), "float32", (B, 24 * len(kinds))),),
    )
    check(program)
    return Executable(program, Weights({"t": TABLE}, {}, {}), backend, threads=2)


LENGTHS = {
    "short": [0, 1, 2, 8, 9, 10, 17, 0, 3, 0],
    "power_law": np.minimum(np.random.default_rng(1).zipf(1.4, 300) - 1, 10_000).tolist(),
    "one_huge": [0] * 40 + [10_000] + [1] * 30,
    "tiles": [511, 512, 513, 0, 1, 1023, 1024, 1025, 0],
    "all_empty": [0] * 70,
    "no_rows": [],
}


@pytest.mark.parametrize("backend", [ReferenceBackend(), CpuBackend()], ids=lambda b: b.name)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_pooling(backend: Any, lengths: list[int]) -> None:
    tf = tensorflow()
    rng = np.random.default_rng(len(lengths))
    splits = np.cumsum([0, *lengths])
    feed = {"id": rng.integers(0, 1000, splits[-1]), "splits": splits}
    feed["weight"] = rng.uniform(0, 2, splits[-1]).astype(np.float32)
    got = executable(backend)(feed)["y"].reshape(len(lengths), 6, 24)
    num_rows = 1 + max((k for k, n in enumerate(lengths) if n), default=-1)  # TensorFlow leaves out the last empty rows
    assert not got[num_rows:].any()
    if num_rows == 0:
        return
    ids, weights = (tf.RaggedTensor.from_row_splits(feed[name], splits) for name in ("id", "weight"))
    for k, pooling in enumerate(POOLINGS):
        want = tf.nn.embedding_lookup_sparse(TABLE, ids, None, combiner=pooling).numpy()
        same = np.array_equal if pooling != "sqrtn" else lambda a, b: np.allclose(a, b, rtol=5e-7, atol=0)
        assert same(got[:num_rows, k], want[:num_rows])
        want = tf.nn.embedding_lookup_sparse(TABLE, ids, weights, combiner=pooling).numpy()
        filled = np.array(lengths[:num_rows]) > 0
        assert np.allclose(got[:num_rows, 3 + k][filled], want[:num_rows][filled], rtol=1e-4, atol=1e-4)
