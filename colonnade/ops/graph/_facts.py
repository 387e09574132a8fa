"""What the graph ops share to infer facts: checks, broadcasting, ranges and content that may not wrap."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Content, Facts, Indexed, Order, Shape, Term
from colonnade.errors import ShapeError
from colonnade.ops.op import Inferred, fresh

BOUNDS: dict[str, tuple[int, int]] = {
    "bool": (0, 1),
    **{f"int{n}": (-(2 ** (n - 1)), 2 ** (n - 1) - 1) for n in (8, 16, 32, 64)},
    **{f"uint{n}": (0, 2**n - 1) for n in (8, 16, 32, 64)},
}
SIZE = 1 << 20
"""Arithmetic on unknown sizes counts as free of overflow where it is so for sizes, and numbers of elements, up to this
one."""

Equal = tuple[tuple[Dim, Dim], ...]


def one(made: Facts, equal: Iterable[tuple[Dim, Dim]] = ()) -> Inferred:
    """The result of an op with one output; pairs that are plainly equal are left out."""
    return Inferred((made,), tuple((a, b) for a, b in equal if a != b))


def want_dtype(op: str, f: Facts, allowed: Iterable[str], operand: str = "operand") -> None:
    """Errors: ShapeError unless the dtype is one of those."""
    allowed = tuple(sorted(allowed))
    if f.dtype not in allowed:
        raise ShapeError(f"{op}: {operand} has a dtype it cannot take", got=f.dtype, want=", ".join(allowed))


def want_same_dtype(op: str, args: Sequence[Facts]) -> str:
    """The common dtype. Errors: ShapeError where they differ."""
    found = {f.dtype for f in args}
    if len(found) != 1:
        raise ShapeError(f"{op}: operands of different dtypes", got=", ".join(f.dtype for f in args), want="one dtype")
    return args[0].dtype


def want_rank(op: str, f: Facts, rank: int, operand: str = "operand") -> None:
    """Errors: ShapeError where the rank is known and another one."""
    if f.rank is not None and f.rank != rank:
        raise ShapeError(f"{op}: {operand} has {f.rank} dimensions", got=str(f.shape), want=f"{rank} dimensions")


def want_known(op: str, f: Facts, operand: str = "operand") -> Shape:
    """The shape. Errors: ShapeError where even the rank is unknown."""
    if f.shape is None:
        raise ShapeError(f"{op}: the rank of {operand} is unknown", got=f.dtype, want="a known rank")
    return f.shape


def axis_in(op: str, axis: int, rank: int) -> int:
    """The axis counted from 0. Errors: ShapeError where it lies outside."""
    if not -rank <= axis < rank:
        raise ShapeError(f"{op}: axis out of range", got=str(axis), want=f"-{rank} .. {rank - 1}")
    return axis % rank


def nonnegative(d: Dim) -> bool:
    """Whether the dim is proven to be >= 0."""
    return d >= 0 if isinstance(d, int) else bool(d.is_nonnegative)


def positive(d: Dim) -> bool:
    """Whether the dim is proven to be >= 1."""
    return d >= 1 if isinstance(d, int) else bool(d.is_positive)


def limits(f: Facts) -> tuple[int, int] | None:
    """Proven inclusive bounds of the elements, those of the dtype where nothing better is known; None for others."""
    found = BOUNDS.get(f.dtype)
    if found is None:
        return None
    return (found[0] if f.lo is None else f.lo), (found[1] if f.hi is None else f.hi)


def within(dtype: str, lo: int | None, hi: int | None) -> tuple[int | None, int | None]:
    """The bounds, or none where a value between them would not fit the dtype (it wraps)."""
    found = BOUNDS.get(dtype)
    if found is None or lo is None or hi is None or lo < found[0] or hi > found[1]:
        return None, None
    return lo, hi


@functools.lru_cache(maxsize=4096)
def magnitude(d: Dim) -> int:
    """A bound of `|d|` where every symbol in it, and every product of different ones, is at most `SIZE`.

    Facts: such a product is the number of elements of a tensor, or of its rows.
    """
    if isinstance(d, int):
        return abs(d)
    if d.is_Symbol:
        return SIZE
    if d.is_Rational:
        return -(-abs(int(d.p)) // int(d.q))
    if d.is_Pow:
        base, exponent = d.args
        power = int(exponent) if exponent.is_Integer else 0
        return int(magnitude(base) ** power) if power > 0 else 1
    symbols = [a for a in d.args if a.is_Symbol]
    if d.is_Mul and len(symbols) > 1:
        return SIZE * math.prod(magnitude(dims.simple(a)) for a in d.args if not a.is_Symbol)
    parts: list[int] = [magnitude(dims.simple(a)) for a in d.args]
    return math.prod(parts) if d.is_Mul else sum(parts)


def fits(content: Content | None, size: Dim | None, dtype: str) -> bool:
    """Whether content computed in exact integers is what the dtype holds (see `SIZE` for unknown sizes)."""
    if content is None or dtype not in BOUNDS:
        return False
    lo, hi = BOUNDS[dtype]
    if isinstance(content, tuple):
        return all(lo <= v <= hi if isinstance(v, int) else magnitude(v) <= hi for v in content)
    if lo == 0 and not all(map(nonnegative, [content.constant, *(t.coefficient for t in content.terms)])):
        return False
    return magnitude(content.constant) + sum(_reach(t, size) for t in content.terms) <= hi


def _reach(t: Term, size: Dim | None) -> int:
    if t.modulus is not None:
        steps = magnitude(t.modulus)
    else:
        steps = SIZE if size is None else magnitude(size)
        if isinstance(t.divisor, int):
            steps = -(-steps // t.divisor)
    return magnitude(t.coefficient) * max(steps - 1, 0)


def indexed_limits(content: Indexed, size: Dim | None) -> tuple[int, int] | None:
    """Exact bounds of content whose every number is known; None elsewhere."""
    lo = hi = content.constant
    if not isinstance(lo, int) or not isinstance(hi, int):
        return None
    for t in content.terms:
        last = _last(t, size)
        if last is None or not isinstance(t.coefficient, int):
            return None
        lo, hi = lo + min(0, t.coefficient * last), hi + max(0, t.coefficient * last)
    return lo, hi


def _last(t: Term, size: Dim | None) -> int | None:
    """The largest `(i // divisor) % modulus`."""
    if isinstance(t.modulus, int):
        return t.modulus - 1
    if t.modulus is None and isinstance(size, int) and isinstance(t.divisor, int) and size > 0:
        return (size - 1) // t.divisor
    return None


def broadcast(op: str, *shapes: Shape | None) -> tuple[Shape | None, Equal]:
    """The shape that operands of these shapes broadcast to, and the dims taken to be equal.

    Facts: two different unknown dims of inputs are taken to be equal: one of them being 1 is refused when the graph
    runs. One that the data decide may be 1: the result's size is then one that the data decide too.
    """
    known = [s for s in shapes if s is not None]
    if len(known) != len(shapes):
        return None, ()
    rank = max(map(len, known), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in known]
    equal: list[tuple[Dim, Dim]] = []
    made = tuple(_broadcast_dim(op, k, column, equal, known) for k, column in enumerate(zip(*padded, strict=True)))
    return made, tuple(equal)


def _broadcast_dim(op: str, k: int, column: tuple[Dim, ...], equal: list[tuple[Dim, Dim]], shapes: list[Shape]) -> Dim:
    numbers = {d for d in column if isinstance(d, int) and d != 1}
    if len(numbers) > 1:
        raise ShapeError(f"{op}: shapes that do not broadcast", got=" and ".join(map(str, shapes)))
    symbolic = list(dict.fromkeys(d for d in column if not isinstance(d, int)))
    if numbers:
        return numbers.pop()
    if not symbolic:
        return 1
    if len(symbolic) > 1 and any(dims.from_data(d) or dims.is_clamped(d) for d in symbolic):
        return fresh(k)
    equal.extend((symbolic[0], d) for d in symbolic[1:])
    return symbolic[0]


def grid(f: Facts) -> npt.NDArray[Any] | None:
    """Content known element by element, as an object array of dims in the tensor's shape."""
    values = f.values
    if values is None or f.shape is None or not all(isinstance(d, int) for d in f.shape):
        return None
    if math.prod(f.shape) != len(values):
        return None
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made.reshape(f.shape)


