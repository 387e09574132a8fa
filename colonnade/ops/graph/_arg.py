"""What `arg_max` and `arg_min` share."""

from __future__ import annotations

from typing import ClassVar

import torch

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError
from colonnade.ops.graph._elementwise import NUMBERS
from colonnade.ops.graph._facts import axis_in, one, want_dtype
from colonnade.ops.graph._values import axis_of, integer, numbers
from colonnade.ops.op import Inferred, Lowered, Operand, Value, torch_dtype


class Arg:
    """The first position of an extreme along an axis; a subclass says which function of torch it is."""

    name: ClassVar[str]
    aten: ClassVar[str]
    out_type: str

    def infer(self, *args: Facts) -> Inferred:
        """The shape without the axis."""
        x, axis = args
        want_dtype(self.name, x, NUMBERS)
        if x.shape is None or axis.integer is None:
            return one(facts.facts(self.out_type, None, lo=0))
        at = axis_in(self.name, axis.integer, len(x.shape))
        size = x.shape[at]
        hi = size - 1 if isinstance(size, int) and size > 0 else None
        return one(facts.facts(self.out_type, (*x.shape[:at], *x.shape[at + 1 :]), lo=0, hi=hi))

    def reference(self, *args: Value) -> Value:
        """In torch."""
        x = numbers(args[0], self.name)
        at = axis_of(self.name, integer(args[1]), x.ndim)
        if x.shape[at] == 0:
            raise GraphError(f"{self.name}: an axis without elements", got=str(tuple(x.shape)))
        found: torch.Tensor = getattr(x, self.aten)(at)
        return found.to(torch_dtype(self.out_type))

    def lower(self, *args: Operand) -> Lowered | None:
        """The aten op, which answers in int64."""
        x, axis = args
        if axis.facts.integer is None:
            return None
        made = Lowered(f"aten.{self.aten}.default", (x.value, axis.facts.integer))
        return (
            made if self.out_type == "int64" else Lowered("aten._to_copy.default", (made,), (("dtype", self.out_type),))
        )
