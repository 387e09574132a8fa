"""Lookups in the parts of a table: what is one lookup, and graphs that are by a hair not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import GraphError
from colonnade.ir.interpret import interpret
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.dynamic_partition import DynamicPartition
from colonnade.ops.graph.dynamic_stitch import DynamicStitch
from colonnade.ops.graph.floor_div import FloorDiv
from colonnade.ops.graph.floor_mod import FloorMod
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.join_shards import sizes
from colonnade.ops.graph.maximum import Maximum
from colonnade.ops.graph.range import Range
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.size import Size
from colonnade.ops.graph.sub import Sub
from colonnade.passes.base import Log, run
from colonnade.passes.drop_guards import DropGuards
from colonnade.passes.drop_identities import DropIdentities
from colonnade.passes.drop_selects import DropSelects
from colonnade.passes.merge_shards import MergeShards
from colonnade.testing.graphs import Builder, check_passes


def built(heights: tuple[int, ...], strategy: str, **wrong: int) -> Any:
    """A lookup as TensorFlow writes it; wrong: what is off, and by how much."""
    b = Builder()
    ids = b.input("ids", "int64", "N")
    count, total = len(heights), sum(heights)
    least, extra = divmod(total, count)

    def number(value: int, what: str) -> np.int64:
        return np.int64(value + wrong.get(what, 0))

    if strategy == "mod":
        part = b.add(FloorMod(), ids, number(count, "modulus"))
        within = b.add(FloorDiv(), ids, number(count, "divisor"))
    else:
        rest = b.add(Sub(), ids, number(extra, "extra"))
        part = b.add(
            Maximum(),
            b.add(FloorDiv(), ids, number(least + 1, "longer")),
            b.add(FloorDiv(), rest, number(least, "shorter")),
        )
        first = b.add(Compare("lt"), part, number(extra, "border"))
        longer = b.add(FloorMod(), ids, number(least + 1, "longer rest"))
        within = b.add(Select(v1=True), first, longer, b.add(FloorMod(), rest, number(least, "shorter rest")))
    part = b.add(Cast("int32"), part)
    counted = b.add(Range(), np.int32(wrong.get("start", 0)), b.add(Size("int32"), ids), np.int32(1))
    places, dealt = b.add(DynamicPartition(count), counted, part), b.add(DynamicPartition(count), within, part)
    order = list(range(count))
    if wrong.get("order"):
        order[0], order[-1] = order[-1], order[0]
    rows = [
        b.add(Gather(), b.table(f"t/part_{k}", height, 3, seed=k), b.item(dealt, order[k]), 0)
        for k, height in enumerate(heights)
    ]
    return b.done(y=b.add(DynamicStitch(), *(b.item(places, k) for k in range(count)), *rows))


def reasons(log: Log, applied: bool) -> list[str]:
    return [e.reason for e in log.events if e.applied == applied]


@given(st.integers(2, 6), st.integers(0, 20), st.sampled_from(["div", "mod"]), st.integers(0, 2**32))
def test_ids_of_the_whole_table_are_its_rows(count: int, more: int, strategy: str, seed: int) -> None:
    total = count + more
    graph = built(sizes(total, count), strategy)
    ids = torch.from_numpy(np.random.default_rng(seed).integers(0, total, 17))
    log = check_passes(graph, [MergeShards()], [{"ids": ids}, {"ids": torch.arange(total)}, {"ids": ids[:0]}])
    assert len(reasons(log, True)) == 1


@pytest.mark.parametrize("strategy", ["div", "mod"])
@pytest.mark.parametrize("total", [8, 9, 12])
def test_after_cleaning(total: int, strategy: str) -> None:
    graph = built(sizes(total, 4), strategy)
    cleaned = [DropIdentities(), DropGuards(), DropSelects(), MergeShards()]
    log = check_passes(graph, cleaned, [{"ids": torch.arange(total)}])
    assert [e for e in log.applied() if e.pass_name == "merge-shards"]


@pytest.mark.parametrize("what", ["longer", "shorter", "shorter rest"])
def test_after_cleaning_by_a_hair(what: str) -> None:
    graph = built(sizes(8, 4), "div", **{what: 1})
    log = run([DropIdentities(), DropSelects(), MergeShards()], graph)
    assert not [e for e in log.applied() if e.pass_name == "merge-shards"]


@pytest.mark.parametrize("strategy", ["div", "mod"])
@pytest.mark.parametrize("bad", [-1, -2, -8, 11, 12, 99, 2**31 - 1])
def test_errors_stay_errors(strategy: str, bad: int) -> None:
    graph = built(sizes(11, 4), strategy)
    feed = {"ids": torch.tensor([0, bad])}
    with pytest.raises(GraphError):
        interpret(graph, feed)
    assert reasons(run([MergeShards()], graph), True)
    with pytest.raises(GraphError):
        interpret(graph, feed)


@pytest.mark.parametrize(
    ("strategy", "wrong"),
    [
        ("mod", {"modulus": -1}),
        ("mod", {"divisor": 1}),
        ("mod", {"order": 1}),
        *(
            ("div", {what: 1})
            for what in ("extra", "longer", "shorter", "border", "longer rest", "shorter rest", "order", "start")
        ),
    ],
)
def test_by_a_hair(strategy: str, wrong: dict[str, int]) -> None:
    log = run([MergeShards()], built(sizes(11, 4), strategy, **wrong))
    assert not reasons(log, True) and len(reasons(log, False)) == 1


@pytest.mark.parametrize("strategy", ["div", "mod"])
def test_parts_of_other_sizes_are_no_table(strategy: str) -> None:
    """Eleven rows in four parts are 3, 3, 3 and 2."""
    for heights in ((3, 3, 2, 3), (4, 3, 2, 2)):
        assert reasons(run([MergeShards()], built(heights, strategy)), False)


def test_no_row_in_a_part() -> None:
    with pytest.raises(GraphError):  # of one id, which is divided by 0
        interpret(built((1, 0), "div"), {"ids": torch.tensor([0])})
    assert not reasons(run([MergeShards()], built((1, 0), "div")), True)
