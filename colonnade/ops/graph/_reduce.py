"""What the reductions share: axes, shapes and content of small integer tensors."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Content, Facts, Shape
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._elementwise import NUMBERS, Range
from colonnade.ops.graph._facts import axis_in, fits, flat, grid, limits, one, positive, want_dtype, within
from colonnade.ops.graph._values import axis_of, integers, numbers
from colonnade.ops.op import Inferred, Lowered, Operand, Value, fresh


class Reduction:
    """`out = f over the axes that the second operand names` of x; no axes: x itself.

    A subclass gives `value`, and, where it knows more, `step`, `start` and `on_range`.
    """

    name: ClassVar[str]
    dtypes: ClassVar[frozenset[str]] = NUMBERS
    aten: ClassVar[str] = ""
    start: ClassVar[int | None] = None
    keep_dims: bool

    def infer(self, *args: Facts) -> Inferred:
        """Content of axes to shape; content of small integer tensors."""
        x, axes = args
        want_dtype(self.name, x, self.dtypes)
        named = axes.ints if axes.size != 0 else ()
        if x.shape is None or named is None:
            rank = x.rank if self.keep_dims else None
            unknown = None if rank is None else tuple(map(fresh, range(rank)))
            return one(facts.facts(x.dtype, unknown))
        over = tuple(sorted({axis_in(self.name, a, len(x.shape)) for a in named}))
        if len(over) != len(named):
            raise ShapeError(f"{self.name}: an axis named twice", got=str(named))
        if not over:
            return one(x)
        shape = reduced(x.shape, over, self.keep_dims)
        bounds = limits(x)
        if bounds is None:
            return one(facts.facts(x.dtype, shape))
        counts = [x.shape[k] for k in over]
        lo, hi = within(x.dtype, *self.on_range(bounds, counts))
        content = self._content(x, over)
        if not fits(content, 1, x.dtype):
            content = None
        return one(facts.facts(x.dtype, shape, lo=lo, hi=hi, content=content))

    def _content(self, x: Facts, over: tuple[int, ...]) -> Content | None:
        known = grid(x)
        if known is None:
            return None
        rest = [k for k in range(known.ndim) if k not in over]
        sizes = [known.shape[k] for k in rest]
        rows = known.transpose([*rest, *over]).reshape([*sizes, math.prod(known.shape[k] for k in over)])
        made = [self._fold(rows[k].tolist()) for k in np.ndindex(*sizes)]
        return None if any(v is None for v in made) else flat(np.array([*made, None], dtype=object)[:-1])

    def _fold(self, row: list[Dim]) -> Dim | None:
        if not row:
            return self.start
        return functools.reduce(lambda a, b: None if a is None else self.step(a, b), row[1:], row[0])

    def step(self, a: Dim, b: Dim) -> Dim | None:
        """The result of two known elements."""
        return None

    def on_range(self, x: tuple[int, int], counts: Sequence[Dim]) -> Range:
        """Bounds of the result: by default those of the elements, where there is at least one."""
        return x if all(map(positive, counts)) else (None, None)

    def value(self, x: torch.Tensor, over: tuple[int, ...]) -> torch.Tensor:
        """The result in torch; `over` is not empty."""
        raise TypeError(f"{type(self).__name__} defines no value")

    def reference(self, *args: Value) -> Value:
        """In torch."""
        x, axes = args
        source = numbers(x, self.name)
        named = [axis_of(self.name, a, source.ndim) for a in integers(axes)]
        over = tuple(sorted(set(named)))
        if len(over) != len(named):
            raise GraphError(f"{self.name}: an axis named twice", got=str(named))
        return self.value(source, over) if over else source

    def lower(self, *args: Operand) -> Lowered | None:
        """The aten reduction over known axes."""
        x, axes = args
        if axes.facts.size == 0:
            return Lowered("aten.alias.default", (x.value,))
        if axes.facts.ints is None or not self.aten:
            return None
        return Lowered(self.aten, (x.value, axes.facts.ints, self.keep_dims), self.aten_dtype(x.facts.dtype))

    def aten_dtype(self, dtype: str) -> tuple[tuple[str, str], ...]:
        """The dtype asked of aten, where it would answer in another one."""
        return ()


def reduced(shape: Shape, over: tuple[int, ...], keep: bool) -> Shape:
    """The shape after the reduction."""
    if keep:
        return tuple(1 if k in over else d for k, d in enumerate(shape))
    return tuple(d for k, d in enumerate(shape) if k not in over)


def lower_extreme(x: Operand, over: Sequence[int], keep: bool, largest: bool) -> Lowered:
    """aten.amax or amin; it refuses an axis that has no elements, so one that may have none gets an extreme more."""
    assert x.facts.shape is not None
    rank, value = len(x.facts.shape), x.value
    open_axes = {a % rank for a in over if not positive(x.facts.shape[a])}
    if open_axes:
        pads = tuple(end for k in reversed(range(rank)) for end in (0, int(k in open_axes)))
        value = Lowered("aten.constant_pad_nd.default", (value, pads, _worst(x.facts.dtype, largest)))
    return Lowered("aten.amax.default" if largest else "aten.amin.default", (value, tuple(over), keep))


def _worst(dtype: str, largest: bool) -> float:
    """What the largest (the smallest) of nothing is."""
    if dtype in facts.FLOATING:
        return -math.inf if largest else math.inf
    known = np.iinfo(dtype)
    return int(known.min if largest else known.max)


def extreme(x: torch.Tensor, over: tuple[int, ...], keep: bool, largest: bool) -> torch.Tensor:
    """The largest or smallest over axes; over nothing the other end of the dtype."""
    if any(x.shape[k] == 0 for k in over):
        worst = _worst(str(x.dtype).removeprefix("torch."), largest)
        return x.new_full([int(d) for d in reduced(tuple(x.shape), over, keep)], worst)
    return x.amax(over, keepdim=keep) if largest else x.amin(over, keepdim=keep)
