"""Square roots are rounded to the nearest, and so are the divisors of `sqrtn`."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from colonnade.core.pooling import pool
from colonnade.core.roots import nearest_sqrt

COUNTS = range(1, 600)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_roots_are_the_nearest(dtype: torch.dtype) -> None:
    got = nearest_sqrt(torch.tensor([float(n) for n in COUNTS], dtype=dtype))
    # A root in double, rounded once more to float32, is the nearest float32.
    assert got.equal(torch.tensor([math.sqrt(n) for n in COUNTS], dtype=torch.float64).to(dtype))


def test_no_number_below_zero() -> None:
    assert nearest_sqrt(torch.tensor([-1.0, math.inf, 0.0])).isnan().tolist() == [True, False, False]


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_any_length_are_divided_by_the_nearest_root(weighted: bool) -> None:
    for n in COUNTS:
        weights = torch.ones(n) if weighted else None
        got = pool(torch.ones(n, 1), torch.zeros(n, dtype=torch.int64), weights, "sqrtn", 1)
        root = np.float32(math.sqrt(n))
        want = np.float32(n) / root if weighted or n > 9 else np.float32(n) * (np.float32(1) / root)
        assert got.item() == (want if n > 1 or weighted else 1.0)
