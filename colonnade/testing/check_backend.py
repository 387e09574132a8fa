"""What every backend must do, checked on one case: outsiders run it on their own backend.

The expected values come from an oracle that shares nothing with a backend but the ops' references: it takes one element
after the other and pools in float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.backend import Backend, layouts
from colonnade.backends.feed import FeedReader
from colonnade.core import quantize
from colonnade.core.expr import Apply, Expr, Field
from colonnade.errors import IdRangeError
from colonnade.ir.column import Column, fields_read
from colonnade.ops.op import ExpandOp, PositionOp
from colonnade.testing.strategies import Case

Array = npt.NDArray[Any]
POISON = np.uint32(0x7FC1_2345)
"""A NaN that no computation makes."""
EPS = float(np.finfo(np.float32).eps)
SUBNORMAL = float(np.finfo(np.float32).smallest_subnormal)
"""The least tolerance of a value that is computed: it lets -0.0 stand for 0.0."""


@dataclass(frozen=True)
class Outside:
    """An id outside its table."""

    column: str
    row: int
    value: int
    bound: int


@dataclass(frozen=True)
class Expected:
    """A column's `[B, W]` values in float64, the tolerance of each in float32, and the ids outside its table."""

    values: Array
    tolerance: Array
    outside: tuple[Outside, ...]


def check_case(backend: Backend, case: Case, *, id_policy: str = "error", threads: int = 1) -> None:
    """Compiles and runs a case, and holds every value it writes against the oracle's.

    Errors: AssertionError naming the column, where a value, a byte outside the slots, an error or a count is wrong.
    """
    plans = layouts(case.program)
    request = FeedReader(case.program, plans).read(case.feed)
    out = {b.name: poisoned(case.rows, b.width) for b in case.program.buffers}
    expected = {c.name: expect(c, case) for c in case.program.columns}
    outside = [o for e in expected.values() for o in e.outside]
    written = {name: view for name, (_, view) in out.items()}
    zeroed = 0
    for layout, packed in zip(plans, request.packed, strict=True):
        columns = backend.compile(case.program, case.weights, layout, id_policy=id_policy, threads=threads)
        try:
            zeroed += columns.run(packed, written)
        except IdRangeError as error:
            assert id_policy == "error" and outside, f"no id is outside its table, but: {error}"
            check_range_error(error, outside)
            return
    assert id_policy != "error" or not outside, f"no IdRangeError for {outside[:3]}"
    assert zeroed == len(outside), f"{zeroed} ids were replaced, {len(outside)} are outside their tables"
    for column in case.program.columns:
        check_slots(column, expected[column.name], written)
    check_untouched(case, out)


def poisoned(rows: int, width: int) -> tuple[Array, Array]:
    """A block of poison, and the `[rows, width]` part of it that a backend may write to; its rows are strided."""
    whole = np.full((rows + 2, width + 24), POISON, np.uint32).view(np.float32)
    return whole, whole[1 : rows + 1, 8 : 8 + width]


def check_range_error(error: IdRangeError, outside: Sequence[Outside]) -> None:
    """The error names every offending column with one of its values, that value's row, and the table's bound."""
    text = str(error)
    for name in {o.column for o in outside}:
        mine = [o for o in outside if o.column == name]
        assert repr(name) in text, f"column {name!r} is not named: {text}"
        named = any(f"row {o.row}" in text and f"id {o.value}" in text and str(o.bound) in text for o in mine)
        assert named, f"column {name!r}: none of {mine[:3]} is named: {text}"


def check_slots(column: Column, expected: Expected, out: Mapping[str, Array]) -> None:
    """Every slot holds the column's values: within the tolerance, bit-equal where that is 0."""
    for slot in column.slots:
        got = out[slot.output][:, slot.offset : slot.offset + slot.width]
        assert not np.any(_bits(got) == POISON), f"column {column.name!r} left part of {slot} unwritten"
        want = expected.values
        exact = (expected.tolerance == 0) & ~np.isnan(want)
        with np.errstate(over="ignore"):
            wanted_bits = _bits(want.astype(np.float32))
        wrong = np.where(exact, _bits(got) != wanted_bits, ~_near(got, want, expected.tolerance))
        assert not wrong.any(), _difference(column, got, expected, wrong)


