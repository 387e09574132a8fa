"""Keys that say rows: a request may say no more of them than it has reason to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from colonnade.backends.feed_rows import RowReader
from colonnade.core import dims
from colonnade.core.rows import MOST_ROWS
from colonnade.errors import FeedError
from colonnade.ir.program import Input, Program, RowKeys

B, N, W = dims.symbol("B"), dims.symbol("N"), dims.symbol("W")
PROGRAM = Program(
    (
        Input("x", "int64", (N,), offsets="x.offsets"),
        Input("x.offsets", "int64", (dims.add(B, 1),)),
        Input("dense", "float32", (B, 2)),
    ),
    (),
    (),
    (),
    (),
    (),
    row_keys=(RowKeys("x.indices", "indices", "x.offsets", N, B, W, shape="x.shape"),),
)


def said(rows: int, dense: Any) -> int:
    feed = {"x": np.array([7]), "x.indices": [[0, 0]], "x.shape": [rows, 1], "dense": dense}
    _, sizes = RowReader(PROGRAM).fields(feed)
    return sizes["B"]


def test_rows_up_to_a_limit_or_those_of_another_input() -> None:
    assert said(3, np.zeros((3, 2))) == 3
    assert said(MOST_ROWS, None) == MOST_ROWS
    many = MOST_ROWS + 1
    assert said(many, np.broadcast_to(np.float32(0), (many, 2))) == many
    assert said(many, [None] * many) == many


@pytest.mark.parametrize("dense", [None, 3, np.array(5), np.zeros((2, 2)), [], "a"])
def test_a_dense_shape_of_more_rows_than_anything_has(dense: Any) -> None:
    with pytest.raises(FeedError, match=r"x\.indices: more rows than anything else in the request has"):
        said(2**40, dense)
