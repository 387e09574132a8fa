"""`gather`: slices of a tensor, by index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.facts import Content, Facts, Packed
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import axis_in, flat, grid, one, want_dtype
from colonnade.ops.graph._values import array, axis_of, check_range, integer, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class Gather(GraphOp):
    """`out[p, i, s] = params[p, indices[i], s]`, p being the dims before `axis`, s those after it.

    batch_dims: that many first dims of params and indices go together.
    Errors: GraphError on an index out of range, also a negative one.
    """

    batch_dims: int = 0

    def infer(self, *args: Facts) -> Inferred:
        """Content of small integer tensors; taking rows keeps what holds of the rows."""
        params, indices, axis = args
        want_dtype("gather", indices, ("int32", "int64"), "indices")
        at = axis.integer
        if params.shape is None or indices.shape is None or at is None:
            return one(facts.facts(params.dtype, None, lo=params.lo, hi=params.hi))
        at = axis_in("gather", at, len(params.shape))
        batch = self._batch(len(indices.shape), at, ShapeError)
        equal = tuple(zip(params.shape[:batch], indices.shape[:batch], strict=True))
        if batch == 0 and at == 0 and len(indices.shape) == 1 and params.shape:
            return one(take_rows(params, indices), equal)
        shape = (*params.shape[:at], *indices.shape[batch:], *params.shape[at + 1 :])
        content = _content(params, indices, at) if batch == 0 else None
        return one(facts.facts(params.dtype, shape, lo=params.lo, hi=params.hi, content=content), equal)

    def _batch(self, rank: int, axis: int, kind: type[GraphError] | type[ShapeError]) -> int:
        batch = self.batch_dims + rank if self.batch_dims < 0 else self.batch_dims
        if not 0 <= batch <= min(rank, axis):
            raise kind("gather: batch_dims out of range", got=str(self.batch_dims), want=f"at most {min(rank, axis)}")
        return batch

    def reference(self, *args: Value) -> Value:
        """By numpy, one batch at a time."""
        params, indices, axis = args
        source, places = array(params), array(indices)
        at = axis_of("gather", integer(axis), source.ndim)
        batch = self._batch(places.ndim, at, GraphError)
        if source.shape[:batch] != places.shape[:batch]:
            raise GraphError("gather: batch dims differ", got=f"{source.shape} and {places.shape}")
        shape = (*source.shape[:at], *places.shape[batch:], *source.shape[at + 1 :])
        made = np.empty(shape, dtype=source.dtype)
        if made.size == 0:
            # TensorFlow looks at no index where there is nothing to copy.
            return like(params, made)
        check_range("gather", places, source.shape[at])
        for k in np.ndindex(*source.shape[:batch]):
            made[k] = np.take(source[k], places[k], axis=at - batch)
        return like(params, made)

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.index_select; aten.select for a known scalar index; aten.gather with dims that go together."""
        params, indices, axis = args
        at, shape, places = axis.facts.integer, params.facts.shape, indices.facts.shape
        if at is None or shape is None or places is None or params.facts.dtype == "string":
            return None
        at = axis_in("gather", at, len(shape))
        batch = self._batch(len(places), at, ShapeError)
        k = indices.facts.integer
        if not places and k is not None:
            # TensorFlow refuses a negative index, aten counts it from the end.
            return None if k < 0 else Lowered("aten.select.int", (params.value, at, k))
        out = (*shape[:at], *places[batch:], *shape[at + 1 :])
        if batch:
            return _lower_batched(params, indices, at, batch, out)
        flat_places = indices.value if len(places) == 1 else Lowered("aten.reshape.default", (indices.value, (-1,)))
        made = Lowered("aten.index_select.default", (params.value, at, flat_places))
        return made if len(places) == 1 else Lowered("aten.reshape.default", (made, out))


def _lower_batched(params: Operand, indices: Operand, at: int, batch: int, out: facts.Shape) -> Lowered:
    """aten.gather by indices that are spread over the dims which they do not name."""
    shape, places = params.facts.shape or (), indices.facts.shape or ()
    count = dims.prod(places[batch:])
    lined = (*places[:batch], *(1,) * (at - batch), count, *(1,) * (len(shape) - at - 1))
    index: Any = indices.value
    if indices.facts.dtype != "int64":
        index = Lowered("aten._to_copy.default", (index,), (("dtype", "int64"),))
    index = Lowered("aten.reshape.default", (index, lined))
    spread = (*places[:batch], *shape[batch:at], count, *shape[at + 1 :])
    index = index if lined == spread else Lowered("aten.expand.default", (index, spread))
    made = Lowered("aten.gather.default", (params.value, at, index))
    return made if out == spread else Lowered("aten.reshape.default", (made, out))


def take_rows(params: Facts, indices: Facts) -> Facts:
    """Facts of `params[indices]` for a vector of row numbers."""
    assert params.shape is not None and indices.shape is not None
    if facts.is_iota(indices) and indices.shape[0] == params.shape[0]:
        return params
    shape = (indices.shape[0], *params.shape[1:])
    packed = params.packed
    if packed is not None and len(params.shape) == 2 and packed.axis == 1:
        packed = Packed(1, tuple(take_rows(p, indices) for p in packed.parts))
    else:
        packed = None
    known: dict[str, Any] = {"distinct": params.distinct and indices.distinct}
    known["order"] = min(params.order, indices.order)
    content = _content(params, indices, 0)
    return facts.facts(params.dtype, shape, lo=params.lo, hi=params.hi, content=content, packed=packed, **known)


def _content(params: Facts, indices: Facts, axis: int) -> Content | None:
    known, places = grid(params), grid(indices)
    if known is not None and places is not None and all(isinstance(k, int) for k in places.flat):
        if all(0 <= k < known.shape[axis] for k in places.flat):
            return flat(np.take(known, places.astype(np.int64), axis=axis))
        return None
    form = facts.as_indexed(params)
    return form if form is not None and not form.terms else None
