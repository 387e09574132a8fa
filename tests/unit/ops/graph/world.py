"""Runs graph ops by `infer` and `reference` side by side and checks that every inferred fact holds of the value."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy
import torch

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts
from colonnade.errors import ColonnadeError
from colonnade.ops.graph.constant import facts_of
from colonnade.ops.op import GraphOp, Inferred, Value
from colonnade.testing.check_facts import Holds, value_of


class Refused(Exception):
    """The op raised on these operands: by inference, by reference, or by an equality that does not hold."""


@dataclass(frozen=True)
class Val:
    """A tensor, and what is said of it."""

    value: Value
    facts: Facts

    @property
    def array(self) -> Any:
        return self.value.numpy() if isinstance(self.value, torch.Tensor) else self.value


@dataclass
class World(Holds):
    """The sizes that symbols stand for, and a source of randomness."""

    random: random.Random
    made: int = 0

    # -- operands ----------------------------------------------------------------------------------------------------
    def dim(self, size: int) -> Dim:
        """The size itself, or a symbol for it."""
        if size < 0 or self.random.random() < 0.4:
            return size
        named = dims.symbol(f"s{size}")
        self.sizes[named] = size
        return named

    def fed(self, array: Any) -> Val:
        """A placeholder: nothing is known but dtype and shape."""
        array = np.asarray(array)
        name = "string" if array.dtype == object else array.dtype.name
        return Val(value_of(array), facts.facts(name, tuple(self.dim(d) for d in array.shape)))

    def known(self, array: Any) -> Val:
        """A constant."""
        array = np.asarray(array)
        return Val(value_of(array), facts_of(array))

    def sized(self, numbers: Sequence[int], dtype: str = "int32") -> Val:
        """A vector whose content is known, numbers or symbols for them."""
        content = tuple(self.dim(v) for v in numbers)
        return Val(value_of(np.array(numbers, dtype=dtype)), facts.facts(dtype, (len(content),), content=content))

    def scalar(self, number: int, dtype: str = "int32") -> Val:
        """A scalar whose content is known, a number or a symbol for it."""
        return Val(value_of(np.array(number, dtype=dtype)), facts.facts(dtype, (), content=(self.dim(number),)))

    def any(self, array: Any) -> Val:
        """Fed or known."""
        return self.random.choice([self.fed, self.known])(array)

    # -- running -----------------------------------------------------------------------------------------------------
    def run(self, op: GraphOp, *args: Val) -> tuple[Val, ...]:
        """All outputs. Errors: Refused; AssertionError where a fact does not hold."""
        try:
            inferred: Inferred | None = op.infer(*(a.facts for a in args))
        except ColonnadeError:
            inferred = None
        try:
            got = op.reference(*(a.value for a in args))
        except ColonnadeError as error:
            raise Refused(str(error)) from error
        assert inferred is not None, f"infer refuses what reference answers: {op}"
        values = (got,) if op.num_outputs == 1 else got
        assert len(values) == len(inferred.outputs) == op.num_outputs
        own = self._own(inferred)
        outputs = [facts.substitute(f, own) for f in inferred.outputs]
        for f, v in zip(outputs, values, strict=True):
            self.bind(f, v)
        for a, b in inferred.equal:
            if self.size(dims.substitute(a, own)) != self.size(dims.substitute(b, own)):
                raise Refused(f"{a} != {b}")
        for f, v in zip(outputs, values, strict=True):
            self.check(f, v, str(op))
        return tuple(Val(v, f) for f, v in zip(outputs, values, strict=True))

    def one(self, op: GraphOp, *args: Val) -> Val:
        """The only output."""
        (made,) = self.run(op, *args)
        return made

    def _own(self, inferred: Inferred) -> dict[sympy.Symbol, Dim]:
        """A symbol of the node's own for every fresh one."""
        self.made += 1
        found = {s for f in inferred.outputs for s in facts.symbols_of(f) if s.name.startswith("fresh_")}
        return {s: dims.symbol(f"n{self.made}_{s.name}") for s in found}
