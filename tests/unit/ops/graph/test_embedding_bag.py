"""`embedding_bag` is the tail of an embedding column in one op, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from colonnade.errors import GraphError
from colonnade.ops import graph
from colonnade.ops.op import GRAPH_OPS

graph.load()
TABLE = torch.from_numpy(np.random.default_rng(3).standard_normal((50, 5)).astype(np.float32))


def bag(pooling: str, ids: list[int], rows: list[int], count: int, default_row: int | None = None) -> torch.Tensor:
    op = GRAPH_OPS["embedding_bag"](pooling, default_row)
    made = op.reference(TABLE, torch.tensor(ids), torch.tensor(rows, dtype=torch.int64), torch.tensor(count))
    assert isinstance(made, torch.Tensor)
    return made


@pytest.mark.parametrize("pooling", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("seed", range(8))
def test_equals_fill_pool_and_select(pooling: str, seed: int) -> None:
    r = np.random.default_rng(seed)
    lengths = r.choice([0, 1, 3, 9, 10, 17], r.integers(0, 7))
    rows = np.repeat(np.arange(len(lengths)), lengths)
    ids = r.integers(0, 50, len(rows))
    indices = torch.from_numpy(np.stack([rows, np.zeros_like(rows)], 1))
    shape = torch.tensor([len(lengths), 1])
    fill = GRAPH_OPS["sparse_fill_empty_rows"]()
    filled, values, empty, _ = fill.reference(indices, torch.from_numpy(ids), shape, torch.tensor(0))
    pooled = GRAPH_OPS["sparse_segment_reduce"](pooling).reference(TABLE, values, filled[:, 0])
    want = torch.where(empty[:, None], torch.zeros(()), pooled)
    got = bag(pooling, ids.tolist(), rows.tolist(), len(lengths))
    assert got.shape == (len(lengths), 5) and torch.equal(got, want)
    defaulted = bag(pooling, ids.tolist(), rows.tolist(), len(lengths), default_row=7)
    assert torch.equal(defaulted, torch.where(empty[:, None], TABLE[7], pooled))


@pytest.mark.parametrize(
    ("ids", "rows", "count"),
    [([50], [0], 1), ([-1], [0], 1), ([1, 2], [1, 0], 2), ([1], [2], 2), ([1], [-1], 2), ([1, 2], [0], 1)],
)
def test_refuses(ids: list[int], rows: list[int], count: int) -> None:
    with pytest.raises(GraphError):
        bag("sum", ids, rows, count)


def test_a_default_row_outside_the_table_is_refused() -> None:
    with pytest.raises(GraphError):
        bag("sum", [1], [0], 2, default_row=50)
