"""One random case of plain ops: ids of an input, looked up, pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from colonnade.testing.fuzz.cases import MOST_ADDED, Case, Draw, Input, Tower
from colonnade.testing.fuzz.encode import LISTS
from colonnade.testing.fuzz.strings import JOINED, STEPS

Rng = np.random.Generator

LOOKUPS = ("row", "rows", "bag", "raw", "one_hot", "sequence", "padded", "nested", "values")
"""`row`: one id a row.   `rows`: several, each with its vector.   `bag`, `raw`: pooled, by
`safe_embedding_lookup_sparse` and by `embedding_lookup_sparse`.   `one_hot`: no table.   `sequence`: `rows` that are an
output as well.   `padded`: words, padded to the longest row and masked.   `nested`: of rows of rows.   `values`:
several values a place."""
REDUCTIONS = ("flat", "sum", "mean", "max", "min", "prod", "first", "last", "transposed", "masked", "attention")
"""What makes one vector of a row's vectors."""
OPEN = ("sum", "mean", "max", "min", "transposed", "masked", "attention")
"""Those that do with any number of them."""
POOLINGS = ("mean", "sum", "sqrtn")
_KINDS = {
    "string": ("hash", "vocabulary"),
    "float": ("bucketized",),
    "int": ("hash", "identity", "modulo", "vocabulary"),
}
_LOOKUPS: Mapping[str, Sequence[str]] = {
    "open": ("rows", "rows", "sequence", "bag"),
    "single": ("row",),
    "sparse": ("bag", "raw"),
    "ragged": ("bag", "raw", "sequence"),
    "nested": ("nested",),
}
LABELLED = ("identity", "modulo")
"""Kinds whose ids may have names in an output: numbers made of numbers."""
LABELS = ("gather", "table")
MOST_ONE_HOT = 64
VALUES = ("mean", "sum", "max", "masked")
"""What makes one vector of the values of a place."""
PLAIN_TABLES = ("one_hot", "padded", "nested")
"""Lookups whose table, if they have one, is one variable as it is."""


def ops_case(
    rng: Rng, number: int, tower: Tower, given: Input, inputs: Sequence[Input], draw: Mapping[str, Draw], dim: int
) -> Case:
    """A case of that input, now and then of some places of it. draw: the attributes of a kind, by its name."""
    place, span = _places(rng, given)
    item = given if place < 0 else replace(given, width=span)
    case = replace(_ops_case(rng, number, tower, item, draw, dim), place=place, span=span)
    if case.kind == "hash" and rng.random() < 0.2:
        case = replace(case, salt=int(rng.integers(1, 1 << 40)))
    if case.kind in LABELLED and item.form == "dense" and case.form != "bag" and rng.random() < 0.4:
        case = replace(case, label=str(rng.choice(LABELS[: 1 + item.dtype.startswith("int")])))
    plain = item.dtype == "string" and item.form == "dense" and not item.separator and place < 0
    return _prepared(rng, case, item, inputs) if plain and rng.random() < 0.3 else case


def _places(rng: Rng, item: Input) -> tuple[int, int]:
    """One place of a matrix's rows, some places, or (-1, 0): all of it."""
    if item.form != "dense" or item.width < 2 or rng.random() < 0.75:
        return -1, 0
    place = int(rng.integers(item.width))
    return place, int(rng.integers(item.width - place + 1))


def _prepared(rng: Rng, case: Case, item: Input, inputs: Sequence[Input]) -> Case:
    """Of strings that are made of the input, or of it and another."""
    found = [i for i in inputs if i.dtype == "string" and (i.form, i.width, i.separator) == ("dense", item.width, "")]
    found = [i for i in found if i.name != item.name]
    steps = tuple(str(s) for s in rng.choice([s for s in STEPS if found or s != JOINED], int(rng.integers(1, 4))))
    others = (found[int(rng.integers(len(found)))].name,) if JOINED in steps else ()
    return replace(case, prep=steps, others=others)


