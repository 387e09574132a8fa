"""Facts that do not hold of a value are found, and those of the stored models hold at every stage."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.core.facts import Facts, Order, iota
from colonnade.frontends.tensorflow.importer import import_saved_model
from colonnade.ir.graph import Graph
from colonnade.ir.infer import infer
from colonnade.ops.graph.bucketize import Bucketize
from colonnade.passes.base import run
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing import golden
from colonnade.testing.check_facts import check_facts, value_of
from colonnade.testing.graphs import Builder

FEED = {"x": torch.tensor([[5.0], [0.5], [7.0]])}
WRONG: dict[str, Callable[[Facts], Facts]] = {
    "lo": lambda f: f.but(lo=1),
    "hi": lambda f: f.but(hi=1),
    "dtype": lambda f: f.but(dtype="int64"),
    "shape": lambda f: f.but(shape=(dims.symbol("B"), 2)),
    "content": lambda f: f.but(content=iota(dims.symbol("B"))),
    "values": lambda f: f.but(content=(1, 1, 2)),
    "order": lambda f: f.but(order=Order.NONDECREASING),
    "distinct": lambda f: f.but(distinct=True),
}


def graph() -> Graph:
    b = Builder()
    b.graph.set_outputs({"y": b.add(Bucketize(Const(np.float32([1, 6]))), b.input("x", "float32", "B", 1))})
    infer(b.graph)
    return b.graph


def test_true_facts() -> None:
    check_facts(graph(), FEED)
    check_facts(graph(), {"x": FEED["x"][:0]})


@pytest.mark.parametrize("kind", WRONG)
def test_one_wrong_fact(kind: str) -> None:
    found = graph()
    node = found.outputs["y"]
    node.meta["facts"] = WRONG[kind](node.meta["facts"])
    feed = {"x": torch.tensor([[5.0], [0.5], [5.0]])} if kind == "distinct" else FEED
    with pytest.raises(AssertionError, match="bucketize"):
        check_facts(found, feed)


def test_facts_of_a_stored_model_hold_before_and_after_the_passes() -> None:
    stored = golden.load("tiny")
    found = import_saved_model(stored.model).graph
    feeds = [
        {key: value_of(value) for key, value in stored.case(name).feed.items()} for name in ("ordinary-1", "corner-7")
    ]
    for passes in ((), COLUMNS):
        run(passes, found)
        for feed in feeds:
            check_facts(found, feed)
