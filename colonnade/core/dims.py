"""Symbolic tensor dimensions: an `int` where it is known, a sympy expression over named symbols where it is not.

Sums and products are built in one call (`add(a, b, c)`): sympy then normalises once. `simplify`, `Max` and `floor`
cost milliseconds each and are never used; `max_` and `ceil_div` are interned, uninterpreted functions of our own.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import sympy

Dim: TypeAlias = int | sympy.Expr


class max_(sympy.Function):
    """The larger of two dims, uninterpreted unless both are integers."""

    nargs = 2
    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        if a == b:
            return a
        if a.is_Integer and b.is_Integer:
            return a if int(a) >= int(b) else b
        return None


class ceil_div(sympy.Function):
    """`(a + b - 1) // b`, uninterpreted unless both are integers."""

    nargs = 2
    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        if a.is_Integer and b.is_Integer:
            return sympy.Integer(-(-int(a) // int(b)))
        return a if b == 1 else None


class floor_div(sympy.Function):
    """`a // b`, uninterpreted unless it divides exactly."""

    nargs = 2
    is_integer = True

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        if a.is_Integer and b.is_Integer:
            return sympy.Integer(int(a) // int(b))
        return a if b == 1 else None


_SYMBOLS: dict[str, sympy.Symbol] = {}


def symbol(name: str) -> sympy.Symbol:
    """The dim symbol of that name: an unknown integer >= 0."""
    found = _SYMBOLS.get(name)
    if found is None:
        found = _SYMBOLS.setdefault(name, sympy.Symbol(name, integer=True, nonnegative=True))
    return found


_DATA = re.compile(r"(fresh|v\d+)_\d+")


def data_symbol(name: str, k: int) -> sympy.Symbol:
    """The k-th size of a node's outputs that only the data decide (`fresh`: of no node yet)."""
    return symbol(f"{name}_{k}")


@functools.lru_cache(maxsize=1 << 16)
def from_data(dim: Dim) -> bool:
    """Whether a size that only the data decide is in it: the inputs' sizes do not tell its value."""
    return any(_DATA.fullmatch(s.name) for s in symbols_of(dim))


@functools.lru_cache(maxsize=1 << 16)
def is_clamped(dim: Dim) -> bool:
    """Whether the larger of two dims is in it."""
    return not isinstance(dim, int) and bool(dim.has(max_))


def is_symbol(dim: Dim) -> bool:
    """Whether the dim is a bare symbol."""
    return isinstance(dim, sympy.Symbol)


def simple(value: sympy.Expr | int) -> Dim:
    """The same dim, as `int` where it is one."""
    if isinstance(value, int):
        return value
    return int(value) if value.is_Integer else value


def add(*terms: Dim) -> Dim:
    """The sum of all terms."""
    if all(isinstance(t, int) for t in terms):
        return sum(terms)
    return simple(sympy.Add(*terms))


def mul(*factors: Dim) -> Dim:
    """The product of all factors, multiplied out so that equal products are equal expressions."""
    value = 1
    symbolic: list[Dim] = []
    for f in factors:
        if isinstance(f, int):
            value *= f
        else:
            symbolic.append(f)
    if not symbolic or value == 0:
        return value
    if len(symbolic) == 1 and value == 1:
        return symbolic[0]
    product = sympy.Mul(value, *symbolic)
    return simple(
        sympy.expand_mul(product) if any(f.is_Add for f in symbolic if isinstance(f, sympy.Expr)) else product
    )


def sub(a: Dim, b: Dim) -> Dim:
    """`a - b`."""
    return add(a, mul(-1, b))


def prod(dims: Iterable[Dim]) -> Dim:
    """The product of a shape: its number of elements."""
    return mul(*dims)


def div_exact(a: Dim, b: Dim) -> Dim | None:
    """`a / b` where it divides exactly for every value of the symbols, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b != 0 and a % b == 0 else None
    if a == b:
        return 1
    quotient = sympy.cancel(sympy.sympify(a) / sympy.sympify(b)) if not isinstance(b, int) else sympy.sympify(a) / b
    numerator, denominator = sympy.fraction(sympy.together(quotient))
    return simple(sympy.expand(numerator)) if denominator == 1 else None


def floor_divide(a: Dim, b: Dim) -> Dim:
    """`a // b`, exact where that can be proven, else an uninterpreted term."""
    exact = div_exact(a, b)
    return exact if exact is not None else simple(floor_div(sympy.sympify(a), sympy.sympify(b)))


def maximum(a: Dim, b: Dim) -> Dim:
    """The larger of the two, uninterpreted unless both are known."""
    return simple(max_(sympy.sympify(a), sympy.sympify(b)))


def symbols_of(dim: Dim) -> frozenset[sympy.Symbol]:
    """The symbols in it."""
    if isinstance(dim, int):
        return frozenset()
    return frozenset((dim,)) if isinstance(dim, sympy.Symbol) else frozenset(dim.free_symbols)


def substitute(dim: Dim, mapping: Mapping[sympy.Symbol, Dim]) -> Dim:
    """The dim with symbols replaced."""
    if isinstance(dim, int):
        return dim
    if isinstance(dim, sympy.Symbol):
        return mapping.get(dim, dim)
    return simple(dim.xreplace({k: sympy.sympify(v) for k, v in mapping.items()}))


def evaluate(dim: Dim, values: Mapping[sympy.Symbol, int]) -> int:
    """The dim's value once every symbol is known."""
    got = substitute(dim, values)
    if not isinstance(got, int):
        raise ValueError(f"dim {dim} has unknown symbols {sorted(map(str, symbols_of(got)))}")
    return got


def text(dim: Dim) -> str:
    """How a dim is printed."""
    return str(dim)


def parse(source: str) -> Dim:
    """The dim that `text` printed.

    Errors: ValueError on anything but integers, names, `+ - * **` and the three functions (nothing is evaluated as
    code).
    """
    try:
        tree = ast.parse(source.strip(), mode="eval")
    except SyntaxError as e:
        raise ValueError(f"not a dim: {source!r}") from e
    return simple(_build(tree.body))


_FUNCTIONS: dict[str, type[sympy.Function]] = {"max_": max_, "ceil_div": ceil_div, "floor_div": floor_div}


def _build(node: ast.expr) -> sympy.Expr:
    match node:
        case ast.Constant(value=int() as value):
            return sympy.Integer(value)
        case ast.Name(id=name):
            return symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_build(operand)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _build(left) + _build(right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _build(left) - _build(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _build(left) * _build(right)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _build(left) / _build(right)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _build(left) ** _build(right)
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*map(_build, args))
    raise ValueError(f"not a dim: {ast.dump(node)}")
