"""`sparse_reorder`: elements of a sparse tensor sorted by their indices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.facts import Facts, Order, Packed
from colonnade.ops.graph._facts import plain, want_dtype, want_rank
from colonnade.ops.graph._values import array, like
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class SparseReorder(GraphOp):
    """`(indices, values)` in the order of the index tuples; equal ones stay as they come.

    Operands: indices, values, shape. (TensorFlow leaves the order of equal ones open.)
    """

    num_outputs: ClassVar[int] = 2

    def infer(self, *args: Facts) -> Inferred:
        """The operands' ranges; rows sorted."""
        indices, values, shape = args
        want_dtype("sparse_reorder", indices, ("int64",), "indices")
        want_rank("sparse_reorder", indices, 2, "indices")
        want_rank("sparse_reorder", values, 1, "values")
        want_rank("sparse_reorder", shape, 1, "shape")
        counts = [f.shape[0] for f in (indices, values) if f.shape is not None]
        equal = ((counts[0], counts[1]),) if len(counts) == 2 and counts[0] != counts[1] else ()
        count = counts[0] if counts else fresh(0)
        width = indices.shape[1] if indices.shape is not None else fresh(1)
        made = facts.facts("int64", (count, width), lo=indices.lo, hi=indices.hi, packed=_sorted(indices))
        return Inferred((made, plain(values, (count,))), equal)

    def reference(self, *args: Value) -> tuple[Value, Value]:
        """By numpy."""
        indices, values = array(args[0]), array(args[1])
        order = np.lexsort(indices.T[::-1]) if indices.shape[1] else np.arange(len(indices))
        return torch.from_numpy(indices[order]), like(args[1], values[order])


def _sorted(indices: Facts) -> Packed | None:
    """The columns: the first one sorted, of the others only the range is left."""
    if indices.packed is None or indices.packed.axis != 1 or not indices.packed.parts:
        return None
    parts = [facts.facts("int64", p.shape, lo=p.lo, hi=p.hi) for p in indices.packed.parts]
    first = facts.facts("int64", parts[0].shape, lo=parts[0].lo, hi=parts[0].hi, order=Order.NONDECREASING)
    return Packed(1, (first, *parts[1:]))
