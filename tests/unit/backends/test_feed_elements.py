"""Choices of an element of each of several fields: what is made of a request, and what is left to who names it."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.backends.feed_elements import ElementInputs
from colonnade.backends.feed_values import Unusual
from colonnade.ir.text import parse_program

PROGRAM = """colonnade program 1
input a: int64[N] offsets a.offsets
input a.offsets: int64[{B + 1}]
input b: int64[B, 2]
input c.0: int64[M] of a choice 0 among (a, b) offsets c.offsets
input c.1: int64[M] of b choice 1 among (a, b) offsets c.offsets
input c.offsets: int64[{B + 1}] of a choice 0 among (a, b)
"""
FEED = {"a": np.array([1, 2, 3]), "a.offsets": np.array([0, 2, 2, 3]), "b": np.arange(6).reshape(3, 2)}
WRAPPED = [0, 2**62, 2**63 - 1, -(2**63), -(2**62), 0, 3]
"""They fall, and no difference is below 0 in int64."""


def test_each_choice_of_one_of_each() -> None:
    made = ElementInputs(parse_program(PROGRAM, {})).added(FEED, {})
    assert made["c.0"].tolist() == [1, 1, 2, 2, 3, 3]
    assert made["c.1"].tolist() == [0, 1, 0, 1, 4, 5]
    assert made["c.offsets"].tolist() == [0, 4, 4, 6]


@pytest.mark.parametrize("ends", [[0, 2, 1, 3], [1, 2, 3], [0, 2, 4], [], WRAPPED])
def test_offsets_that_say_no_rows_are_left_to_who_names_them(ends: list[int]) -> None:
    b = np.zeros((max(0, len(ends) - 1), 2), np.int64)
    with pytest.raises(Unusual, match="offsets"):
        ElementInputs(parse_program(PROGRAM, {})).added(FEED | {"a.offsets": np.array(ends, np.int64), "b": b}, {})
