"""The ops of the dense rest that aten has not; each is a plain function of torch values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from colonnade.errors import ShapeError
from colonnade.ir.program import ITEM, PLACE, REQUIRE


def place(x: torch.Tensor, buffer: torch.Tensor, offset: int) -> torch.Tensor:
    """Copies x into `buffer[:, offset : offset + width of x]` and gives the buffer.

    Shapes: x [B, w], buffer [B, W].   Facts: the buffer is written in place.
    """
    width = x.shape[1]
    buffer.narrow(1, offset, width).copy_(x)
    return buffer


def require(got: int, want: int, where: str) -> None:
    """Nothing. Errors: ShapeError where the two sizes differ, which the node `where` requires to be equal."""
    if got != want:
        raise ShapeError(
            "sizes of the request that the model requires to be equal", where=where, got=f"{got} and {want}"
        )


def item(values: Sequence[Any], index: int) -> Any:
    """One result of an op that has several (split, unbind)."""
    return values[index]


DENSE_OPS: dict[str, Callable[..., Any]] = {PLACE: place, ITEM: item, REQUIRE: require}