def flat(array: Any) -> tuple[Dim, ...] | None:
    """Content of an object array of dims; None where it has too many elements."""
    array = np.asarray(array, dtype=object)
    return tuple(array.reshape(-1).tolist()) if array.size <= facts.MAX_CONTENT else None


def plain(f: Facts, shape: Shape | None, **known: Any) -> Facts:
    """Facts of a tensor made of elements of `f`: its dtype and range, the given shape."""
    known.setdefault("lo", f.lo)
    known.setdefault("hi", f.hi)
    return facts.facts(f.dtype, shape, **known)


def hull(args: Sequence[Facts]) -> tuple[int | None, int | None]:
    """Bounds of elements that come from any of these tensors."""
    los = [f.lo for f in args]
    his = [f.hi for f in args]
    lo = None if any(v is None for v in los) else min(los, default=None)  # type: ignore[type-var]
    hi = None if any(v is None for v in his) else max(his, default=None)  # type: ignore[type-var]
    return lo, hi


def size_of(shape: Shape | None) -> Dim | None:
    """The number of elements of a shape."""
    return None if shape is None else dims.prod(shape)


def combine(a: Indexed, b: Indexed, size: Dim, sign: int = 1) -> Indexed:
    """`a + sign * b`, terms that belong together merged."""
    terms: dict[tuple[Dim, Dim | None], Dim] = {}
    for t in a.terms:
        key = (t.divisor, t.modulus)
        terms[key] = dims.add(terms.get(key, 0), t.coefficient)
    for t in b.terms:
        key = (t.divisor, t.modulus)
        terms[key] = dims.add(terms.get(key, 0), dims.mul(sign, t.coefficient))
    made = [Term(c, d, m) for (d, m), c in terms.items()]
    return facts.indexed(tuple(merged(made)), dims.add(a.constant, dims.mul(sign, b.constant)), size)


