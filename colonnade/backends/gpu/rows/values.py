"""Values of the dense rest as the proof of row independence sees them: a symbolic shape, and where the batch lies.

Facts: the batch symbol stands in one dim of a value at most, as `B * block`. Elements at `r * block` up to
`(r + 1) * block` of that axis depend on row r of the request and on nothing else in it that padding changes. A value
without the symbol is the same whether the request is padded or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy

from colonnade.core import dims
from colonnade.core.dims import Dim

Shape: TypeAlias = tuple[Dim, ...]


class Unproven(ValueError):
    """What cannot be shown to depend on its own row alone; its text says why."""


@dataclass(frozen=True)
class Value:
    """A tensor. axis: the one of the batch, None where there is none.   block: elements of it that a row owns."""

    shape: Shape
    axis: int | None = None
    block: Dim = 1

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.shape)


def holds(batch: sympy.Symbol, value: Any) -> bool:
    """Whether the batch symbol is in a dim, or in a list of dims."""
    if isinstance(value, tuple | list):
        return any(holds(batch, v) for v in value)
    return isinstance(value, sympy.Expr) and batch in dims.symbols_of(value)


def value_of(shape: Shape, batch: sympy.Symbol) -> Value:
    """The value of that shape. Errors: Unproven where the batch symbol is in two dims, or in a sum."""
    axes = [k for k, d in enumerate(shape) if holds(batch, d)]
    if not axes:
        return Value(shape)
    if len(axes) > 1:
        raise Unproven(f"every row meets every row of the batch: a value of shape {shown(shape)}")
    block = dims.div_exact(shape[axes[0]], batch)
    if block is None or holds(batch, block):
        raise Unproven(f"dim {axes[0]} of {shown(shape)} is no multiple of the batch")
    return Value(shape, axes[0], block)


def broadcast(shapes: Sequence[Shape], batch: sympy.Symbol) -> Shape:
    """The shape that all broadcast to. Errors: Unproven where two dims are not proven equal, or one of them 1."""
    out: list[Dim] = []
    for k in range(1, max(map(len, shapes), default=0) + 1):
        found = list(dict.fromkeys(s[-k] for s in shapes if len(s) >= k and s[-k] != 1))
        if len(found) > 1:
            other = "the batch" if holds(batch, found) else "another size"
            raise Unproven(f"{other} meets a dim that need not equal it: {' and '.join(map(shown, shapes))}")
        out.insert(0, found[0] if found else 1)
    return tuple(out)


def shown(shape: Iterable[Dim]) -> str:
    """How a shape is printed."""
    return f"[{', '.join(map(dims.text, shape))}]"
