"""The ops of the dense rest that aten has not; each is a plain function of torch values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from colonnade.errors import GraphError, ShapeError
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


def top_k(x: torch.Tensor, k: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest of the last dim in descending order, and where they are; of equal ones the first is first."""
    values, places = x.sort(dim=-1, descending=True, stable=True)
    return values[..., :k], places[..., :k].to(dtype)


def sum_rows(x: torch.Tensor, splits: torch.Tensor) -> torch.Tensor:
    """`out[s]` is the sum of `x[splits[s]:splits[s + 1]]`, in that order.

    Facts: no request passes whose splits fall, or do not end with x; on a device they are not looked at again.
    """
    if x.device.type == "cpu" and int(splits[-1]) != len(x):
        raise GraphError("rows are added up by splits that end elsewhere", got=str(int(splits[-1])), want=str(len(x)))
    if not len(x):
        return x.new_zeros((len(splits) - 1, *x.shape[1:]))
    return torch.segment_reduce(x.contiguous(), "sum", offsets=splits, axis=0, unsafe=True, initial=0)


def gather_nd(params: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """`params[indices[i, 0], .., indices[i, r - 1]]`. Errors: IndexError where an index lies outside."""
    depth = indices.shape[-1]
    sizes = torch.tensor(params.shape[:depth], dtype=torch.int64, device=params.device)
    if bool(((indices < 0) | (indices >= sizes)).any()):
        raise IndexError(f"gather_nd: indices out of range of {tuple(sizes.tolist())}")
    if depth == 0:
        return params.expand(*indices.shape[:-1], *params.shape)
    return params[tuple(indices.long().unbind(-1))]


def guard(x: torch.Tensor, condition: torch.Tensor, message: str) -> torch.Tensor:
    """x. Errors: GraphError with the message where the condition does not hold everywhere."""
    if not bool(condition.all()):
        raise GraphError("an assertion of the model does not hold", got=message.removeprefix("message: "))
    return x


def fmod(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The remainder of floats, of the dividend's sign. Facts: torch on a CPU is not exact where quotients are large."""
    if a.device.type != "cpu":
        return torch.fmod(a, b)
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.asarray(np.fmod(a.numpy(), b.numpy())))


def floor_mod(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The remainder of floats, of the divisor's sign."""
    rest = fmod(a, b)
    return torch.where((rest != 0) & ((b < 0) != (rest < 0)), rest + b, rest)


DENSE_OPS: dict[str, Callable[..., Any]] = {
    PLACE: place,
    ITEM: item,
    REQUIRE: require,
    "colonnade.floor_mod": floor_mod,
    "colonnade.fmod": fmod,
    "colonnade.gather_nd": gather_nd,
    "colonnade.guard": guard,
    "colonnade.sum_rows": sum_rows,
    "colonnade.top_k": top_k,
}
READ_BY_HOST = ("colonnade.gather_nd", "colonnade.guard")
"""Those whose result the host waits for."""
