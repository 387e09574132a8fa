"""What the references share: whole tensors as numpy arrays, so that strings and numbers move by the same code."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.errors import GraphError, ShapeError
from colonnade.ops.op import Value

Array = npt.NDArray[Any]


def array(value: Value) -> Array:
    """The tensor as a numpy array that must not be written to."""
    return value.detach().numpy() if isinstance(value, torch.Tensor) else value


def tensor(value: Any) -> Value:
    """The value of a numpy array: torch for numbers, the array itself for strings."""
    made = np.asarray(value)
    if made.dtype == object or made.dtype.kind == "S":
        return np.asarray(value, dtype=object)
    return torch.from_numpy(np.array(made, order="C"))


def like(source: Value, moved: Any) -> Value:
    """Elements of `source` in another arrangement."""
    if isinstance(source, torch.Tensor):
        return torch.from_numpy(np.array(moved, order="C"))
    return np.asarray(moved, dtype=object)


def numbers(value: Value, op: str = "op") -> torch.Tensor:
    """The tensor of numbers. Errors: ShapeError where it holds strings."""
    if not isinstance(value, torch.Tensor):
        raise ShapeError(f"{op} takes numbers", got="string")
    return value


def integers(value: Value) -> list[int]:
    """The elements of an integer tensor, flat."""
    return [int(v) for v in array(value).reshape(-1).tolist()]


def integer(value: Value) -> int:
    """The only element of an integer tensor."""
    (found,) = integers(value)
    return found


def check_range(op: str, indices: Array, size: int) -> None:
    """Errors: GraphError where an index lies outside 0 .. size - 1."""
    bad = (indices < 0) | (indices >= size)
    if bad.any():
        got = ", ".join(map(str, np.unique(indices[bad])[:20].tolist()))
        raise GraphError(f"{op}: indices out of range", got=got, want=f"0 .. {size - 1}")


def axis_of(op: str, axis: int, rank: int) -> int:
    """The axis counted from 0. Errors: GraphError where it lies outside."""
    if not -rank <= axis < rank:
        raise GraphError(f"{op}: axis out of range", got=str(axis), want=f"-{rank} .. {rank - 1}")
    return axis % rank
