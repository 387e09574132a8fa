"""What `explain` says of columns in a user's words, and how much of their part of the source is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from colonnade import compiler
from colonnade.cli.explain import _zero_sections
from colonnade.ir.program import Weights
from colonnade.ir.text import parse_program
from colonnade.testing.explain import details, kind_of, skipped_zeros
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


ZEROS = """colonnade program 1
input i: int64[B, 1]
input f: float32[B, 24]
table "identity[40]": float32[40, 40]
param m: float32[32, 64]
param n: float32[32, 32]
buffer x: float32[B, 64]
column i = mod[divisor=40](%i) -> table "identity[40]" pool sum -> x[0:40]
%x1 = colonnade.place(%f, %x, 40)
%h = aten.linear.default(%x1, %m)  # from first
%r = aten.relu.default(%h)
%y = aten.linear.default(%r, %n)
%z = aten.sigmoid.default(%y)
output z: float32[B, 32] = %z
"""


def test_zeros_that_are_skipped_are_said() -> None:
    program = parse_program(ZEROS, {})
    params = {"m": torch.ones(32, 64), "n": torch.ones(32, 32)}
    tables = {"identity[40]": np.eye(40, dtype=np.float32)}
    (found,) = skipped_zeros(program, Weights(tables, params, {}))
    assert (found["product"], found["source"], found["elements"], found["skipped"]) == ("h", "first", 64, 40)
    assert (found["ranges"], found["columns"]) == ([[0, 40]], ["i"])
    ((title, _, rows, _),) = _zero_sections({"skipped_zeros": [found]})
    assert rows == [("h", found["of"], 64, 40, "0 to 40", "i", "first")] and "zeros" in title
    two = np.ones((40, 40), np.float32)
    assert not skipped_zeros(program, Weights({"identity[40]": two}, params, {}))
    params["m"][:, 3] = torch.inf
    assert not skipped_zeros(program, Weights(tables, params, {}))
    assert not _zero_sections({"skipped_zeros": []})


def test_operators_of_the_embedding_graph_are_counted(models: Models) -> None:
    program, weights, explanation, _ = compiler.lower(Path(models.old), small_models.SIGNATURE)
    found = details(program, explanation, weights)
    # At least a lookup a column is left; nothing that only holds a value counts as an operator.
    assert len(program.columns) <= found["embedding_after"] < found["embedding_before"] < found["source_nodes"]
    assert found["embedding_share_removed"] == 1 - found["embedding_after"] / found["embedding_before"]
    assert sum(k["columns"] for k in found["kinds"]) == len(program.columns)
