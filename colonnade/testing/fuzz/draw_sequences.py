"""One random case of sequence feature columns: padded vectors of a sparse input's elements, not pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from colonnade.testing.fuzz.cases import MOST_ADDED, Case, Draw, Input, Tower

Rng = np.random.Generator

REDUCTIONS = ("sum", "mean", "max", "counted", "attention")
"""What makes one vector of a row's vectors; `counted`: the mean of as many as the row has."""
POOLINGS = ("mean", "sum", "sqrtn")
_KINDS = {"string": ("hash", "vocabulary"), "int64": ("hash", "identity", "vocabulary"), "float32": ("numeric",)}


def sequence_case(
    rng: Rng, number: int, tower: Tower, item: Input, inputs: Sequence[Input], draw: Mapping[str, Draw], dim: int
) -> Case | None:
    """A case of that input; None where it has none. draw: the attributes of a kind, by its name."""
    if item.dtype not in _KINDS or item.form != "sparse":
        return None
    kind, mode = str(rng.choice(_KINDS[item.dtype])), str(rng.choice(REDUCTIONS))
    mode = mode if item.width <= MOST_ADDED else "max"
    case = Case(number, tower.number, item.name, kind, "plain", item.dtype, mode=mode)
    if kind == "numeric":
        return replace(case, default=int(rng.integers(-2, 3))) if tower.plain else None
    case = replace(case, **draw[kind](rng, item.dtype))
    if rng.random() < 0.25:
        return replace(case, form="indicator")
    case = replace(case, form="embedding", embedding_dim=dim, pooling=str(rng.choice(POOLINGS)))
    others = [i.name for i in inputs if (i.dtype, i.form) == (item.dtype, item.form) and i != item]
    if others and rng.random() < 0.15:
        return replace(case, form="shared", others=(others[int(rng.integers(len(others)))],))
    return replace(case, max_norm=0.5) if rng.random() < 0.05 else case
