"""`lookup_table_find`: the value that a table of the model has for each key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.consts import Const
from colonnade.core.facts import Facts
from colonnade.errors import ShapeError
from colonnade.ops.graph._facts import hull, one, want_dtype, want_rank
from colonnade.ops.graph._values import array, tensor
from colonnade.ops.graph.constant import facts_of
from colonnade.ops.op import GraphOp, Inferred, Value


@dataclass(frozen=True)
class LookupTableFind(GraphOp):
    """`out = values[i] where keys[i] == x`, the default where no key is x, for `(x, default)`. Facts: keys differ."""

    keys: Const
    values: Const

    def infer(self, *args: Facts) -> Inferred:
        """The shape is kept; the values and the default."""
        x, default = args
        key, value = facts_of(self.keys.array), facts_of(self.values.array)
        want_dtype("lookup_table_find", x, (key.dtype,), "x")
        want_dtype("lookup_table_find", default, (value.dtype,), "the default")
        want_rank("lookup_table_find", default, 0, "the default")
        if key.shape != value.shape or key.rank != 1:
            raise ShapeError("lookup_table_find: keys without values", got=f"{key.shape} and {value.shape}")
        lo, hi = hull((value, default) if key.shape != (0,) else (default,))
        return one(facts.facts(value.dtype, x.shape, lo=lo, hi=hi))

    def reference(self, *args: Value) -> Value:
        """By a dict."""
        x, default = array(args[0]), array(args[1])
        table = dict(zip(self.keys.array.tolist(), self.values.array.tolist(), strict=True))
        otherwise = default.reshape(-1)[0]
        made = np.empty(x.size, dtype=self.values.array.dtype)
        made[:] = [table.get(key, otherwise) for key in x.reshape(-1).tolist()]
        return tensor(made.reshape(x.shape))
