"""`where`: the indices of the true elements."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.core import dims, facts
from colonnade.core.facts import Order, Packed, Term
from colonnade.errors import ShapeError
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class Where(GraphOp):
    """`[N, rank]` int64 indices of the true elements of a bool tensor, in row-major order.

    Facts: rows strictly increase, lexicographically. Where every element is proven true, N is the size of the mask and
    column k of the indices is `(i // stride_k) % dim_k`.
    """

    def infer(self, *args: facts.Facts) -> Inferred:
        """A stack of index columns, each with its range and order."""
        (mask,) = args
        if mask.dtype != "bool" or mask.shape is None:
            raise ShapeError("where takes a bool tensor of known rank", got=f"{mask.dtype} {mask.shape}")
        all_true = mask.lo == 1
        count = dims.prod(mask.shape) if all_true else fresh(0)
        trivial = [d == 1 for d in mask.shape]
        columns = []
        for k, dim in enumerate(mask.shape):
            content = None
            if all_true:
                stride = dims.prod(mask.shape[k + 1 :])
                content = facts.indexed((Term(1, stride, dim),), 0, count)
            first = k == 0 or all(trivial[:k])
            alone = all(trivial[:k]) and all(trivial[k + 1 :])
            order = Order.STRICT if alone else Order.NONDECREASING if first else Order.NONE
            hi = dim - 1 if isinstance(dim, int) else None
            columns.append(facts.facts("int64", (count,), lo=0, hi=hi, order=order, content=content))
        shape = (count, len(mask.shape))
        packed = Packed(1, tuple(columns)) if columns else None
        # A mask of rank 1: the only column is the flat content of the whole matrix too.
        flat = columns[0].content if len(columns) == 1 else None
        made = facts.facts("int64", shape, lo=0, order=Order.STRICT, distinct=True, content=flat, packed=packed)
        return Inferred((made,))

    def reference(self, *args: Value) -> Value:
        """By torch.nonzero."""
        (mask,) = args
        assert isinstance(mask, torch.Tensor)
        return torch.nonzero(mask)
