"""What `explain` says of columns in a user's words, and how much of their part of the source is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from colonnade import compiler
from colonnade.ir.text import parse_program
from colonnade.testing.explain import details, kind_of
from tests.unit import small_models
from tests.unit.small_models import Models

HASH = "mod[divisor=10](hash_bytes[function=farm](%s))"
TOKENS = 'mod[divisor=10](hash_bytes[function=farm](split[separator=b";"](%s)))'
BUCKETS = "bucketize[boundaries=float32[2](0.0, 1.0), flush_denormals=true](%f)"


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    yield from small_models.models()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (f"{HASH} -> table t pool mean", "hash, mean"),
        (f"{TOKENS} -> table t pool sqrtn", "hash of tokens, sqrtn"),
        (f"{BUCKETS} -> table t pool sum", "buckets, sum"),
        (f'{BUCKETS} -> table "identity[10]" pool sum', "indicator of buckets"),
        ("%i -> table t pool sum", "ids, sum"),
        ("%i weight %f -> table t pool sum", "ids, weighted, sum"),
        ("mod[divisor=10](hash_decimal[function=farm](%i)) -> table t pool sum", "hash of integers, sum"),
        ("%f -> value pool sum", "numeric"),
    ],
)
def test_kinds_are_read_off_columns(line: str, kind: str) -> None:
    text = f"""colonnade program 1
input i: int64[B, 1]
input f: float32[B, 1]
input s: string[B, 1]
table t: float32[10, 1]
table "identity[10]": float32[10, 1]
buffer b: float32[B, 1]
column c = {line} -> b[0:1]
"""
    (column,) = parse_program(text, {}).columns
    assert kind_of(column) == kind


def test_operators_of_the_embedding_graph_are_counted(models: Models) -> None:
    program, _, explanation, _ = compiler.lower(Path(models.old), small_models.SIGNATURE)
    found = details(program, explanation)
    # At least a lookup a column is left; nothing that only holds a value counts as an operator.
    assert len(program.columns) <= found["embedding_after"] < found["embedding_before"] < found["source_nodes"]
    assert found["embedding_share_removed"] == 1 - found["embedding_after"] / found["embedding_before"]
    assert sum(k["columns"] for k in found["kinds"]) == len(program.columns)
