"""The sizes of one request: symbols bound to the dims of its inputs, and dims computed from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import sympy

from colonnade.core import dims
from colonnade.core.dims import Dim

Sizes = Mapping[str, int]
DimFunction = Callable[[Sizes], int]


def dim_function(dim: Dim) -> DimFunction:
    """The dim as a function of the sizes by symbol name (sympy's own substitution costs about 100 us a dim)."""
    if isinstance(dim, int):
        return lambda sizes: dim
    if isinstance(dim, sympy.Symbol):
        name = dim.name
        return lambda sizes: sizes[name]
    if dim.is_Integer:
        return lambda sizes: int(dim)
    if dim.is_Rational:
        raise ValueError(f"{dim} is no dim: a fraction outside a product")
    parts = [dim_function(a) for a in _integers(dim)]
    if isinstance(dim, sympy.Add):
        return lambda sizes: sum(part(sizes) for part in parts)
    if isinstance(dim, sympy.Mul):
        return _product(parts, int(dim.as_coeff_Mul()[0].q))
    if isinstance(dim, sympy.Pow):
        return lambda sizes: parts[0](sizes) ** parts[1](sizes)
    return _two(type(dim), parts)


def _integers(dim: sympy.Expr) -> tuple[sympy.Expr, ...]:
    if not isinstance(dim, sympy.Mul):
        return tuple(dim.args)
    coefficient, rest = dim.as_coeff_Mul()
    return (sympy.Integer(coefficient.p), *sympy.Mul.make_args(rest))


def _product(parts: Sequence[DimFunction], divisor: int) -> DimFunction:
    if divisor == 1:
        return lambda sizes: math.prod(part(sizes) for part in parts)

    def exact(sizes: Sizes) -> int:
        whole, rest = divmod(math.prod(part(sizes) for part in parts), divisor)
        if rest:
            raise ValueError(f"a dim is not a whole number: {whole * divisor + rest}/{divisor}")
        return whole

    return exact


def _two(kind: type[sympy.Expr], parts: Sequence[DimFunction]) -> DimFunction:
    a, b = parts
    if kind is dims.max_:
        return lambda sizes: max(a(sizes), b(sizes))
    if kind is dims.ceil_div:
        return lambda sizes: -(-a(sizes) // b(sizes))
    if kind is dims.floor_div:
        return lambda sizes: a(sizes) // b(sizes)
    raise ValueError(f"no such function of dims: {kind.__name__}")


class ShapeBinder:
    """Holds a shape against its symbolic one, and notes the symbols' values in `sizes`."""

    def __init__(self, shape: tuple[Dim, ...]) -> None:
        self.rank = len(shape)
        self.fixed = tuple((i, d) for i, d in enumerate(shape) if isinstance(d, int))
        self.symbols = tuple((i, d.name) for i, d in enumerate(shape) if isinstance(d, sympy.Symbol))
        self.derived = tuple(
            (i, d, dim_function(d)) for i, d in enumerate(shape) if not isinstance(d, int | sympy.Symbol)
        )

    def bind(self, shape: Sequence[int], sizes: dict[str, int]) -> bool:
        """Whether the shape fits; symbols not met before take its dims."""
        if len(shape) != self.rank:
            return False
        for i, want in self.fixed:
            if shape[i] != want:
                return False
        return all(sizes.setdefault(name, shape[i]) == shape[i] for i, name in self.symbols)

    def fits_derived(self, shape: Sequence[int], sizes: Sizes) -> bool:
        """Whether the dims that are expressions fit, once every symbol is bound."""
        return all(shape[i] == function(sizes) for i, _, function in self.derived)
