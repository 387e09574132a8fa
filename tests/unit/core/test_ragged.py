from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.core.ragged import Ragged
from colonnade.errors import FeedError


@given(st.lists(st.lists(st.integers(-5, 5), max_size=4)))
def test_rows_and_back(rows: list[list[int]]) -> None:
    ragged = Ragged.from_rows(rows, np.int64)
    assert len(ragged) == len(rows)
    assert ragged.to_rows() == rows
    assert ragged.lengths.tolist() == [len(r) for r in rows]


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ([0, 2], "offsets[1] is 2, but there are 3 values"),
        ([0, 4], "offsets[1] is 4, but there are 3 values"),
        ([1, 3], "offsets[0] is 1, want 0"),
        ([0, 2, 1, 3], "offsets[2] is 1, less than offsets[1] = 2"),
        ([], "want int64[B + 1]"),
    ],
)
def test_offsets_that_do_not_fit(offsets: list[int], said: str) -> None:
    with pytest.raises(FeedError, match="offsets do not fit") as caught:
        Ragged(np.zeros(3), np.array(offsets, np.int64))
    assert said in caught.value.got


def test_every_broken_rule_is_listed() -> None:
    with pytest.raises(FeedError) as caught:
        Ragged(np.zeros(3), np.array([1, 0, 2], np.int64))
    assert len(caught.value.got.splitlines()) == 3


def test_offsets_are_int64() -> None:
    with pytest.raises(FeedError, match="int32"):
        Ragged(np.zeros(2), np.array([0, 2], np.int32))  # type: ignore[arg-type]
