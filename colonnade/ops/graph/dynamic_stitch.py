"""`dynamic_stitch`: slices of several tensors put into their places of one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one, want_dtype, want_same_dtype
from colonnade.ops.graph._values import array, like
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class DynamicStitch(GraphOp):
    """`out[places_k[i]] = data_k[i]`; operands: the places of each part, then the parts. The last of a place counts.

    Shapes: places [N_k...], data [N_k..., S...] -> [largest place + 1, S...].
    Errors: GraphError on a negative place, and where a place is not given.
    """

    def split(self, args: tuple[Value, ...]) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """Places and data."""
        half = len(args) // 2
        return args[:half], args[half:]

    def infer(self, *args: Facts) -> Inferred:
        """The data decide the number of places."""
        if not args or len(args) % 2:
            raise ShapeError("dynamic_stitch takes places and data", got=f"{len(args)} operands")
        places, data = args[: len(args) // 2], args[len(args) // 2 :]
        for f in places:
            want_dtype("dynamic_stitch", f, ("int32",), "places")
        dtype = want_same_dtype("dynamic_stitch", data)
        rest = next(
            (d.shape[len(p.shape) :] for p, d in zip(places, data, strict=True) if p.shape is not None and d.shape),
            None,
        )
        return one(facts.facts(dtype, None if rest is None else (fresh(0), *rest)))

    def reference(self, *args: Value) -> Value:
        """Part by part."""
        places, data = (tuple(map(array, side)) for side in self.split(args))
        rests = {d.shape[p.ndim :] for p, d in zip(places, data, strict=True)}
        if len(rests) != 1 or any(d.shape[: p.ndim] != p.shape for p, d in zip(places, data, strict=True)):
            raise GraphError("dynamic_stitch: shapes differ", got=", ".join(str(d.shape) for d in data))
        (rest,) = rests
        flat = [p.reshape(-1) for p in places]
        given = np.unique(np.concatenate(flat))
        if given.tolist() != list(range(len(given))):
            raise GraphError("dynamic_stitch: places are negative or not given", got=", ".join(map(str, given[:20])))
        made = np.empty((len(given), *rest), data[0].dtype)
        for at, values in zip(flat, data, strict=True):
            made[at] = values.reshape(len(at), *rest)
        return like(args[-1], made)
