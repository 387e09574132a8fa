"""`strided_slice`: Python's slicing of a whole tensor."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts
from colonnade.errors import ColonnadeError, GraphError, ShapeError
from colonnade.ops.graph._facts import nonnegative, one, want_rank
from colonnade.ops.graph._slicing import Cut, New, Step, Take, clamp, cut_facts, indexer, lower_steps
from colonnade.ops.graph._values import array, integers, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, fresh


@dataclass(frozen=True)
class StridedSlice(GraphOp):
    """`out = x[begin_0 : end_0 : stride_0, ...]`; bit k of a mask speaks of entry k of the three vectors.

    begin_mask, end_mask: from, to the very end.   ellipsis_mask: entry k stands for all dims not named.
    new_axis_mask: a new dim of size 1.   shrink_axis_mask: `x[begin_k]`, the dim disappears.
    Errors: stride 0, a shrunk dim's index out of range, more entries than dims.
    """

    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0

    def infer(self, *args: Facts) -> Inferred:
        """Content to content; shape symbolic where clamping provably does nothing."""
        x, begin, end, strides = args
        for f in (begin, end, strides):
            want_rank("strided_slice", f, 1, "begin, end, strides")
        steps = self.steps(x, begin, end, strides)
        return one(facts.facts(x.dtype, None, lo=x.lo, hi=x.hi) if steps is None else cut_facts(x, steps))

    def steps(self, x: Facts, begin: Facts, end: Facts, strides: Facts) -> list[Step] | None:
        """One step a dim, with new dims between; None where the rank or the number of entries is not known."""
        count = next((f.shape[0] for f in (begin, end, strides) if f.shape is not None), None)
        if x.shape is None or not isinstance(count, int):
            return None
        entries = [f.values or (None,) * count for f in (begin, end, strides)]
        return self._steps(x.shape, entries, ShapeError)

    def reference(self, *args: Value) -> Value:
        """By numpy's basic indexing."""
        x, begin, end, strides = args
        source = array(x)
        entries = [integers(v) for v in (begin, end, strides)]
        if len({len(e) for e in entries}) != 1:
            raise GraphError(
                "strided_slice: begin, end, strides of different lengths", got=str(list(map(len, entries)))
            )
        steps = self._steps(source.shape, entries, GraphError)
        return like(x, source[indexer(steps)])

    def lower(self, *args: Operand) -> Lowered | None:
        """One aten call a dim that is touched, where all is known."""
        x, begin, end, strides = (a.facts for a in args)
        entries = [f.values for f in (begin, end, strides)]
        if x.shape is None or any(e is None for e in entries):
            return None
        steps = self._steps(x.shape, entries, ShapeError)  # type: ignore[arg-type]
        return lower_steps(args[0].value, x.shape, steps)

    def is_whole(self, entries: Sequence[Sequence[Dim | None] | None]) -> bool:
        """Whether it takes every element in order, and only adds dims. entries: begin, end, strides, where known."""
        begin, end, strides = entries
        if begin is None or end is None or strides is None:
            return False
        return all(
            _bit(self.new_axis_mask | self.ellipsis_mask, k)
            or (_bit(self.begin_mask, k) and _bit(self.end_mask, k) and strides[k] == 1)
            for k in range(len(strides))
        ) and not (self.shrink_axis_mask & ~(self.new_axis_mask | self.ellipsis_mask))

    def _steps(
        self, shape: facts.Shape, entries: Sequence[Sequence[Dim | None]], kind: type[ColonnadeError]
    ) -> list[Step]:
        """One step a dim, with new dims between."""
        count = len(entries[0])
        named = sum(not _bit(self.new_axis_mask | self.ellipsis_mask, k) for k in range(count))
        if named > len(shape) or sum(_bit(self.ellipsis_mask, k) for k in range(count)) > 1:
            raise kind("strided_slice: more entries than dims", got=f"{count} entries", want=f"{len(shape)} dims")
        left, numbers = len(shape) - named, itertools.count()
        steps: list[Step] = []
        at = 0
        for k in range(count):
            if _bit(self.ellipsis_mask, k):
                steps.extend(Cut(0, d) for d in shape[at : at + left])
                at += left
            elif _bit(self.new_axis_mask, k):
                steps.append(New())
            else:
                steps.append(self._step(k, shape[at], [e[k] for e in entries], numbers, kind))
                at += 1
        steps.extend(Cut(0, d) for d in shape[at:])
        return steps

    def _step(
        self, k: int, dim: Dim, entry: list[Any], numbers: itertools.count[int], kind: type[ColonnadeError]
    ) -> Step:
        begin, end, stride = entry
        shrink = _bit(self.shrink_axis_mask, k)
        if isinstance(stride, int) and (stride == 0 or (shrink and stride < 0)):
            raise kind(
                "strided_slice: a stride it cannot take", got=str(stride), want="not 0; positive for a shrunk dim"
            )
        if shrink:
            return Take(_place(begin, dim, kind))
        if not isinstance(stride, int):
            return Cut(None, fresh(next(numbers)))
        whole_begin, whole_end = _bit(self.begin_mask, k), _bit(self.end_mask, k)
        if (begin is None and not whole_begin) or (end is None and not whole_end):
            return Cut(None, fresh(next(numbers)), stride)
        begin, end = None if whole_begin else begin, None if whole_end else end
        return clamp(begin, end, stride, dim, lambda: fresh(next(numbers)))


def _bit(mask: int, k: int) -> bool:
    return bool(mask >> k & 1)


def _place(begin: Dim | None, dim: Dim, kind: type[ColonnadeError]) -> Dim | None:
    """The index of a shrunk dim counted from 0, where that is known."""
    if isinstance(begin, int) and isinstance(dim, int):
        if not -dim <= begin < dim:
            raise kind("strided_slice: index out of range", got=str(begin), want=f"-{dim} .. {dim - 1}")
        return begin % dim
    if begin == -1:
        return dims.sub(dim, 1)
    return begin if begin is not None and nonnegative(begin) else None
