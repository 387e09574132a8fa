"""`slice`: a block of a tensor."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import nonnegative, one, want_rank
from colonnade.ops.graph._slicing import Cut, Step, cut_facts, indexer, lower_steps
from colonnade.ops.graph._values import array, integers, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, fresh


@dataclass(frozen=True)
class Slice(GraphOp):
    """`out = x[begin_0 : begin_0 + size_0, ...]`; size -1: up to the end of the dim.

    Errors: a block that does not lie inside x; nothing is clamped.
    """

    def infer(self, *args: Facts) -> Inferred:
        """Content to content and to shape."""
        x, begin, size = args
        want_rank("slice", begin, 1, "begin")
        want_rank("slice", size, 1, "size")
        if x.shape is None:
            return one(facts.facts(x.dtype, None, lo=x.lo, hi=x.hi))
        return one(cut_facts(x, _steps(x.shape, begin, size)))

    def steps(self, x: Facts, begin: Facts, size: Facts) -> list[Step] | None:
        """One step a dim; None where the rank is not known."""
        return None if x.shape is None else _steps(x.shape, begin, size)

    def reference(self, *args: Value) -> Value:
        """By numpy's basic indexing."""
        x, begin, size = args
        source, first, count = array(x), integers(begin), integers(size)
        if not len(first) == len(count) == source.ndim:
            raise GraphError("slice: not one entry a dim", got=f"{first} and {count}", want=f"{source.ndim} each")
        steps = []
        for d, b, s in zip(source.shape, first, count, strict=True):
            n = d - b if s == -1 else s
            if not (0 <= b <= d and 0 <= n <= d - b):
                raise GraphError(
                    "slice: a block that does not lie inside", got=f"{first} and {count}", want=str(source.shape)
                )
            steps.append(Cut(b, n))
        return like(x, source[indexer(steps)])

    def lower(self, *args: Operand) -> Lowered | None:
        """One aten call a dim that is touched, where all is known."""
        x, begin, size = (a.facts for a in args)
        if x.shape is None or begin.values is None or size.values is None:
            return None
        return lower_steps(args[0].value, x.shape, _steps(x.shape, begin, size))


def _steps(shape: facts.Shape, begin: Facts, size: Facts) -> list[Step]:
    begins: tuple[Dim | None, ...] = begin.values or (None,) * len(shape)
    sizes: tuple[Dim | None, ...] = size.values or (None,) * len(shape)
    if len(begins) != len(shape) or len(sizes) != len(shape):
        raise ShapeError("slice: not one entry a dim", got=f"{begins} and {sizes}", want=f"{len(shape)} each")
    return [_step(k, d, b, s) for k, (d, b, s) in enumerate(zip(shape, begins, sizes, strict=True))]


def _step(k: int, dim: Dim, begin: Dim | None, size: Dim | None) -> Step:
    if size is None or (size == -1 and begin is None):
        return Cut(begin, fresh(k))
    if size != -1:
        first = begin if isinstance(begin, int) else 0
        if isinstance(dim, int) and isinstance(size, int) and not 0 <= first <= dim - size <= dim:
            message = "slice: a block that does not lie inside"
            raise ShapeError(message, got=f"begin {begin}, size {size}", want=f"0 .. {dim}")
        # A block of the whole size can only begin at 0: anything else fails.
        return Cut(0 if size == dim else begin, size)
    assert begin is not None
    left = dims.sub(dim, begin)
    if isinstance(left, int) and left < 0:
        raise ShapeError("slice: a block that does not lie inside", got=f"begin {begin}", want=f"0 .. {dim}")
    return Cut(begin, left if nonnegative(left) else fresh(k))
