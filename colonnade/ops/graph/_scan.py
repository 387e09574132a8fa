"""What `cumsum` and `cumprod` share: running results along an axis."""

from __future__ import annotations

from typing import ClassVar

import torch

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.ops.graph._elementwise import NUMBERS
from colonnade.ops.graph._facts import axis_in, one, want_dtype, want_rank
from colonnade.ops.graph._values import axis_of, integer, numbers
from colonnade.ops.op import Inferred, Lowered, Operand, Value


class Scan:
    """`out[i] = f over x[.. i]` along an axis; `exclusive` leaves x[i] itself out, `reverse` begins at the end."""

    name: ClassVar[str]
    aten: ClassVar[str]
    start: ClassVar[int]
    exclusive: bool
    reverse: bool

    def infer(self, *args: Facts) -> Inferred:
        """The shape is kept."""
        x, axis = args
        want_dtype(self.name, x, NUMBERS)
        want_rank(self.name, axis, 0, "axis")
        if x.shape is not None and axis.integer is not None:
            axis_in(self.name, axis.integer, len(x.shape))
        return one(facts.facts(x.dtype, x.shape))

    def reference(self, *args: Value) -> Value:
        """By torch."""
        x = numbers(args[0], self.name)
        at = axis_of(self.name, integer(args[1]), x.ndim)
        x = x.flip(at) if self.reverse else x
        if self.exclusive:
            shape = [*x.shape]
            shape[at] = 1
            x = torch.cat([x.new_full(shape, self.start), x], at)
        made: torch.Tensor = getattr(x, self.aten)(at, dtype=x.dtype)
        made = made.narrow(at, 0, made.shape[at] - 1) if self.exclusive else made
        return made.flip(at) if self.reverse else made

    def lower(self, *args: Operand) -> Lowered | None:
        """The aten op, of a flipped tensor, with the start in front, where asked."""
        x, axis = args
        shape, at = x.facts.shape, axis.facts.integer
        if shape is None or at is None:
            return None
        at = axis_in(self.name, at, len(shape))
        made = Lowered("aten.flip.default", (x.value, (at,))) if self.reverse else x.value
        if self.exclusive:
            pads = (*(0, 0) * (len(shape) - 1 - at), 1, 0)
            made = Lowered("aten.constant_pad_nd.default", (made, pads, self.start))
        made = Lowered(f"aten.{self.aten}.default", (made, at), (("dtype", x.facts.dtype),))
        if self.exclusive:
            made = Lowered("aten.narrow.default", (made, at, 0, shape[at]))
        return Lowered("aten.flip.default", (made, (at,))) if self.reverse else made
