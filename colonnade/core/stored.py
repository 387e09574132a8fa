"""Tensors whose memory holds their numbers: for those that read it by address.

Facts: torch negates some tensors when they are read, such as the imaginary part of a conjugate, and has zeros that have
no memory.
"""

from __future__ import annotations

from typing import Any

import torch


def is_stored(x: torch.Tensor) -> bool:
    """Whether its memory holds its numbers."""
    return not (x.is_neg() or x._is_zerotensor())


def stored(x: Any) -> Any:
    """The same numbers in memory, a copy where they are not; what is no tensor as it is."""
    if not isinstance(x, torch.Tensor) or is_stored(x):
        return x
    return torch.zeros_like(x) if x._is_zerotensor() else x.resolve_neg()