def _ops_case(rng: Rng, number: int, tower: Tower, item: Input, draw: Mapping[str, Draw], dim: int) -> Case:
    kinds = _KINDS[item.dtype.rstrip("0123456789")]
    kind = str(rng.choice((*kinds, "bucketized") if item.dtype.startswith("int") else kinds))
    form = str(rng.choice(_forms(item)))
    if form == "numeric" and not tower.plain:
        form = "row"
    if form == "one_hot" and item.width > 1 and kind not in ("identity", "modulo"):
        form = "rows"  # ids of several values that are made into one-hots are no column yet
    if form == "numeric":
        return Case(number, tower.number, item.name, "numeric", "plain", item.dtype)
    attributes = draw["identity" if kind == "modulo" else kind](rng, item.dtype)
    if kind == "modulo":
        attributes["default"] = None
    case = Case(number, tower.number, item.name, kind, form, item.dtype, embedding_dim=dim, **attributes)
    if kind == "vocabulary" and form not in ("bag", "one_hot") and case.default is None and not case.oov_buckets:
        case = replace(case, default=0)  # an unknown word has no row
    case = replace(case, pooling=_pooling(rng, case, item), rows=_ids(case))
    if form == "values":
        case = replace(case, mode=str(rng.choice(VALUES)))
    if form == "one_hot":
        return replace(case, size=min(case.size, MOST_ONE_HOT), rows=min(case.rows, MOST_ONE_HOT))
    if form == "bag" and kind == "identity" and rng.random() < 0.3:
        return replace(case, default=int(rng.integers(case.rows)))
    return case


def _forms(item: Input) -> Sequence[str]:
    if item.separator:
        return ("bag", "padded")
    if item.form != "dense":  # no float of an open width is missing
        found = _LOOKUPS[item.form]
        return [f for f in found if f != "bag"] if item.form == "open" and item.dtype.startswith("float") else found
    bags = () if item.dtype.startswith("float") else ("bag",)
    if item.width > 1:
        places = () if item.dtype.startswith("float") else ("values",)
        return ("rows", "rows", "one_hot", "sequence", *places, *bags, *bags)
    return ("row", "row", "row", "one_hot", "numeric" if item.dtype != "string" else "row", *bags)


def _pooling(rng: Rng, case: Case, item: Input) -> str:
    if case.form in ("bag", "raw"):
        return str(rng.choice(POOLINGS))
    if case.form in ("row", "padded", "nested", "values") or (case.form == "one_hot" and not item.width):
        return ""
    known = REDUCTIONS if item.form == "dense" and case.form != "sequence" else OPEN
    if item.width > MOST_ADDED:
        return str(rng.choice(("max", "min")))
    masked = item.form not in LISTS
    return str(rng.choice([r for r in known if r != "masked" or masked]))


def both_ways(case: Case, cases: Sequence[Case]) -> bool:
    """Whether an input is read both with and without the number of its rows, which is refused."""
    forms = {c.form for c in cases if case.input in c.reads}
    counted = {"bag", "sequence"}
    return "raw" in forms if case.form in counted else case.form == "raw" and bool(forms & counted)


def sharing(rng: Rng, case: Case, cases: Sequence[Case]) -> Case:
    """The case over the table of an earlier one that is large enough, where there is one."""
    if not case.rows or case.form == "one_hot":
        return case
    found = [c for c in cases if c.rows >= case.rows and c.form not in ("one_hot", "plain")]
    found = [c for c in found if case.form not in PLAIN_TABLES or c.parts == 1]
    if not found:
        return case
    other = found[int(rng.integers(len(found)))]
    table = other.number if other.table < 0 else other.table
    return replace(case, rows=other.rows, embedding_dim=other.embedding_dim, parts=other.parts, table=table)


def made(rng: Rng, case: Case) -> Case:
    """Now and then with a table of several variables, or with rows that are scaled to a norm."""
    if not case.rows or case.form in PLAIN_TABLES:
        return case
    if case.rows > 1 and rng.random() < 0.1:
        case = replace(case, parts=int(rng.integers(2, min(case.rows, 5) + 1)))
    return replace(case, max_norm=float(rng.choice((0.5, 1.0)))) if rng.random() < 0.1 else case


def weighted(rng: Rng, case: Case, item: Input) -> Case:
    """Now and then with a weight for each id."""
    if case.form not in ("bag", "raw") or item.form not in LISTS or rng.random() < 0.6:
        return case
    return replace(case, weights=f"w{case.number}")


def _ids(case: Case) -> int:
    """How many ids there may be."""
    if case.kind == "bucketized":
        return len(case.boundaries) + 1
    return len(case.words) + case.oov_buckets if case.kind == "vocabulary" else case.size
