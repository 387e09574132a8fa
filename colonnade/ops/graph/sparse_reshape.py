"""`sparse_reshape`: indices of a sparse tensor in another shape."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts, Indexed, Packed, Term
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import combine, scale, want_dtype, want_rank
from colonnade.ops.graph._values import array, integers
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class SparseReshape(GraphOp):
    """`(indices, shape)` of the same elements in the new shape, in which one -1 stands for what is left.

    Facts: where the new shape is proven to be the old one, the indices are the same.
    """

    num_outputs: ClassVar[int] = 2

    def infer(self, *args: Facts) -> Inferred:
        """Content of the shapes; facts of the index columns where they are kept or closed."""
        indices, old, new = args
        want_dtype("sparse_reshape", indices, ("int64",), "indices")
        for f, operand, rank in ((indices, "indices", 2), (old, "shape", 1), (new, "new shape", 1)):
            want_rank("sparse_reshape", f, rank, operand)
        shape = _solve(old.values, new.values) if new.values is not None else None
        equal = ((dims.prod(old.values), dims.prod(shape)),) if shape is not None and old.values is not None else ()
        if equal and all(isinstance(d, int) for d in equal[0]) and equal[0][0] != equal[0][1]:
            raise ShapeError("sparse_reshape to another number of elements", got=f"{old.values} -> {shape}")
        rank = new.shape[0] if new.shape is not None else fresh(1)
        made_shape = facts.facts("int64", (rank,), content=shape)
        return Inferred(
            (_indices(indices, old.values, shape, rank), made_shape), tuple(p for p in equal if p[0] != p[1])
        )

    def reference(self, *args: Value) -> tuple[Value, Value]:
        """By numpy: the flat index of each element, cut anew."""
        indices, old, new = array(args[0]), integers(args[1]), integers(args[2])
        free = [k for k, d in enumerate(new) if d == -1]
        others = math.prod(d for d in new if d != -1)
        size = math.prod(old)
        if len(free) > 1 or min(new, default=0) < -1 or (free and others == 0):
            raise GraphError("sparse_reshape to a shape it cannot take", got=f"{old} -> {new}")
        if free:
            new[free[0]] = size // others
        if math.prod(new) != size:
            raise GraphError("sparse_reshape to another number of elements", got=f"{old} -> {new}")
        flat = indices @ np.array(_strides(old), dtype=np.int64) if old else np.zeros(len(indices), np.int64)
        made = np.empty((len(indices), len(new)), dtype=np.int64)
        for k, stride in enumerate(_strides(new)):
            # Division toward 0: an index outside its dim is carried along, not refused.
            made[:, k] = np.sign(flat) * (abs(flat) // stride) if stride else 0
            flat = flat - made[:, k] * stride
        return torch.from_numpy(made), torch.tensor(new, dtype=torch.int64)


def _strides(shape: list[int]) -> list[int]:
    return [math.prod(shape[k + 1 :]) for k in range(len(shape))]


def _solve(old: tuple[Dim, ...] | None, new: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """The new shape with its -1 replaced."""
    if -1 not in new:
        return new
    if old is None:
        return None
    at = new.index(-1)
    others = dims.prod(d for d in new if d != -1)
    if others == 0:
        return None
    return (*new[:at], dims.floor_divide(dims.prod(old), others), *new[at + 1 :])


def _indices(x: Facts, old: tuple[Dim, ...] | None, new: tuple[Dim, ...] | None, rank: Dim) -> Facts:
    if old is not None and old == new:
        return x
    count = x.shape[0] if x.shape is not None else fresh(0)
    lo = 0 if x.lo is not None and x.lo >= 0 else None
    packed = None
    if new is not None and old is not None and x.packed is not None and x.packed.axis == 1:
        packed = _columns(x.packed.parts, old, new, count)
    return facts.facts("int64", (count, rank), lo=lo, packed=packed)


def _columns(parts: tuple[Facts, ...], old: tuple[Dim, ...], new: tuple[Dim, ...], count: Dim) -> Packed | None:
    """The new index columns where the flat index of element i is proven to be i."""
    total = Indexed((), 0)
    for k, part in enumerate(parts):
        form = facts.as_indexed(part)
        if form is None:
            return None
        total = combine(total, scale(form, dims.prod(old[k + 1 :]), count), count)
    if total != facts.iota(count):
        return None
    columns = []
    for k, d in enumerate(new):
        content = facts.indexed((Term(1, dims.prod(new[k + 1 :]), d),), 0, count)
        columns.append(facts.facts("int64", (count,), lo=0, content=content))
    return Packed(1, tuple(columns))
