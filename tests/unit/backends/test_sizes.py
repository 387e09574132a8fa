from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.backends.sizes import ShapeBinder, dim_function
from colonnade.core import dims
from colonnade.core.dims import Dim

B, T = dims.symbol("B"), dims.symbol("T")
DIMS: list[Dim] = [
    7,
    B,
    dims.add(B, 3),
    dims.mul(B, T),
    dims.add(dims.mul(2, B), T, -1),
    dims.maximum(B, T),
    dims.floor_divide(B, 4),
    dims.mul(dims.add(B, 1), T),
    dims.parse("ceil_div(B, 3)"),
    dims.parse("B**2"),
]


@given(st.sampled_from(DIMS), st.integers(0, 50), st.integers(0, 50))
def test_a_dim_function_is_evaluate(dim: Dim, b: int, t: int) -> None:
    assert dim_function(dim)({"B": b, "T": t}) == dims.evaluate(dim, {B: b, T: t})


def test_a_half_is_exact_or_an_error() -> None:
    half = dim_function(dims.parse("B/2"))
    assert half({"B": 6}) == 3
    with pytest.raises(ValueError, match="whole number"):
        half({"B": 7})


def test_binding() -> None:
    binder = ShapeBinder((B, 3, dims.mul(2, B)))
    sizes: dict[str, int] = {}
    assert binder.bind((5, 3, 10), sizes) and sizes == {"B": 5}
    assert binder.fits_derived((5, 3, 10), sizes) and not binder.fits_derived((5, 3, 9), sizes)
    assert not binder.bind((6, 3, 12), sizes)
    assert not binder.bind((5, 4, 10), sizes)
    assert not binder.bind((5, 3), sizes)