def _bits(values: Array) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(values).view(np.uint32)


def _near(got: Array, want: Array, tolerance: Array) -> npt.NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        close = np.abs(got.astype(np.float64) - want) <= tolerance
    return np.asarray(close | (got == want) | (np.isnan(got) & np.isnan(want)), np.bool_)


def _difference(column: Column, got: Array, expected: Expected, wrong: Array) -> str:
    row, at = (int(i) for i in np.argwhere(wrong)[0])
    return (
        f"column {column.name!r} differs in {int(wrong.sum())} values; row {row}, value {at}: "
        f"got {got[row, at]!r}, want {expected.values[row, at]!r} +- {expected.tolerance[row, at]:.3g} ({column})"
    )


def check_untouched(case: Case, out: Mapping[str, tuple[Array, Array]]) -> None:
    """Nothing outside the slots was written."""
    for name, (whole, _) in out.items():
        touched = _bits(whole) != POISON
        for column in case.program.columns:
            for slot in column.slots:
                if slot.output == name:
                    touched[1 : case.rows + 1, 8 + slot.offset : 8 + slot.offset + slot.width] = False
        assert not touched.any(), (
            f"buffer {name!r} was written outside the slots at {np.argwhere(touched)[:5].tolist()}"
        )


def expect(column: Column, case: Case) -> Expected:
    """The column's values, one batch row after the other."""
    items = _items(column, case)
    rows = [_Row(column, case, b, [i for i in items if i.row == b]).expected() for b in range(case.rows)]
    width = column.slots[0].width
    return Expected(
        np.array([r.values for r in rows]).reshape(case.rows, width),
        np.array([r.tolerance for r in rows]).reshape(case.rows, width),
        tuple(o for r in rows for o in r.outside),
    )


@dataclass(frozen=True, slots=True)
class _Item:
    """An element or token: its batch row, id, weight, and whether the filters keep it."""

    row: int
    id: Any
    weight: float
    keep: bool


def _items(column: Column, case: Case) -> list[_Item]:
    """All elements in order, dropped ones too; each expression gives one value an element or one a token."""
    num = case.feed[fields_read(column)[0]].size
    if num == 0:
        return []
    columns = [_per_element(e, case) for e in (column.ids, *column.filters)]
    factors = None if column.weights is None else _per_element(column.weights, case)
    rows = _rows_of_elements(column, case, num)
    items = []
    for e, row in enumerate(rows):
        here = [c[e] for c in columns]
        tokens = max(map(len, here))
        weight = 1.0 if factors is None else float(np.float32(factors[e][0]))
        for k in range(tokens):
            id_, *kept = (values[k if len(values) == tokens else 0] for values in here)
            items.append(_Item(row, id_, weight, all(map(bool, kept))))
    return items


def _rows_of_elements(column: Column, case: Case, num: int) -> list[int]:
    """The batch row of each element of the column's fields."""
    offsets = case.program.input(fields_read(column)[0]).offsets
    lengths = num // case.rows if offsets is None else np.diff(case.feed[offsets])
    return np.repeat(np.arange(case.rows), lengths).tolist()


