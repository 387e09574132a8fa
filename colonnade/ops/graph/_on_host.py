"""What the ops share that make strings of strings: the host does them, before a request is packed."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.ops.graph._facts import broadcast, one, want_dtype
from colonnade.ops.graph._values import array
from colonnade.ops.op import Inferred, Value


class OnHost:
    """`out = text(x, ...)`, elementwise, with broadcasting."""

    name: ClassVar[str]

    def text(self, *values: bytes) -> bytes:
        """The result for one element."""
        raise TypeError(f"{type(self).__name__} defines no text")

    def infer(self, *args: Facts) -> Inferred:
        """Strings of the operands' shape."""
        for x in args:
            want_dtype(self.name, x, ("string",))
        shape, equal = broadcast(self.name, *(x.shape for x in args))
        return one(facts.facts("string", shape), equal)

    def reference(self, *args: Value) -> Value:
        """One element at a time."""
        values = np.broadcast_arrays(*map(array, args))
        made = np.empty(values[0].size, object)
        made[:] = [self.text(*each) for each in zip(*(x.reshape(-1) for x in values), strict=True)]
        return made.reshape(values[0].shape)
