"""Boundaries with a grid: the same ids as a binary search, a hair before, at and after every boundary."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.backends.cpu import CpuBackend, grid
from colonnade.core import dims
from colonnade.core.batch import Layout, Packed, Place
from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Field
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.bucketize import Bucketize

B = dims.symbol("B")
RNG = np.random.default_rng(7)
ODD = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 1.17549435e-38, -1.17549435e-38, 3.4e38, -3.4e38, 1.0, -1.0)
F32 = np.float32

BOUNDARIES = {
    "uniform": np.linspace(0, 500, 100),
    "around zero": np.linspace(-1, 1, 17),
    "two": [0.0, 1.0],
    "sixteen": np.arange(16),
    "quantiles": np.quantile(RNG.normal(size=5000), np.linspace(0.01, 0.99, 99)),
    "many": np.sort(RNG.uniform(-5, 5, 272)),
    "very many": np.linspace(-3, 7, 10_000),
    "one apart": [*np.nextafter(np.full(3, 5, F32), np.array([0, 5, 9], F32)), 6.0, 7.0, 100.0],
    "equal": [0.0, 1.0, 1.0, 1.0, 2.0, 3.0],
    "large": np.linspace(-1e15, 1e15, 50),
    "small": np.linspace(1e-15, 3e-15, 40),
    "far from zero": np.linspace(16777216, 16777300, 30),
    "zero and a denormal": [-1.0, -0.0, 1e-40, 1.0],
}
TREES = {
    "one": [1.0],
    "too many in a place": [1.0, 1.0, 1.0, 1.0, 1.0, 5.0],
    "decades": 10.0 ** np.arange(-10, 10),
    "endless": [-np.inf, 0.0, 1.0],
    "too wide": [-3e38, 0.0, 3e38],
    "too narrow": np.linspace(1e-30, 3e-30, 10),
    "denormals": [1e-40, 2e-40, 3e-40],
    "all equal": [2.0, 2.0],
}


def near(bounds: np.ndarray) -> np.ndarray:
    """Each boundary, its neighbours and theirs, what lies between two, and odd values."""
    up, down = (np.nextafter(bounds, F32(limit)) for limit in (np.inf, -np.inf))
    further = [np.nextafter(up, F32(np.inf)), np.nextafter(down, F32(-np.inf))]
    with np.errstate(over="ignore"):
        between = (bounds[:-1] / 2 + bounds[1:] / 2).astype(F32)
        random = RNG.normal(size=2000).astype(F32) * F32(np.abs(bounds[np.isfinite(bounds)]).max())
    return np.concatenate([bounds, up, down, *further, between, random, np.array(ODD, F32)])


def ids(bounds: np.ndarray, x: np.ndarray, width: int, flush: bool = False) -> np.ndarray:
    """As the engine finds them: of one element a row in one pass with the look-up, else by the tile."""
    op = Bucketize(Const(bounds), flush)
    x = np.resize(x, -(-len(x) // width) * width)
    rows = len(x) // width
    slot = Slot("o", 0, width)
    column = Column("c", Apply(op, Field("x")), "t", "none", slots=(slot,))
    program = Program((), (Table("t", len(bounds) + 1, 1),), (column,), (Buffer("o", B, width),), (), ())
    table = np.arange(len(bounds) + 1, dtype=F32).reshape(-1, 1)
    layout = Layout(B, {"x": Place("float32", 0, width)}, {"float32": width})
    columns = CpuBackend().compile(program, Weights({"t": table}, {}, {}), layout, id_policy="error", threads=1)
    out = {"o": np.full((rows, width), np.nan, F32)}
    columns.run(Packed(rows, {"float32": x}, np.empty(0, np.uint8), np.zeros(1, np.int64)), out)
    return out["o"].reshape(-1)


def expected(bounds: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), len(bounds), np.searchsorted(bounds, x, side="right"))


@pytest.mark.parametrize("name", [*BOUNDARIES, *TREES])
@pytest.mark.parametrize("width", [1, 2])
def test_ids_are_those_of_a_binary_search(name: str, width: int) -> None:
    bounds = np.asarray({**BOUNDARIES, **TREES}[name]).astype(F32)
    x = near(bounds)
    assert (grid.grid(bounds) is not None) == (name in BOUNDARIES)
    assert np.array_equal(ids(bounds, x, width)[: len(x)], expected(bounds, x))


@pytest.mark.parametrize("name", ["around zero", "zero and a denormal"])
def test_flushed_denormals_count_as_zero(name: str) -> None:
    bounds = np.asarray(BOUNDARIES[name]).astype(F32)
    x = near(bounds)
    assert np.array_equal(ids(bounds, x, 1, flush=True), expected(_flushed(bounds), _flushed(x)))


def test_the_fewest_comparisons_are_chosen() -> None:
    assert _compared(np.linspace(0, 500, 100)) == 1
    assert _compared(np.asarray(BOUNDARIES["equal"])) == 3
    assert _compared(np.asarray([0.0, 1.0])) == 1


def test_cells_never_decrease() -> None:
    line = np.array([-1.25, 37.7, 101], F32)
    x = np.sort(np.concatenate([RNG.normal(size=4000).astype(F32), np.array([-np.inf, np.inf], F32)]))
    places = grid.cell(x, line)
    assert (np.diff(places) >= 0).all()
    assert places[0] == 0
    assert places[-1] == 101
    assert grid.cell(np.array([np.nan], F32), line) == [101]


def _flushed(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < np.finfo(F32).tiny, F32(0), x)


def _compared(bounds: np.ndarray) -> int:
    found = grid.grid(bounds.astype(F32))
    assert found is not None
    return int(found[grid.COMPARED : grid.COMPARED + 8].view(np.int64)[0])
