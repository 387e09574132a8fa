"""What a transform gives: the ids of every feature, and the numbers of dense ones.

Legend: B batch rows, N elements of all features, D width of a dense feature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from colonnade.core.ragged import Ragged


@dataclass(frozen=True, eq=False)
class Transformed:
    """The features of one batch, in the order of the feature set.

    sparse: of every feature that is not dense: int64 values with offsets and weights (floats, or an object array of
    strings, of a feature whose elements these are).   dense: float32 `[B, D]`.
    ids: int64 `[N]`: the values of all integer features, one after the other; those in `sparse` are views of it.
    """

    rows: int
    sparse: Mapping[str, Ragged]
    dense: Mapping[str, torch.Tensor]
    ids: torch.Tensor


@dataclass(frozen=True)
class LookedUp:
    """What an engine takes of a transform. numbers: int64 [F], the features that it looks up.   lists: which of these
    have lists that are pooled one by one, by their place among them.   wanted: the features that it reads besides.
    """

    numbers: npt.NDArray[np.int64]
    lists: tuple[int, ...]
    wanted: tuple[int, ...]


def joined(rows: int, sparse: Mapping[str, Ragged], dense: Mapping[str, torch.Tensor]) -> Transformed:
    """With the ids of all features put into one tensor."""
    parts = {name: x.values for name, x in sparse.items() if _is_int(x.values)}
    ids = torch.cat([torch.empty(0, dtype=torch.int64), *parts.values()])
    views = dict(zip(parts, views_of(ids, [len(p) for p in parts.values()]), strict=True))
    made = {name: Ragged(views.get(name, x.values), x.offsets, x.weights) for name, x in sparse.items()}
    return Transformed(rows, made, dense, ids)


def views_of(flat: torch.Tensor, counts: Sequence[int]) -> Sequence[torch.Tensor]:
    """A flat tensor cut into parts that follow one another."""
    return torch.split_with_sizes(flat, list(counts)) if counts else ()


def _is_int(values: object) -> bool:
    return isinstance(values, torch.Tensor) and not values.is_floating_point()