def merged(terms: list[Term]) -> list[Term]:
    """`c*((i // d) % m) + c*m*((i // (d*m)) % n)` is `c*((i // d) % (m*n))`, applied as often as it fits."""
    for low in terms:
        for high in terms:
            if low is high or low.modulus is None or dims.mul(low.divisor, low.modulus) != high.divisor:
                continue
            if dims.mul(low.coefficient, low.modulus) == high.coefficient:
                modulus = None if high.modulus is None else dims.mul(low.modulus, high.modulus)
                rest = [t for t in terms if t is not low and t is not high]
                return merged([*rest, Term(low.coefficient, low.divisor, modulus)])
    return terms


def scale(a: Indexed, factor: Dim, size: Dim) -> Indexed:
    """`a * factor`."""
    terms = tuple(Term(dims.mul(t.coefficient, factor), t.divisor, t.modulus) for t in a.terms)
    return facts.indexed(terms, dims.mul(a.constant, factor), size)


def repeated(a: Indexed, count: Dim, size: Dim) -> Indexed:
    """`i -> a(i // count)`: every element `count` times in a row."""
    terms = tuple(Term(t.coefficient, dims.mul(t.divisor, count), t.modulus) for t in a.terms)
    return facts.indexed(terms, a.constant, size)


def cycled(a: Indexed, period: Dim, size: Dim) -> Indexed | None:
    """`i -> a(i % period)`: the whole over and over; None where that has no such form."""
    terms = []
    for t in a.terms:
        quotient = dims.div_exact(period, t.divisor) if period != 0 else None
        if quotient is None:
            return None
        if t.modulus is not None and dims.div_exact(quotient, t.modulus) is None:
            return None
        terms.append(Term(t.coefficient, t.divisor, quotient if t.modulus is None else t.modulus))
    return facts.indexed(tuple(terms), a.constant, size)


def same_rows(f: Facts) -> dict[str, Any]:
    """Order and distinctness, for a result that has the very rows of `f`."""
    return {"order": f.order, "distinct": f.distinct}


def kept(f: Facts, shape: Shape | None) -> Facts:
    """Facts after a change of shape that keeps the flat order of elements."""
    if shape is not None and shape == f.shape:
        return f
    content = f.content
    known: dict[str, Any] = {"lo": f.lo, "hi": f.hi}
    if f.packed is not None and len(f.packed.parts) == 1:
        (part,) = f.packed.parts
        content = part.content if content is None else content
        known = {"lo": f.lo if part.lo is None else part.lo, "hi": f.hi if part.hi is None else part.hi}
    if shape and f.shape and shape[0] == f.shape[0]:
        known |= same_rows(f)
    elif shape and shape[0] == 1:
        known |= {"order": Order.STRICT, "distinct": True}
    return facts.facts(f.dtype, shape, content=content, **known)


def map_content(f: Facts, change: Callable[[Dim], Dim | None]) -> tuple[Dim, ...] | None:
    """Content with `change` applied to every element; None where one has no answer."""
    if f.values is None:
        return None
    made = [change(v) for v in f.values]
    return None if any(v is None for v in made) else tuple(made)
