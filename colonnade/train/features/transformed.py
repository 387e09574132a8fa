"""What a transform gives: the ids of every feature, and the numbers of dense ones.

Legend: B batch rows, D width of a dense feature.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from colonnade.core.ragged import Ragged


@dataclass(frozen=True, eq=False)
class Transformed:
    """The features of one batch, in the order of the feature set.

    sparse: of every feature that is not dense: int64 values with offsets and weights (or floats, strings of a feature
    that nothing is said of).   dense: float32 `[B, D]`.
    """

    rows: int
    sparse: Mapping[str, Ragged]
    dense: Mapping[str, torch.Tensor]
