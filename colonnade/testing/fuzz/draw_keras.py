"""One random case of Keras layers: ids of an input, or of a place of it, looked up, counted or marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from colonnade.testing.fuzz.cases import Attributes, Case, Draw, Input, Tower, placed

Rng = np.random.Generator

KINDS = {"hashing": "hash", "embedded": "identity", "lookup": "vocabulary", "discretized": "bucketized"}
"""Keras layers, each with the feature column whose attributes it has."""
OTHERS = ("encoded", "hashed_cross")
FORMS = ("flat", "marks", "pooled", "sequence")
"""`flat`: vectors side by side.   `marks`: one-hots, counts and the like, without a table.   `pooled`: one vector of
several.   `sequence`: several, of which a pooled one is an output as well."""
MODES = ("multi_hot", "count", "tf_idf")
"""What `marks` of several ids are; those of one id are one-hots as well."""
POOLINGS = ("masked", "mean", "sum", "max")
"""`masked`: the mean of vectors but that of id 0."""
SIZED = ("hashing", "embedded", "hashed_cross")
"""Kinds of as many ids as their size says."""
MOST_FLAT, MOST_MARKED = 3, 100
_OF_DTYPE = {
    "string": ("hashing", "lookup", "hashed_cross"),
    "float": ("discretized", "numeric"),
    "int": ("hashing", "embedded", "lookup", "discretized", "encoded", "hashed_cross", "numeric"),
}
_MARKED = {"hashing": MODES[:2], "lookup": MODES, "discretized": MODES[:2], "encoded": MODES[:2], "hashed_cross": ()}


def keras_case(
    rng: Rng, number: int, tower: Tower, item: Input, inputs: Sequence[Input], draw: Mapping[str, Draw], dim: int
) -> Case | None:
    """A case of that input, now and then of some places of it; None where it has none.

    draw: what gives the attributes of a kind, by its name.
    """
    if item.separator:
        return None
    place, span = _places(rng, item)
    kind = str(rng.choice(_OF_DTYPE[item.dtype.rstrip("0123456789")]))
    if kind == "numeric":
        if not tower.plain:
            return None
        return Case(number, tower.number, item.name, kind, "plain", item.dtype, place=place, span=span)
    case = Case(number, tower.number, item.name, kind, "", item.dtype, place=place, span=span)
    case = replace(case, **_attributes(rng, case, draw))
    found = _crossed(rng, case, item, inputs) if kind == "hashed_cross" else case
    return None if found is None else _formed(rng, found, placed(item, case).width, dim)


def keras_sharing(rng: Rng, case: Case, cases: Sequence[Case]) -> Case:
    """The case with the layer of an earlier one, where there is one."""
    masked = case.pooling == "masked"
    found = [c for c in cases if c.kind in SIZED and c.form != "marks" and (c.pooling == "masked") == masked]
    if not found or case.kind not in SIZED or case.form == "marks":
        return case
    other = found[int(rng.integers(len(found)))]
    table = other.number if other.table < 0 else other.table
    return replace(case, size=other.size, embedding_dim=other.embedding_dim, table=table)


def _places(rng: Rng, item: Input) -> tuple[int, int]:
    """One place of a matrix's rows, some places, or (-1, 0): all of it."""
    if item.width < 2 or rng.random() < 0.7:
        return -1, 0
    place = int(rng.integers(item.width))
    return place, int(rng.integers(min(MOST_FLAT, item.width - place) + 1))


def _attributes(rng: Rng, case: Case, draw: Mapping[str, Draw]) -> Attributes:
    found = draw[KINDS.get(case.kind, "identity")](rng, case.dtype)
    found.pop("default", None)
    if case.kind == "lookup":
        found["oov_buckets"] = int(rng.choice((0, 1, 1, 2, 5)))
    if case.kind in ("hashing", "lookup") and rng.random() < 0.5:
        found["mask"] = "" if case.dtype == "string" else int(rng.choice((-1, 0)))
    if case.kind == "hashing" and rng.random() < 0.4:
        found["salt"] = int(rng.integers(1, 1 << 40))
    if case.kind == "lookup":
        apart = ("x\0", -1, found.get("mask"))  # numpy takes the first for "x"; -1 is an unknown integer
        words = tuple(w for w in found["words"] if w not in apart)
        found["words"] = words or (("a",) if case.dtype == "string" else (7,))
        found["file"] = case.dtype == "string" and "" not in words and rng.random() < 0.2
    return found


def _crossed(rng: Rng, case: Case, item: Input, inputs: Sequence[Input]) -> Case | None:
    """With one or two other inputs of the same shape: vectors are refused without rows, so of one column."""
    found = [i.name for i in inputs if i.width == 1 and not i.dtype.startswith("float") and i != item]
    if placed(item, case).width != 1 or not found:
        return None
    others = tuple(found[k] for k in rng.permutation(len(found))[: int(rng.integers(1, 3))])
    return replace(case, others=others)


def _formed(rng: Rng, case: Case, width: int, dim: int) -> Case | None:
    forms = ["flat"] * (2 * (width <= MOST_FLAT)) + ["pooled", "sequence"] * (width > 1)
    modes = [*(_MARKED.get(case.kind, ()) if width else ()), *(("one_hot",) if width <= 1 else ())]
    if case.kind == "encoded":
        forms = []
    if case.kind != "embedded":
        forms += ["marks"] if modes else []
    if not forms or (case.kind == "hashed_cross" and width > 1):
        return None
    form = str(rng.choice(forms))
    if form == "marks":
        mode = str(rng.choice(modes))
        weights = f"w{case.number}" if case.kind == "encoded" and mode == "count" and rng.random() < 0.5 else ""
        return replace(case, form=form, mode=mode, size=min(case.size, MOST_MARKED), weights=weights)
    masked = form == "pooled"
    pooling = "" if form == "flat" else str(rng.choice(POOLINGS if masked else POOLINGS[1:]))
    return replace(case, form=form, embedding_dim=dim, pooling=pooling)
