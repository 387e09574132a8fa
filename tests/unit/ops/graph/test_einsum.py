"""Equations of `einsum` that are refused."""

from __future__ import annotations

import pytest

from colonnade.core import facts
from colonnade.errors import ShapeError
from colonnade.ops.graph.einsum import Einsum

MATRIX = facts.facts("float32", (2, 3))


@pytest.mark.parametrize(
    "equation", ["aa->a", "ab", "ab->ac", "ab->aab", "ab->...ab", "...ab->ab", "a1->a", "ab->a->b"]
)
def test_equations_that_are_refused(equation: str) -> None:
    with pytest.raises(ShapeError, match="einsum"):
        Einsum(equation).infer(MATRIX)


@pytest.mark.parametrize("equation", ["abc->a", "a->a", "abc...->a...", "ab,bc->ac"])
def test_operands_that_do_not_fit(equation: str) -> None:
    with pytest.raises(ShapeError, match="einsum"):
        Einsum(equation).infer(MATRIX)


def test_a_label_is_one_size() -> None:
    with pytest.raises(ShapeError, match="two sizes"):
        Einsum("ab,bc->ac").infer(MATRIX, MATRIX)
