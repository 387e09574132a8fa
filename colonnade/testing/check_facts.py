"""Holds facts against the values that they speak of."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy
import torch

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts, Indexed, Order, Packed
from colonnade.ir.graph import Graph, source_of
from colonnade.ir.interpret import interpret, needed_by
from colonnade.ops.op import Value


def check_facts(graph: Graph, feed: Mapping[str, Value]) -> None:
    """Every fact of every node that an output needs, against the node's value for a feed.

    Errors: AssertionError naming the node; whatever an op raises.
    """
    held = Holds()
    last = needed_by(graph.outputs.values())
    needed = [node for node in graph.nodes() if node in last]
    values = interpret(graph, feed, needed)
    for node in needed:
        known, value = node.meta["facts"], values[node.name]
        pairs = [(known, value)] if isinstance(known, Facts) else list(zip(known, value, strict=True))
        for f, v in pairs:
            held.bind(f, v)
            held.check(f, v, f"%{node} ({source_of(node)})")


@dataclass
class Holds:
    """The sizes that symbols stand for, learnt from values as they come, and what is said in terms of them."""

    sizes: dict[sympy.Symbol, int] = field(default_factory=dict, kw_only=True)

    def size(self, d: Dim) -> int:
        """The size that a dim stands for."""
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
        rest, added = (dims.sub(d, 1), 1) if isinstance(d, sympy.Add) else (d, 0)  # splits: one more than rows
        if isinstance(rest, sympy.Symbol) and rest not in self.sizes:
            self.sizes[rest] = n - added

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
