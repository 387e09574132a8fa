"""Ragged inputs that columns read together share offsets."""

from __future__ import annotations

import pytest

from colonnade.core import dims
from colonnade.core.expr import Field
from colonnade.ir.column import Column
from colonnade.ir.program import Input
from colonnade.passes.decode_inputs import aligned

ROWS = dims.add(dims.symbol("B"), 1)
LISTED = [
    each
    for name in "abwz"
    for each in (
        Input(name, "int64", (dims.symbol(f"N{name}"),), offsets=f"{name}.offsets"),
        Input(f"{name}.offsets", "int64", (ROWS,)),
    )
]
DENSE = Input("d", "float32", (dims.symbol("B"), 1))


def weighted(ids: str, weights: str) -> Column:
    return Column(ids + weights, Field(ids), "t", weights=Field(weights))


@pytest.mark.parametrize(
    ("columns", "read", "offsets"),
    [
        ([], set(), {"a": "a", "b": "b", "w": "w", "z": "z"}),
        ([weighted("a", "w")], set(), {"a": "a", "b": "b", "w": "a", "z": "z"}),
        ([weighted("a", "w"), weighted("b", "w")], set(), {"a": "b", "b": "b", "w": "b", "z": "z"}),
        ([weighted("a", "w"), weighted("b", "z"), weighted("a", "z")], set(), {"a": "a", "b": "a", "w": "a", "z": "a"}),
        ([weighted("a", "w")], {"w.offsets"}, {"a": "w", "b": "b", "w": "w", "z": "z"}),
        ([weighted("a", "w")], {"a.offsets", "w.offsets"}, {"a": "a", "b": "b", "w": "w", "z": "z"}),
    ],
)
def test_offsets_are_those_of_one(columns: list[Column], read: set[str], offsets: dict[str, str]) -> None:
    made = aligned([*LISTED, DENSE], columns, read)
    found = {i.name: i.offsets for i in made if i.offsets is not None}
    names = {i.name for i in made}
    assert found == {name: f"{leader}.offsets" for name, leader in offsets.items()}
    assert set(found.values()) <= names and "d" in names
    assert {n for n in names if n.endswith(".offsets")} == set(found.values())
