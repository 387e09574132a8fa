"""Two answers compared: the tolerance of a pooled column, of a dense value, and what lies outside it.

Legend: B batch rows, D embedding_dim, W width.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.core import quantize
from colonnade.core.expr import fields_of
from colonnade.core.pooling import MARKS
from colonnade.ir.column import Column, fields_read
from colonnade.ir.evaluate import Elements, elements_of
from colonnade.ir.program import ITEM, PLACE, REQUIRE, TRANSPOSED, Program, Weights, operands, refs_in
from colonnade.ir.table import Table

Array = NDArray[Any]

EPS = float(np.finfo(np.float32).eps)
TINY = float(np.finfo(np.float32).tiny)
LARGEST = float(np.finfo(np.float32).max)
POOLED_FACTOR = 4.0
"""|err| <= 4 * eps * n * sum|w e| / divisor against float64; the oracle may be as far on the other side."""
OVERFLOWS = 1e18
"""Dense inputs from this size on may overflow or not, by the order of addition: their dense values are not compared."""

_ADDING = {
    *("sum", "mean", "prod", "cumsum", "cumprod", "logsumexp", "linalg_vector_norm"),
    *("bmm", "mm", "matmul", "einsum", "_softmax", "_log_softmax"),
}
"""Ops of the dense rest that make one number of many."""
_EXACT = {
    *("reshape", "view", "permute", "transpose", "squeeze", "unsqueeze", "expand", "slice", "select", "cat", "stack"),
    *("index_select", "gather", "repeat", "clone", "where", "relu", "abs", "neg", "maximum", "minimum", "clamp"),
    *("amax", "amin", "tril", "triu", "flip", "constant_pad_nd", "split", "unbind", "full", "arange"),
    *(PLACE, REQUIRE, ITEM),
}
"""Ops that round nothing."""


@dataclass(frozen=True)
class Difference:
    """How far two tensors are apart.

    outside: elements outside the tolerance.   differing: elements with other bits.   worst: the largest error;
    ratio: the largest error in units of what is allowed.   row, element, got, want: the element of that ratio.
    problem: why they could not be compared at all (a shape, a dtype).
    """

    elements: int = 0
    differing: int = 0
    outside: int = 0
    worst: float = 0.0
    ratio: float = 0.0
    row: int = -1
    element: int = -1
    got: str = ""
    want: str = ""
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether every element is within the tolerance."""
        return not self.outside and not self.problem


def difference(got: Array, want: Array, allowed: Array | float) -> Difference:
    """Compare float tensors element by element; where `allowed` is 0 the bits must be equal.

    Facts: NaN equals NaN of any payload; infinities equal themselves only; what TensorFlow flushes (|x| below the least
    normal number) counts as zero. Tensors of other kinds must be equal.
    """
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return Difference(problem=f"{got.dtype}{list(got.shape)}, want {want.dtype}{list(want.shape)}")
    if got.size == 0:
        return Difference()
    same = _same(got, want)
    if same.all():
        return Difference(got.size)
    if got.dtype.kind != "f":
        return _worst(got, want, same, ~same, np.where(same, 0.0, math.inf))
    with np.errstate(all="ignore"):
        error = np.where(same, 0.0, np.abs(got.astype(np.float64) - want.astype(np.float64)))
        error[~same & ~np.isfinite(error)] = math.inf
        both_tiny = (np.abs(got) <= TINY) & (np.abs(want) <= TINY)  # a denormal operand may round to TINY itself
        limit = np.broadcast_to(np.asarray(allowed, np.float64), got.shape)
        outside = ~same & ~both_tiny & ~((error <= limit) & (limit > 0))
        ratio = np.where((error == 0) | np.isinf(limit), 0.0, error / np.maximum(limit, TINY))
        ratio = np.where(outside, np.maximum(ratio, 1.0 + EPS), np.where(both_tiny, 0.0, ratio))
    return _worst(got, want, same, outside, ratio, error)


def _same(got: Array, want: Array) -> NDArray[np.bool_]:
    if got.dtype.kind != "f":
        return np.asarray(got == want, bool)
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[got.dtype.itemsize]
    equal = np.ascontiguousarray(got).view(bits) == np.ascontiguousarray(want).view(bits)
    return np.asarray(equal | (np.isnan(got) & np.isnan(want)))


