"""What is known of a tensor before it is computed: dtype, symbolic shape, value range, order, content.

Facts are frozen and interned: equal facts are one object, so that inference can be memoised on them cheaply.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import sympy

from colonnade.core import dims
from colonnade.core.dims import Dim

Shape = tuple[Dim, ...]
MAX_CONTENT = 64

INTEGER = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
FLOATING = frozenset({"float16", "bfloat16", "float32", "float64"})


class Order(enum.IntEnum):
    """How the rows of a tensor follow each other (rows of a matrix: lexicographically). Each implies the ones
    before.
    """

    NONE = 0
    NONDECREASING = 1
    STRICT = 2


@dataclass(frozen=True, slots=True)
class Term:
    """`coefficient * ((i // divisor) % modulus)`; no modulus: unbounded."""

    coefficient: Dim
    divisor: Dim
    modulus: Dim | None


@dataclass(frozen=True, slots=True)
class Indexed:
    """Content of any length as a function of the flat index: `sum(terms)(i) + constant`.

    Facts: closed under Range, Tile, Reshape, ExpandDims, Cast, affine arithmetic; two equal contents of equal length
    compare equal when both are in the normal form that `indexed` makes.
    """

    terms: tuple[Term, ...]
    constant: Dim


@dataclass(frozen=True, slots=True)
class Packed:
    """The tensor is a stack of `parts` along `axis` (0 or the last); each part has facts of its own."""

    axis: int
    parts: tuple[Facts, ...]


Content = tuple[Dim, ...] | Indexed


@dataclass(frozen=True, slots=True)
class Facts:
    """What is proven of one tensor.

    dtype: numpy-style name, or `string`.   shape: None where even the rank is unknown.
    lo, hi: inclusive bounds of every element of an integer or bool tensor (None: unbounded), in exact Python integers;
        a bool tensor with lo 1 is all true.
    content: flat, row-major values of an integer tensor: up to 64 dims, or `Indexed`.
    order, distinct: of the rows.   packed: a stack of tensors with facts of their own (index matrices).
    """

    dtype: str
    shape: Shape | None
    lo: int | None = None
    hi: int | None = None
    order: Order = Order.NONE
    distinct: bool = False
    content: Content | None = None
    packed: Packed | None = None
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        if not self._hash:
            key = (self.dtype, self.shape, self.lo, self.hi, self.order, self.distinct, self.content, self.packed)
            object.__setattr__(self, "_hash", hash(key) or 1)
        return self._hash

    @property
    def rank(self) -> int | None:
        """Number of dims, where known."""
        return None if self.shape is None else len(self.shape)

    @property
    def size(self) -> Dim | None:
        """Number of elements, where known."""
        return None if self.shape is None else dims.prod(self.shape)

    @property
    def values(self) -> tuple[Dim, ...] | None:
        """The content as a tuple of dims, where it is known element by element."""
        return self.content if isinstance(self.content, tuple) else None

    @property
    def integer(self) -> int | None:
        """The value of a tensor of one known integer."""
        values = self.values
        if values is not None and len(values) == 1 and isinstance(values[0], int):
            return values[0]
        return None

    @property
    def ints(self) -> tuple[int, ...] | None:
        """The content, where every element is a known integer."""
        values = self.values
        if values is None or not all(isinstance(v, int) for v in values):
            return None
        return values

    def but(self, **changes: object) -> Facts:
        """The same facts with some replaced."""
        return intern(replace(self, **changes))  # type: ignore[arg-type]


_POOL: dict[Facts, Facts] = {}


def intern(facts: Facts) -> Facts:
    """The one object that stands for these facts."""
    return _POOL.setdefault(facts, facts)


def forget() -> None:
    """Drop the pool of interned facts (after a compilation, to give memory back)."""
    _POOL.clear()


def facts(dtype: str, shape: Shape | None, **known: object) -> Facts:
    """Interned facts; content of known integers fills in the range, the order and distinctness."""
    made = Facts(dtype, shape, **known)  # type: ignore[arg-type]
    return intern(_sharpen(made))


def _sharpen(f: Facts) -> Facts:
    """Range, order and distinctness that follow from content."""
    if isinstance(f.content, tuple) and f.content:
        ints = f.ints
        if ints is not None:
            strict = all(a < b for a, b in itertools.pairwise(ints))
            rising = all(a <= b for a, b in itertools.pairwise(ints))
            one_dim = f.rank == 1
            order = Order.STRICT if strict and one_dim else Order.NONDECREASING if rising and one_dim else f.order
            return replace(
                f, lo=min(ints), hi=max(ints), order=max(order, f.order), distinct=len(set(ints)) == len(ints)
            )
        lo = 0 if f.lo is None and all(_nonnegative(v) for v in f.content) else f.lo
        return replace(f, lo=lo)
    if isinstance(f.content, Indexed) and f.rank == 1:
        order = max(f.order, order_of(f.content))
        lo = 0 if f.lo is None and _indexed_nonnegative(f.content) else f.lo
        return replace(f, order=order, distinct=f.distinct or order == Order.STRICT, lo=lo)
    return f


def _nonnegative(d: Dim) -> bool:
    return d >= 0 if isinstance(d, int) else bool(d.is_nonnegative)


def _indexed_nonnegative(content: Indexed) -> bool:
    return _nonnegative(content.constant) and all(_nonnegative(t.coefficient) for t in content.terms)


def order_of(content: Indexed) -> Order:
    """The order of a vector with that content."""
    if not content.terms:
        return Order.NONDECREASING
    if len(content.terms) > 1:
        return Order.NONE
    (term,) = content.terms
    if term.modulus is not None or not _nonnegative(term.coefficient):
        return Order.NONE
    positive = isinstance(term.coefficient, int) and term.coefficient > 0
    return Order.STRICT if positive and term.divisor == 1 else Order.NONDECREASING


def indexed(terms: tuple[Term, ...], constant: Dim, length: Dim) -> Indexed:
    """The normal form for a tensor of `length` elements: zero terms dropped, moduli that cannot bite removed.

    Facts: `(i // d) % m` is `i // d` where `d * m` equals the length, and 0 where m is 1.
    """
    kept: list[Term] = []
    for t in terms:
        if (
            t.coefficient == 0
            or t.modulus == 1
            or (isinstance(t.divisor, int) and t.divisor != 0 and t.divisor == length)
        ):
            continue
        if not isinstance(t.divisor, int) and t.divisor == length:
            continue
        if t.modulus is not None and dims.mul(t.divisor, t.modulus) == length:
            t = Term(t.coefficient, t.divisor, None)
        kept.append(t)
    return Indexed(tuple(sorted(kept, key=str)), constant)


def iota(length: Dim) -> Indexed:
    """0, 1, 2, ..., length - 1."""
    return indexed((Term(1, 1, None),), 0, length)


def is_iota(f: Facts) -> bool:
    """Whether a vector is proven to be 0, 1, ..., n - 1."""
    if f.rank != 1 or f.shape is None:
        return False
    if isinstance(f.content, tuple):
        return f.ints == tuple(range(len(f.content)))
    return f.content is not None and f.content == iota(f.shape[0])


def as_indexed(f: Facts) -> Indexed | None:
    """Content in indexed form, where it is known that way or is one constant repeated."""
    if isinstance(f.content, Indexed):
        return f.content
    values = f.values
    if values is not None and values and all(v == values[0] for v in values):
        return Indexed((), values[0])
    ints = f.ints
    return None if ints is None or len(ints) < 2 else _stepped(ints)


def _stepped(ints: tuple[int, ...]) -> Indexed | None:
    """`c * ((i // d) % m) + ints[0]`, of numbers that are not all the same."""
    divisor = next(i for i, x in enumerate(ints) if x != ints[0])
    step = ints[divisor] - ints[0]
    steps = itertools.count()
    modulus = next(k for k in steps if k * divisor >= len(ints) or ints[k * divisor] != ints[0] + k * step)
    term = Term(step, divisor, modulus if modulus * divisor < len(ints) else None)
    if any(x != ints[0] + step * ((i // divisor) % modulus) for i, x in enumerate(ints)):
        return None
    return indexed((term,), ints[0], len(ints))


def map_dims(f: Facts, change: Callable[[Dim], Dim]) -> Facts:
    """The facts with `change` applied to every dim in them."""
    shape = None if f.shape is None else tuple(change(d) for d in f.shape)
    content: Content | None = f.content
    if isinstance(content, tuple):
        content = tuple(change(d) for d in content)
    elif content is not None and f.shape is not None and shape is not None:
        terms = tuple(
            Term(change(t.coefficient), change(t.divisor), None if t.modulus is None else change(t.modulus))
            for t in content.terms
        )
        content = indexed(terms, change(content.constant), dims.prod(shape))
    packed = None if f.packed is None else Packed(f.packed.axis, tuple(map_dims(p, change) for p in f.packed.parts))
    return intern(replace(f, shape=shape, content=content, packed=packed))


def substitute(f: Facts, mapping: Mapping[sympy.Symbol, Dim]) -> Facts:
    """The facts with symbols replaced."""
    return map_dims(f, lambda d: dims.substitute(d, mapping))


def symbols_of(f: Facts) -> frozenset[sympy.Symbol]:
    """Every symbol in the facts."""
    return frozenset(s for d in _dims_of(f) if not isinstance(d, int) for s in dims.symbols_of(d))


def _dims_of(f: Facts) -> Iterator[Dim]:
    yield from f.shape or ()
    if isinstance(f.content, tuple):
        yield from f.content
    elif f.content is not None:
        yield f.content.constant
        for t in f.content.terms:
            yield t.coefficient
            yield t.divisor
            if t.modulus is not None:
                yield t.modulus
    if f.packed is not None:
        for part in f.packed.parts:
            yield from _dims_of(part)
