"""New rows: the loops against numpy's reference, against torch's moments, and by key alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from colonnade.errors import OptionError
from colonnade.train.initializers import Constant, Initializer, Kaiming, Normal, TruncatedNormal, Uniform, Xavier
from colonnade.train.initializers.initializer import draw_key, reference
from colonnade.train.tables.layout import Layout
from colonnade.train.tables.store import Fresh, Store

EXTREMES = [-1, 0, 1, 2**63 - 1, -(2**63), -2, 2**32, 2**32 - 1]
ALL: list[Initializer] = [
    Constant(0.25),
    Uniform(-0.3, 0.7),
    Normal(1.0, 2.0),
    TruncatedNormal(0.5, 0.1, -0.5, 2.0),
    Xavier(1000),
    Xavier(1000, normal=True),
    Kaiming(),
    Kaiming(500, 1.0, True),
]


def rows_of(initializer: Initializer, ids: np.ndarray, embedding_dim: int, key: str = "a", seed: int = 0) -> np.ndarray:
    fresh = Fresh(1, draw_key(seed, key), initializer.draw(embedding_dim), np.zeros(0, np.float32))
    store = Store("s", Layout(embedding_dim), [fresh])
    keys = store.keys(0, ids)
    rows, _ = store.find(keys)
    store.insert(keys, rows)
    return store.gather(keys, rows)


@pytest.mark.parametrize("initializer", ALL, ids=str)
@pytest.mark.parametrize("embedding_dim", [1, 3, 8, 17])
def test_rows_are_those_of_the_reference(initializer: Initializer, embedding_dim: int) -> None:
    rng = np.random.default_rng(0)
    ids = np.concatenate([np.array(EXTREMES), rng.integers(-(2**63), 2**63 - 1, 300)])
    made = rows_of(initializer, ids, embedding_dim)
    want = reference(initializer.draw(embedding_dim), draw_key(0, "a"), ids, embedding_dim)
    if initializer.draw(embedding_dim).kind < 2:
        np.testing.assert_array_equal(made, want)
    else:
        np.testing.assert_array_max_ulp(made, want, 2)


@pytest.mark.parametrize("initializer", ALL[1:], ids=str)
def test_rows_have_the_moments_of_their_distribution(initializer: Initializer) -> None:
    x = rows_of(initializer, np.arange(20_000), 8).astype(np.float64)
    draw = initializer.draw(8)
    if draw.kind == 1:
        mean, std = (draw.a + draw.b) / 2, (draw.b - draw.a) / math.sqrt(12)
        assert draw.a <= x.min() and x.max() <= draw.b
    elif draw.kind == 2:
        mean, std = draw.a, draw.b
    else:
        want = torch.nn.init.trunc_normal_(
            torch.empty(200_000), draw.a, draw.b, draw.a - draw.b / 2, draw.a + 2 * draw.b
        )
        mean, std = float(want.mean()), float(want.std())
        assert draw.a + draw.low * draw.b <= x.min() and x.max() <= draw.a + draw.high * draw.b
    assert abs(x.mean() - mean) < 0.02 * std and abs(x.std() - std) < 0.02 * std
    assert abs(np.corrcoef(x.T) - np.eye(8)).max() < 0.05
    assert len(np.unique(x[:, 0])) > 19_000


def test_fans_are_torchs() -> None:
    weight = torch.empty(300, 16)
    bounds = {
        torch.nn.init.xavier_uniform_(weight, 2.0).abs().max().item(): Xavier(300, 2.0).draw(16).b,
        torch.nn.init.kaiming_uniform_(weight).abs().max().item(): Kaiming().draw(16).b,
        torch.nn.init.kaiming_uniform_(weight, mode="fan_out").abs().max().item(): Kaiming(300).draw(16).b,
    }
    assert all(0.99 * bound < most <= bound for most, bound in bounds.items())


def test_rows_depend_on_seed_key_and_id_alone() -> None:
    ids = np.array([5, 3, 9])
    a = rows_of(Normal(), ids, 4)
    np.testing.assert_array_equal(a[::-1], rows_of(Normal(), ids[::-1].copy(), 4))
    assert not np.isin(a, rows_of(Normal(), ids, 4, key="b")).any()
    assert not np.isin(a, rows_of(Normal(), ids, 4, seed=1)).any()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Uniform(1.0, 1.0),
        lambda: Uniform(0.0, math.inf),
        lambda: Normal(0.0, 0.0),
        lambda: TruncatedNormal(low=5.0, high=6.0),
        lambda: TruncatedNormal(low=1.0, high=-1.0),
        lambda: Xavier(-1),
        lambda: Kaiming(0),
    ],
)
def test_what_draws_nothing_is_refused(make: object) -> None:
    with pytest.raises(OptionError):
        make()  # type: ignore[operator]
