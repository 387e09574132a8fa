"""What the elementwise graph ops share: broadcasting, integer content and ranges of one and two operands."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Content, Facts, Indexed
from colonnade.errors import GraphError
from colonnade.ops.graph._facts import (
    broadcast,
    fits,
    flat,
    grid,
    indexed_limits,
    limits,
    map_content,
    one,
    size_of,
    want_dtype,
    want_same_dtype,
    within,
)
from colonnade.ops.graph._values import numbers
from colonnade.ops.op import Inferred, Lowered, Operand, Value

NUMBERS = facts.INTEGER | facts.FLOATING
Range = tuple[int | None, int | None]


class Unary:
    """`out = f(x)`, elementwise, of the same dtype.

    A subclass gives `value`, and, where it takes integers, `on_range` and `on_dim`.
    """

    name: ClassVar[str]
    dtypes: ClassVar[frozenset[str]] = facts.FLOATING
    aten: ClassVar[str] = ""

    def infer(self, *args: Facts) -> Inferred:
        """The shape is kept; range and content follow the function where it takes integers."""
        (x,) = args
        want_dtype(self.name, x, self.dtypes)
        bounds = limits(x)
        if bounds is None:
            return one(facts.facts(x.dtype, x.shape))
        lo, hi = within(x.dtype, *self.on_range(*bounds))
        content: Content | None = map_content(x, self.on_dim)
        if not fits(content, x.size, x.dtype):
            content = None
        return one(facts.facts(x.dtype, x.shape, lo=lo, hi=hi, content=content))

    def on_range(self, lo: int, hi: int) -> Range:
        """Bounds of the result from bounds of the operand."""
        return None, None

    def on_dim(self, d: Dim) -> Dim | None:
        """The result of one known element."""
        return None

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """The result in torch."""
        raise TypeError(f"{type(self).__name__} defines no value")

    def reference(self, *args: Value) -> Value:
        """Elementwise, in torch."""
        (x,) = args
        return self.value(numbers(x, self.name))

    def lower(self, *args: Operand) -> Lowered | None:
        """The aten op of the same name."""
        (x,) = args
        return Lowered(self.aten, (x.value,)) if self.aten else None


class Test:
    """`out = whether f(x)`, elementwise."""

    name: ClassVar[str]
    dtypes: ClassVar[frozenset[str]] = facts.FLOATING
    aten: ClassVar[str] = ""

    def infer(self, *args: Facts) -> Inferred:
        """Bools of the same shape."""
        (x,) = args
        want_dtype(self.name, x, self.dtypes)
        return one(facts.facts("bool", x.shape))

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """The result in torch."""
        raise TypeError(f"{type(self).__name__} defines no value")

    def reference(self, *args: Value) -> Value:
        """Elementwise, in torch."""
        (x,) = args
        return self.value(numbers(x, self.name))

    def lower(self, *args: Operand) -> Lowered:
        """The aten op of the same name."""
        (x,) = args
        return Lowered(self.aten, (x.value,))


class Binary:
    """`out = f(a, b)`, elementwise, with broadcasting; both operands and the result of one dtype."""

    name: ClassVar[str]
    dtypes: ClassVar[frozenset[str]] = NUMBERS
    aten: ClassVar[str] = ""

    def infer(self, *args: Facts) -> Inferred:
        """The broadcast shape; range and content in exact integers, dropped where the dtype could wrap."""
        a, b = args
        dtype = want_same_dtype(self.name, args)
        want_dtype(self.name, a, self.dtypes)
        shape, equal = broadcast(self.name, a.shape, b.shape)
        bounds_a, bounds_b = limits(a), limits(b)
        if bounds_a is None or bounds_b is None:
            return one(facts.facts(dtype, shape), equal)
        lo, hi = within(dtype, *self.on_range(bounds_a, bounds_b))
        content = self._content(a, b, shape)
        if not fits(content, size_of(shape), dtype):
            content = None
        if isinstance(content, Indexed) and lo is None:
            exact = indexed_limits(content, size_of(shape))
            lo, hi = within(dtype, *exact) if exact is not None else (None, None)
        return one(facts.facts(dtype, shape, lo=lo, hi=hi, content=content), equal)

    def _content(self, a: Facts, b: Facts, shape: facts.Shape | None) -> Content | None:
        grid_a, grid_b = grid(a), grid(b)
        if grid_a is not None and grid_b is not None:
            return self._by_element(grid_a, grid_b)
        size = size_of(shape)
        if size is None:
            return None
        form_a, form_b = _spread(a, shape), _spread(b, shape)
        if form_a is None or form_b is None:
            return None
        return self.on_indexed(form_a, form_b, size)

    def _by_element(self, a: Any, b: Any) -> Content | None:
        pairs = np.broadcast(a, b)
        if pairs.size > facts.MAX_CONTENT:
            return None
        made = [self.on_dim(p, q) for p, q in pairs]
        return None if any(v is None for v in made) else flat(made)

    def on_range(self, a: tuple[int, int], b: tuple[int, int]) -> Range:
        """Bounds of the result from bounds of the operands, in exact integers."""
        return None, None

    def on_dim(self, a: Dim, b: Dim) -> Dim | None:
        """The result of two known elements, in exact integers."""
        return None

    def on_indexed(self, a: Indexed, b: Indexed, size: Dim) -> Indexed | None:
        """The content of the result from the operands' content."""
        return None

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The result in torch."""
        raise TypeError(f"{type(self).__name__} defines no value")

    def reference(self, *args: Value) -> Value:
        """Elementwise, in torch."""
        a, b = (numbers(v, self.name) for v in args)
        check_broadcast(self.name, a, b)
        return self.value(a, b)

    def lower(self, *args: Operand) -> Lowered | None:
        """The aten op of the same name."""
        a, b = args
        return Lowered(self.aten, (a.value, b.value)) if self.aten else None


def _spread(f: Facts, shape: facts.Shape | None) -> Indexed | None:
    """The content as it stands in the broadcast shape."""
    form = facts.as_indexed(f)
    if form is None or f.shape is None or shape is None:
        return None
    if all(d == 1 for d in f.shape) and not form.terms:
        return form
    lead = len(shape) - len(f.shape)
    same = f.shape == shape[lead:] and all(d == 1 for d in shape[:lead])
    return form if same else None


def check_broadcast(op: str, *args: Any) -> None:
    """Errors: GraphError where the shapes do not broadcast."""
    try:
        np.broadcast_shapes(*(tuple(a.shape) for a in args))
    except ValueError as e:
        got = " and ".join(str(tuple(a.shape)) for a in args)
        raise GraphError(f"{op}: shapes that do not broadcast", got=got) from e


def no_zero(op: str, dividend: torch.Tensor, divisor: torch.Tensor) -> None:
    """Errors: GraphError where an integer divisor of a result's element is 0."""
    if not divisor.is_floating_point() and dividend.numel() > 0 and bool((divisor == 0).any()):
        raise GraphError(f"{op}: integer division by zero")


def products(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """Bounds of products."""
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def constant_of(form: Indexed) -> Dim | None:
    """The one value that every element has."""
    return None if form.terms else form.constant
