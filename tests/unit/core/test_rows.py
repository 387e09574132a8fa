"""Rows of an index matrix, and of splits: how many a few numbers may say, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.core.rows import MOST_ROWS, rows_of_indices, rows_of_nested, rows_of_splits
from colonnade.errors import FeedError

NONE = np.zeros((0, 2), np.int64)


@pytest.mark.parametrize("rows", [MOST_ROWS + 1, 2**40, 2**62])
@pytest.mark.parametrize("by", ["shape", "element"])
def test_a_number_alone_takes_no_memory(rows: int, by: str) -> None:
    with pytest.raises(FeedError, match="more rows than anything else in the request has"):
        if by == "shape":
            rows_of_indices(NONE, np.array([rows, 1]))
        else:
            rows_of_indices(np.array([[rows - 1, 0]]), None)


def test_rows_that_others_have_too() -> None:
    assert rows_of_indices(NONE, np.array([MOST_ROWS, 1])).num_rows == MOST_ROWS
    assert rows_of_indices(NONE, np.array([MOST_ROWS + 5, 1]), most=MOST_ROWS + 5).num_rows == MOST_ROWS + 5
    assert rows_of_indices(NONE, np.array([5, 1]), most=0 + 5).offsets.tolist() == [0] * 6
    few = np.array([[k, 0] for k in range(4)])
    assert rows_of_indices(few, np.array([4, 1]), most=0).num_rows == 4
    with pytest.raises(FeedError, match="at most 4 rows"):
        rows_of_indices(few, np.array([5, 1]), most=0)


@pytest.mark.parametrize("bits", [32, 64])
def test_splits_fall_whatever_their_differences_wrap_to(bits: int) -> None:
    most, half = 2 ** (bits - 1) - 1, 2 ** (bits - 2)
    splits = np.array([0, half, most, -most - 1, -half, 0, 3], f"int{bits}")
    assert (np.diff(splits) >= 0).all()
    with pytest.raises(FeedError, match=f"(?s)splits fall.*{-most - 1} at place 3, behind {most}"):
        rows_of_splits(splits, False)


def test_rows_of_rows_have_the_elements_of_theirs() -> None:
    inner = rows_of_splits(np.array([0, 1, 1, 4, 5]), False)
    outer = rows_of_splits(np.array([0, 2, 4, 4]), False)
    assert rows_of_nested(outer, inner, False).offsets.tolist() == [0, 1, 5, 5]
    assert rows_of_nested(outer, inner, True).offsets.tolist() == [0, 1, 5]
    with pytest.raises(FeedError, match="do not end with the rows"):
        rows_of_nested(rows_of_splits(np.array([0, 5]), False), inner, False)
