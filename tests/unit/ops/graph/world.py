"""Runs graph ops by `infer` and `reference` side by side and checks that every inferred fact holds of the value."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy
import torch

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts, Indexed, Order, Packed
from colonnade.errors import ColonnadeError
from colonnade.ops.graph.constant import facts_of
from colonnade.ops.op import GraphOp, Inferred, Value


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
class World:
    """The sizes that symbols stand for, and a source of randomness."""

    random: random.Random
    sizes: dict[sympy.Symbol, int] = field(default_factory=dict)
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

    def size(self, d: Dim) -> int:
        return dims.evaluate(d, self.sizes)

    def bind(self, f: Facts, value: Value) -> None:
        """Learn the sizes that only the data decide."""
        if f.shape is not None:
            assert len(f.shape) == value.ndim, f"{f.shape} of {tuple(value.shape)}"
            for d, n in zip(f.shape, value.shape, strict=True):
                self._learn(d, int(n))
        if isinstance(f.content, tuple) and isinstance(value, torch.Tensor):
            for d, n in zip(f.content, value.reshape(-1).tolist(), strict=True):
                self._learn(d, int(n))

    def _learn(self, d: Dim, n: int) -> None:
        if isinstance(d, sympy.Symbol) and d not in self.sizes:
            self.sizes[d] = n

    # -- checking ----------------------------------------------------------------------------------------------------
    def check(self, f: Facts, value: Value, what: str) -> None:
        """Every fact against the value."""
        array = value.numpy() if isinstance(value, torch.Tensor) else value
        said = f"{what}: {f} of {array!r}"
        assert f.dtype == ("string" if array.dtype == object else array.dtype.name), said
        if f.shape is not None:
            assert tuple(self.size(d) for d in f.shape) == array.shape, said
        flat = array.reshape(-1).tolist()
        if flat and f.lo is not None:
            assert min(flat) >= f.lo, said
        if flat and f.hi is not None:
            assert max(flat) <= f.hi, said
        if f.content is not None:
            assert self.content(f.content, len(flat)) == [int(v) for v in flat], said
        if array.ndim >= 1:
            self._check_rows(f, array, said)
        if f.packed is not None:
            self._check_packed(f, f.packed, array, what)

    def content(self, content: facts.Content, size: int) -> list[int]:
        if isinstance(content, tuple):
            return [self.size(d) for d in content]
        return [self._at(content, i) for i in range(size)]

    def _at(self, content: Indexed, i: int) -> int:
        total = self.size(content.constant)
        for t in content.terms:
            step = i // self.size(t.divisor)
            total += self.size(t.coefficient) * (step if t.modulus is None else step % self.size(t.modulus))
        return total

    def _check_rows(self, f: Facts, array: Any, said: str) -> None:
        rows = [tuple(r) for r in array.reshape(len(array), math.prod(array.shape[1:])).tolist()]
        pairs = list(itertools.pairwise(rows))
        if f.order >= Order.NONDECREASING:
            assert all(a <= b for a, b in pairs), said
        if f.order >= Order.STRICT:
            assert all(a < b for a, b in pairs), said
        if f.distinct:
            assert len(set(rows)) == len(rows), said

    def _check_packed(self, f: Facts, packed: Packed, array: Any, what: str) -> None:
        assert len(packed.parts) == array.shape[packed.axis], f"{what}: {f}"
        for k, part in enumerate(packed.parts):
            self.check(part, value_of(np.take(array, k, packed.axis)), f"{what} part {k}")


def value_of(array: Any) -> Value:
    """The tensor of an array."""
    array = np.asarray(array)
    return array if array.dtype == object else torch.from_numpy(np.array(array, order="C"))
