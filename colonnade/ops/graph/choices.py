"""`choices`: every choice of one value of each operand in a row."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.facts import Facts, Order, Packed
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import want_rank
from colonnade.ops.graph._values import array, check_range, integers, like
from colonnade.ops.op import GraphOp, Inferred, Value, fresh

T = TypeVar("T")


@dataclass(frozen=True)
class Choices(GraphOp):
    """`(indices, values of each operand, shape)`: for each row, each choice of one value an operand, the last fastest.

    sparse: whether each operand is a sparse matrix (indices, values and shape) or a dense one, whose values lie
    row-major in its rows.   among: the names of the inputs that they are, or of whose
    strings they are the tokens: splits has the separators, b"" for others.   numbered: operands of which the place of
    what is chosen among the values of its row is an output as well, behind the values.
    Facts: rows of indices strictly increase; shape is (rows, most choices of a row).
    Errors: GraphError on operands of different numbers of rows, and on indices outside of them.
    """

    sparse: tuple[bool, ...]
    among: tuple[str, ...] = ()
    splits: tuple[bytes, ...] = ()
    numbered: tuple[int, ...] = ()

    @property
    def num_outputs(self) -> int:  # type: ignore[override]
        """Indices, one an operand, the places, and the shape."""
        return len(self.sparse) + len(self.numbered) + 2

    def split(self, args: tuple[T, ...]) -> list[tuple[T, ...]]:
        """The operands, each as (indices, values, shape) or (values,)."""
        found: list[tuple[T, ...]] = []
        at = 0
        for sparse in self.sparse:
            found.append(args[at : at + (3 if sparse else 1)])
            at += 3 if sparse else 1
        if at != len(args):
            raise ShapeError("choices: another number of operands", got=str(len(args)), want=str(at))
        return found

    def infer(self, *args: Facts) -> Inferred:
        """The data decide how many there are."""
        operands = self.split(args)
        for operand in operands:
            if len(operand) == 3:
                for f, rank in zip(operand, (2, 1, 1), strict=True):
                    want_rank("choices", f, rank)
        known = [_rows(operand) for operand in operands]
        rows = next((r for r in known if r is not None), fresh(2))
        count = fresh(0)
        first = facts.facts("int64", (count,), lo=0, order=Order.NONDECREASING)
        packed = Packed(1, (first, facts.facts("int64", (count,), lo=0)))
        indices = facts.facts("int64", (count, 2), lo=0, order=Order.STRICT, distinct=True, packed=packed)
        values = [operand[1 if len(operand) == 3 else 0] for operand in operands]
        outputs = [facts.facts(f.dtype, (count,), lo=f.lo, hi=f.hi) for f in values]
        outputs += [facts.facts("int64", (count,), lo=0) for _ in self.numbered]
        shape = facts.facts("int64", (2,), content=(rows, fresh(1)))
        return Inferred((indices, *outputs, shape), tuple((rows, r) for r in known if r is not None and r != rows))

    def reference(self, *args: Value) -> Any:
        """One row at a time."""
        operands = [_places(operand) for operand in self.split(args)]
        if len({len(rows) for rows, _ in operands}) != 1:
            raise GraphError("choices: operands differ in rows", got=", ".join(str(len(rows)) for rows, _ in operands))
        rows = [list(itertools.product(*each)) for each in zip(*(rows for rows, _ in operands), strict=True)]
        chosen = np.array([c for row in rows for c in row], np.int64).reshape(-1, len(operands))
        indices = [(r, k) for r, row in enumerate(rows) for k in range(len(row))]
        starts = np.array([[r.start for r in rows] for rows, _ in operands], np.int64).reshape(len(operands), -1)
        first = np.repeat(starts.T, [len(row) for row in rows], axis=0)
        return (
            torch.tensor(indices, dtype=torch.int64).reshape(-1, 2),
            *(like(values, array(values).reshape(-1)[chosen[:, k]]) for k, (_, values) in enumerate(operands)),
            *(torch.from_numpy(chosen[:, k] - first[:, k]) for k in self.numbered),
            torch.tensor([len(rows), max(map(len, rows), default=0)], dtype=torch.int64),
        )


def _rows(operand: tuple[Facts, ...]) -> Any:
    if len(operand) == 3:
        return operand[2].values[0] if operand[2].values else None
    return operand[0].shape[0] if operand[0].shape else None


def _places(operand: tuple[Value, ...]) -> tuple[list[range], Value]:
    """The places of each row's values, and the values."""
    if len(operand) == 1:
        (values,) = operand
        shape = array(values).shape
        width = int(np.prod(shape[1:]))
        return [range(r * width, (r + 1) * width) for r in range(shape[0])], values
    indices, values, shape_of = operand
    first, count = array(indices)[:, 0], integers(shape_of)[0]
    if len(first) != len(array(values)):
        raise GraphError("choices: indices and values differ", got=f"{len(first)} and {len(array(values))}")
    check_range("choices", first, count)
    ends = np.cumsum(np.bincount(first, minlength=count)).tolist()
    return [range(a, b) for a, b in zip([0, *ends], ends, strict=False)], values