def _worst(
    got: Array, want: Array, same: Array, outside: Array, ratio: Array, error: Array | None = None
) -> Difference:
    at = int(np.argmax(ratio))
    place = [int(i) for i in np.unravel_index(at, got.shape)] if got.ndim else [0]
    return Difference(
        elements=got.size,
        differing=int((~same).sum()),
        outside=int(outside.sum()),
        worst=float(error.max()) if error is not None else 0.0,
        ratio=float(ratio.reshape(-1)[at]),
        row=place[0],
        element=int(np.ravel_multi_index(place[1:], got.shape[1:])) if got.ndim > 1 else 0,
        got=_shown(got.reshape(-1)[at]),
        want=_shown(want.reshape(-1)[at]),
    )


def _shown(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, np.floating | float) else repr(value)[:60]


def allowed_of_column(
    column: Column, program: Program, weights: Weights, feed: Mapping[str, Array], rows: int
) -> Array:
    """What a column's vectors may differ by from another float32 implementation, `[B, 1]` or `[B, D]`.

    2 * 4 * eps * n * sum|w e| / divisor for rows of n > 1 elements, and for weighted rows; 0 (bit-equal) for others;
    anything where finite weights are so large that their sum may overflow or not, by the order of addition.
    """
    if column.table is None or column.pooling in ("none", "max"):
        return np.zeros((rows, 1))
    if any(program.input(name).is_elements for name in fields_read(column)):
        return np.zeros((1, 1))  # a row is one element
    found = elements_read(column, program, feed, rows)
    counts_B = torch.bincount(found.rows, minlength=rows).numpy()
    if found.weights is None and (counts_B <= 1).all():
        return np.zeros((rows, 1))
    table = weights.tables[column.table]
    ids = found.ids.long().numpy()
    inside = (ids >= 0) & (ids < len(table))
    vectors_ED = np.abs(_as_float(table, np.where(inside, ids, 0), program.table(column.table)))
    factors_E = np.ones(len(ids)) if found.weights is None else found.weights.double().numpy()
    total_BD = np.zeros((rows, vectors_ED.shape[1]))
    with np.errstate(invalid="ignore", over="ignore"):
        products_ED = np.abs(factors_E)[:, None] * vectors_ED
        products_ED = np.where(vectors_ED == 0, 0.0, products_ED) if column.pooling == MARKS else products_ED
        np.add.at(total_BD, found.rows.numpy(), products_ED)
    divisor_B = _divisor(column.pooling, counts_B, factors_E, found.rows.numpy(), found.weights is not None)
    with np.errstate(divide="ignore", invalid="ignore"):
        allowed = 2 * POOLED_FACTOR * EPS * counts_B[:, None] * total_BD / divisor_B[:, None]
    single = counts_B <= (0 if found.weights is not None else 1)
    limit = np.where(single[:, None], 0.0, np.nan_to_num(allowed, posinf=0.0) + counts_B[:, None] * TINY)
    limit[_may_overflow(counts_B, factors_E, found.rows.numpy())] = math.inf
    return limit


def added_rtol(program: Program, feed: Mapping[str, Array], rows: Mapping[str, int]) -> float:
    """What pooled rows add to `dense_rtol`: 4 * eps * sqrt of the most elements that a row of any column adds up.

    rows: of each buffer.   Facts: 0 where no row adds any; a lookup of one row rounds nothing.
    """
    most = max((_most_added(c, program, feed, rows[c.slots[0].output]) for c in program.columns), default=0)
    return 4 * EPS * math.sqrt(most) if most > 1 else 0.0


def _most_added(column: Column, program: Program, feed: Mapping[str, Array], rows: int) -> int:
    if column.table is None or column.pooling in ("none", "max"):
        return 0
    if any(program.input(name).is_elements for name in fields_read(column)):
        return 1
    counts_B = torch.bincount(elements_read(column, program, feed, rows).rows, minlength=rows)
    return int(counts_B.max()) if len(counts_B) else 0


def _may_overflow(counts_B: Array, factors_E: Array, rows_E: Array) -> NDArray[np.bool_]:
    """The rows of several elements whose finite weights add up to more than float32 holds."""
    total_B = np.zeros(len(counts_B))
    np.add.at(total_B, rows_E, np.where(np.isfinite(factors_E), np.abs(factors_E), 0.0))
    return (counts_B > 1) & (total_B > LARGEST)


