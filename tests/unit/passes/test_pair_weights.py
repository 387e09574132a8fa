"""Weights that are paired with dense ids: what requests are held to, and graphs that are by a hair another thing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.unique import Unique
from colonnade.ops.graph.where import Where
from colonnade.passes.pair_weights import PairWeights
from colonnade.testing.graphs import Builder, check_passes

IDS = torch.tensor([[3, -1], [0, 4], [-1, -1]])
WEIGHTS = torch.tensor([[0.5, 0], [2, float("nan")], [-0.0, 1e-45]])


def built(
    missing: int = -1,
    zero: float = 0.0,
    kind: str = "ne",
    shape: tuple[int | str, ...] = ("b1", 2),
    mask_of_ids: bool = False,
    dtype: str = "int64",
    of_ids: tuple[int | str, ...] = ("b0", 2),
) -> Any:
    b = Builder()
    x, y = (b.input("ids", dtype, *of_ids), b.input("weights", "float32", *shape))
    x, y = (v if len(s) == 2 else b.add(ExpandDims(), v, np.int32(1)) for v, s in ((x, of_ids), (y, shape)))
    lacks = b"" if dtype == "string" else np.dtype(dtype).type(missing)
    places = b.add(Where(), b.add(Compare("ne"), x, np.array(lacks, object) if dtype == "string" else lacks))
    of_weights = b.add(Where(), b.add(Compare(kind, flush_denormals=True), y, np.float32(zero)))
    ids = b.add(GatherNd(), x, places)
    weights = b.add(GatherNd(), y, places if mask_of_ids else of_weights)
    unique = b.add(Unique(), ids)
    rows = b.add(Gather(), b.add(Gather(), b.table("t", 5, 3), b.item(unique, 0), 0), b.item(unique, 1), 0)
    return b.done(y=b.add(Mul(), rows, b.add(Reshape(), weights, [-1, 1])))


def test_weights_are_taken_where_the_ids_are() -> None:
    graph = built()
    assert list(check_passes(graph, [PairWeights()], [{"ids": IDS, "weights": WEIGHTS}]).applied())
    assert graph.agreements == {("ids", "weights"): (-1, 0.0)}
    assert len({n for n in graph.nodes() if isinstance(n.target, Where)}) == 1
    rows = {graph.inputs[key].meta["facts"].shape[0] for key in ("ids", "weights")}
    assert len(rows) == 1


def test_vectors_are_one_value_a_row() -> None:
    graph = built(of_ids=("b0",), shape=("b1",))
    feed = {"ids": torch.tensor([3, -1, 0]), "weights": torch.tensor([0.5, 0, 2])}
    assert list(check_passes(graph, [PairWeights()], [feed]).applied())
    assert graph.agreements == {("ids", "weights"): (-1, 0.0)}


@pytest.mark.parametrize(
    "other",
    [
        {"zero": 1.0},
        {"zero": 1e-45},
        {"kind": "gt"},
        {"shape": ("b1", 3)},
        {"shape": ("b1", "T")},
        {"shape": (3, 2)},
        {"shape": ("b1",), "of_ids": ("b0", 1)},
        {"shape": ("b1", 1), "of_ids": ("b0",)},
    ],
)
def test_by_a_hair(other: dict[str, Any]) -> None:
    graph = built(**other)
    log = check_passes(graph, [PairWeights()], [])
    assert not list(log.applied()) and not graph.agreements and len(list(log.rejected())) == 1


def test_one_mask_for_both_needs_nothing() -> None:
    graph = built(mask_of_ids=True)
    assert not check_passes(graph, [PairWeights()], [{"ids": IDS, "weights": WEIGHTS}]).events
    assert not graph.agreements
