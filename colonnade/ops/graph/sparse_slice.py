"""`sparse_slice`: the elements of a sparse tensor that lie in a box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.ops.graph._facts import plain, want_dtype, want_rank
from colonnade.ops.graph._values import array, integers, like
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class SparseSlice(GraphOp):
    """`(indices - start, values, shape)` of the elements with `start <= index < start + size` in every dim.

    Operands: indices, values, shape, start, size. The result is no longer in any dim than what lies behind its start.
    """

    num_outputs: ClassVar[int] = 3

    def infer(self, *args: Facts) -> Inferred:
        """The shape, where it is all of the old one or known in numbers."""
        indices, values, *others = args
        want_dtype("sparse_slice", indices, ("int64",), "indices")
        want_rank("sparse_slice", indices, 2, "indices")
        want_rank("sparse_slice", values, 1, "values")
        for f, operand in zip(others, ("shape", "start", "size"), strict=True):
            want_rank("sparse_slice", f, 1, operand)
        shape, start, size = others
        counts = [f.shape[0] for f in (indices, values) if f.shape is not None]
        equal = ((counts[0], counts[1]),) if len(counts) == 2 and counts[0] != counts[1] else ()
        width = indices.shape[1] if indices.shape is not None else fresh(1)
        content = None
        if shape.values is not None and shape.values == size.values and start.ints is not None and not any(start.ints):
            content = shape.values
        elif shape.ints is not None and start.ints is not None and size.ints is not None:
            content = tuple(_lengths(shape.ints, start.ints, size.ints))
        count = fresh(0)
        made = facts.facts("int64", (count, width), lo=0)
        rank = shape.shape[0] if shape.shape is not None else width
        sizes = facts.facts("int64", (rank,), content=content)
        return Inferred((made, plain(values, (count,)), sizes), equal)

    def reference(self, *args: Value) -> tuple[Value, Value, Value]:
        """By numpy."""
        indices, values = array(args[0]), array(args[1])
        shape, start, size = (integers(a) for a in args[2:])
        first, last = np.array(start, np.int64), np.array([a + b for a, b in zip(start, size, strict=True)], np.int64)
        kept = ((indices >= first) & (indices < last)).all(1)
        made = torch.tensor(_lengths(shape, start, size), dtype=torch.int64)
        return torch.from_numpy(indices[kept] - first), like(args[1], values[kept]), made


def _lengths(
    shape: list[int] | tuple[int, ...], start: list[int] | tuple[int, ...], size: list[int] | tuple[int, ...]
) -> list[int]:
    return [max(0, min(n, d - s)) for d, s, n in zip(shape, start, size, strict=True)]
