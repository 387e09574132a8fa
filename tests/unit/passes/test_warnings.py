"""Warnings: a program that triggers each, and one by a hair that does not."""

from __future__ import annotations

import pytest

from colonnade.ir.explanation import Explanation, Notice
from colonnade.ir.text import parse_program
from colonnade.passes.pipelines import WARNINGS
from colonnade.passes.warnings.base import warnings_of

EXACT = 2**24


def said(*columns: tuple[str, str, str], rows: int = 10) -> list[Notice]:
    """What is said of columns, each with its ids, table and buffer."""
    lines = [
        "colonnade program 1",
        "input i: int64[B, 1]",
        "input f: float32[B, 1]",
        "input d: float64[B, 1]",
        "input s: string[B, 1]",
        f"table t: float32[{rows}, 4]",
        "table u: float32[10, 4]",
        "buffer b: float32[B, 16]",
        "buffer b2: float32[B, 16]",
    ]
    for k, (ids, table, buffer) in enumerate(columns):
        lines.append(f"column c{k} = {ids} -> table {table} pool sum -> {buffer}[{4 * k}:{4 * k + 4}]")
    return list(warnings_of(parse_program("\n".join(lines) + "\n", {}), WARNINGS))


def of(ids: str, rows: int = 10) -> list[Notice]:
    """What is said of one column."""
    return said((ids, "t", "b"), rows=rows)


def kinds(notices: list[Notice]) -> list[str]:
    return [n.kind for n in notices]


FLOAT = "cast[to=int64](cast[to=float32](%i))"
WITHIN = "replace_outside[lo={lo}, hi={hi}, default=0](%i)"


@pytest.mark.parametrize(
    ("ids", "rows", "warned"),
    [
        ("mod[divisor=9](cast[to=int64](cast[to=float32](%i)))", 9, True),
        ("mod[divisor=9](cast[to=int64](cast[to=float64](%i)))", 9, False),
        (f"cast[to=int64](cast[to=float32]({WITHIN.format(lo=0, hi=EXACT)}))", EXACT + 1, False),
        (f"cast[to=int64](cast[to=float32]({WITHIN.format(lo=0, hi=EXACT + 1)}))", EXACT + 1, True),
        (f"cast[to=int64](cast[to=float32]({WITHIN.format(lo=-EXACT - 1, hi=0)}))", 10, True),
        ("bucketize[boundaries=float32[2](0.5, 1.5), flush_denormals=true](cast[to=float32](%i))", 3, False),
        ("cast[to=int64](%f)", EXACT + 1, False),
        ("cast[to=int64](%f)", EXACT + 2, True),
        ("cast[to=int32](%f)", EXACT + 2, True),
        ("cast[to=int64](%d)", EXACT + 2, False),
        (f"replace_outside[lo=0, hi={EXACT}, default=0](cast[to=int64](%f))", EXACT + 2, False),
        ("%i", EXACT + 2, False),
    ],
)
def test_float_ids(ids: str, rows: int, warned: bool) -> None:
    found = of(ids, rows)
    assert kinds(found) == ["float-ids"] * warned
    assert all("column 'c0'" in n.where and n.help for n in found)


@pytest.mark.parametrize(("key", "warned"), [(EXACT, False), (EXACT + 1, True), (-EXACT - 1, True)])
def test_words_that_float32_has_not(key: int, warned: bool) -> None:
    ids = f"vocabulary[keys=int64[2](1, {key}), values=int64[2](0, 1), default=0, num_oov=0](cast[to=int64](%f))"
    assert kinds(of(ids)) == ["float-ids"] * warned


BUCKETS = "cast[to=int64](bucketize[boundaries=float32[4](0.0, 1.0, 2.0, 3.0), flush_denormals=true](%f))"


@pytest.mark.parametrize(
    ("ids", "warned"),
    [
        (f"mod[divisor=5](hash_decimal[function=farm]({BUCKETS}))", False),
        (f"mod[divisor=6](hash_decimal[function=farm]({BUCKETS}))", True),
        (f"mod[divisor=10](hash_decimal[function=farm]({WITHIN.format(lo=0, hi=9)}))", False),
        (f"mod[divisor=11](hash_decimal[function=farm]({WITHIN.format(lo=0, hi=9)}))", True),
        (f"mod[divisor=25](join_hash({BUCKETS}, {BUCKETS}))", False),
        (f"mod[divisor=26](join_hash({BUCKETS}, {BUCKETS}))", True),
        (f"mod[divisor=26](join_hash({BUCKETS}, hash_bytes[function=farm](%s)))", False),
        ("mod[divisor=1000000](hash_decimal[function=farm](%i))", False),
        ("mod[divisor=1000000](hash_bytes[function=farm](%s))", False),
        (f"mod[divisor=10](hash_decimal[function=farm](add_position[stride=5, width=2]({BUCKETS})))", False),
        (f"mod[divisor=11](hash_decimal[function=farm](add_position[stride=5, width=2]({BUCKETS})))", True),
    ],
)
def test_idle_buckets(ids: str, warned: bool) -> None:
    found = of(ids, 10**6)
    assert kinds(found) == ["idle-buckets"] * warned


HASHED = "mod[divisor=10](hash_bytes[function=farm](%s))"


def test_identical_columns() -> None:
    assert kinds(said((HASHED, "t", "b"), (HASHED, "t", "b"))) == ["identical-columns"]
    (three,) = said(*[(HASHED, "t", "b")] * 3)
    assert three.where.splitlines() == ["column 'c0'", "column 'c1'", "column 'c2'"]
    # Another table, other data, or another tower.
    assert not said((HASHED, "t", "b"), (HASHED, "u", "b"))
    assert not said((HASHED, "t", "b"), (HASHED.replace("10", "9"), "t", "b"))
    assert not said((HASHED, "t", "b"), (HASHED, "t", "b2"))


def test_explanations_keep_warnings() -> None:
    given = Explanation(warnings=(Notice("a-kind", "what", "where", "got", "", "help"),))
    assert Explanation.from_json(given.to_json()) == given
    assert str(given.warnings[0]).startswith("a-kind: what\n  where  where")