def _per_element(expr: Expr, case: Case) -> list[list[Any]]:
    """An expression's values for each element: one, or one a token."""
    if isinstance(expr, Field):
        return [[value] for value in case.feed[expr.name].reshape(-1)]
    assert isinstance(expr, Apply)
    args = [_per_element(a, case) for a in expr.args]
    arg = args[0]
    flat = [_operand([value for values in a for value in values]) for a in args]
    if isinstance(expr.op, ExpandOp):
        tokens, counts = expr.op.expand(flat[0])
        return _cut(list(tokens), counts.tolist())
    if isinstance(expr.op, PositionOp):
        flat.append(torch.arange(len(arg)) % max(len(arg) // max(case.rows, 1), 1))
    found = expr.op.reference(*flat)
    return _cut(list(found.numpy() if isinstance(found, torch.Tensor) else found), [len(v) for v in arg])


def _cut(values: list[Any], lengths: Sequence[int]) -> list[list[Any]]:
    ends = np.cumsum([0, *lengths]).tolist()
    return [values[a:b] for a, b in pairwise(ends)]


def _operand(values: list[Any]) -> Any:
    if values and not isinstance(values[0], bytes):
        return torch.from_numpy(np.array(values))
    operand = np.empty(len(values), dtype=object)
    operand[:] = values
    return operand


@dataclass(frozen=True)
class _Row:
    """One batch row of one column."""

    column: Column
    case: Case
    row: int
    items: Sequence[_Item]

    def expected(self) -> Expected:
        """Its values."""
        if self.column.table is None:
            with np.errstate(over="ignore"):
                values = np.array([np.float32(i.id) if i.keep else 0 for i in self.items], np.float64)
            return Expected(values, np.zeros(len(values)), ())
        return self.looked_up(self.column.table)

    def looked_up(self, name: str) -> Expected:
        """The rows of the items' ids, pooled or side by side."""
        table = self.case.program.table(name)
        stored = self.case.weights.tables[name]
        rows = quantize.decode(stored, table.dtype, table.embedding_dim).astype(np.float64)
        kept = [i for i in self.items if i.keep]
        outside = tuple(
            Outside(self.column.name, self.row, int(i.id), table.rows) for i in kept if not 0 <= i.id < table.rows
        )
        blank = np.zeros(table.embedding_dim) if self.column.default_row is None else rows[self.column.default_row]
        vectors = [rows[i.id] if 0 <= i.id < table.rows else np.zeros(table.embedding_dim) for i in kept]
        if self.column.pooling == "none":
            found = iter(vectors)
            none = np.zeros(table.embedding_dim)
            values = np.concatenate([next(found) * i.weight if i.keep else none for i in self.items])
            slack = 0.0 if self.column.weights is None else EPS
            return Expected(values, slack * np.abs(values) + SUBNORMAL * (slack > 0), outside)
        if not kept:
            return Expected(blank, np.zeros(len(blank)), outside)
        weights = None if self.column.weights is None else np.array([i.weight for i in kept])
        return Expected(*pooled(np.stack(vectors), weights, self.column.pooling), outside)


def pooled(vectors: Array, weights: Array | None, pooling: str) -> tuple[Array, Array]:
    """The pooled vector in float64, and the tolerance of a float32 one.

    Facts: `4 eps n sum|w e| / divisor`; 0 (bit-equal) for one vector without a weight; a max is exact.
    """
    n = len(vectors)
    products = vectors if weights is None else vectors * weights[:, None]
    products = np.where(vectors == 0, 0.0, products) if pooling == "marks" else products
    if n == 1 and weights is None:
        return vectors[0], np.zeros(vectors.shape[1])
    if pooling == "max":
        slack = 0.0 if weights is None else EPS
        return products.max(0), np.maximum(slack * np.abs(products).max(0), SUBNORMAL)
    squares = None if weights is None else weights**2
    divisor = {
        "sum": 1.0,
        "marks": 1.0,
        "mean": float(n if weights is None else weights.sum()),
        "sqrtn": float(np.sqrt(n if squares is None else squares.sum())),
    }[pooling]
    if divisor == 0:
        return np.zeros(vectors.shape[1]), np.zeros(vectors.shape[1])
    slack = 4 * EPS * n * np.abs(products).sum(0) / divisor
    return products.sum(0) / divisor, np.maximum(slack, SUBNORMAL)