def _divisor(pooling: str, counts_B: Array, factors_E: Array, rows_E: Array, weighted: bool) -> Array:
    if pooling in ("sum", MARKS):
        return np.ones(len(counts_B))
    if not weighted:
        return np.sqrt(counts_B) if pooling == "sqrtn" else counts_B.astype(np.float64)
    total_B = np.zeros(len(counts_B))
    with np.errstate(invalid="ignore", over="ignore"):
        np.add.at(total_B, rows_E, np.square(factors_E) if pooling == "sqrtn" else factors_E)
        return np.sqrt(total_B) if pooling == "sqrtn" else np.abs(total_B)


def elements_read(column: Column, program: Program, feed: Mapping[str, Array], rows: int) -> Elements:
    """The elements of a column in a request, of dense or of ragged fields."""
    fields = {name: elements_in(feed[name]) for name in fields_read(column)}
    offsets = {program.input(name).offsets for name in fields} - {None}
    lengths = [torch.from_numpy(np.diff(feed[str(name)]).astype(np.int64)) for name in offsets]
    return elements_of(column, fields, rows, lengths[0] if lengths else None)


def elements_in(value: Array) -> torch.Tensor | Array:
    """The elements of an input as ops take them: flat, strings as objects, numbers as a tensor."""
    flat = value.reshape(-1)
    return flat if flat.dtype == object else torch.from_numpy(np.array(flat))


def _as_float(stored: Array, ids: NDArray[np.int64], table: Table) -> Array:
    if len(stored) == 0:
        return np.zeros((len(ids), table.embedding_dim))
    return quantize.decode(stored[ids], table.dtype, table.embedding_dim).astype(np.float64)


def dense_rtol(program: Program) -> float:
    """4 * eps * (1 + sum of sqrt(fan_in) + the rest's own), fan_in over the matrices of the dense rest.

    A sum of k rounded products is off by about sqrt(k) * eps of their size, in each of two orders of addition; layers
    add up. Twice that for either side. The rest's own is the longest way through it: 1 for a line that rounds, and for
    one that adds numbers up without a matrix, the root of the widest buffer. What the rows of a request add up comes on
    top (`added_rtol`).
    """
    matrices = {name: _fan_in(name, shape) for name, _, shape in program.params if len(shape) == 2}
    return 4 * EPS * (1 + sum(map(math.sqrt, matrices.values())) + _longest(program, matrices.keys()))


def _longest(program: Program, matrices: Collection[str]) -> float:
    """The most roundings, one behind the other, that no matrix accounts for."""
    widest = math.sqrt(max((b.width for b in program.buffers), default=1))
    found: dict[str, float] = {}
    for line in program.dense:
        refs = set(refs_in(operands(line)))
        name = line.op.removeprefix("aten.").partition(".")[0].rstrip("_")
        own = 0.0 if name in _EXACT or not refs.isdisjoint(matrices) else widest if name in _ADDING else 1.0
        found[line.output] = own + max((found.get(ref, 0.0) for ref in refs), default=0.0)
    return max(found.values(), default=0.0)


def _fan_in(name: str, shape: tuple[int, ...]) -> int:
    return shape[1] if name.endswith(TRANSPOSED) else shape[0]


def allowed_of_dense(want: Array, rtol: float) -> Array | float:
    """rtol times the larger of the element and the median magnitude of the tensor's values other than 0.

    Facts: a value near 0 is a difference of larger ones, and as uncertain as they are; relu makes many zeros.
    """
    if want.dtype.kind != "f" or not want.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        size = np.abs(want.astype(np.float64))
        finite = size[np.isfinite(size) & (size > 0)]
        return np.asarray(rtol * np.maximum(np.nan_to_num(size, posinf=0.0), np.median(finite) if finite.size else 0.0))


def overflowing(
    program: Program, dense_inputs: frozenset[str], feed: Mapping[str, Array], rows: int
) -> NDArray[np.bool_]:
    """The rows whose dense inputs or weights are so large that an overflow depends on the order of addition."""
    found = np.zeros(rows, bool)
    weights = {name for c in program.columns if c.weights is not None for name in fields_of(c.weights)}
    padded = {pad.name: pad.of for pad in program.pads if pad.of is not None}
    for name in sorted({padded.get(n, n) for n in dense_inputs | weights}):
        value = feed[name]
        if value.dtype.kind != "f" or not value.ndim:
            continue
        large = np.isfinite(value) & (np.abs(value) >= OVERFLOWS)
        offsets = program.input(name).offsets
        if offsets is not None and len(feed[offsets]) == rows + 1:
            found[np.repeat(np.arange(rows), np.diff(feed[offsets]))[large]] = True
        elif len(value) == rows:
            found |= large.any(axis=tuple(range(1, value.ndim)))
    return found
