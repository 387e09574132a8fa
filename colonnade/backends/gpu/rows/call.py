"""The arguments of one instruction as its rule reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy

from colonnade.backends.gpu.rows.values import Shape, Unproven, Value, holds
from colonnade.core.dims import Dim


@dataclass
class Call:
    """One instruction's arguments by name, with values in place of names; notes which of them its rule has looked at.

    Errors: every method raises Unproven where the argument is not what it gives.
    """

    arguments: Mapping[str, Any]
    batch: sympy.Symbol
    seen: set[str] = field(default_factory=set)

    def tensor(self, name: str = "self") -> Value:
        """An operand."""
        self.seen.add(name)
        found = self.arguments[name]
        if not isinstance(found, Value):
            raise Unproven(f"argument {name!r} is no tensor")
        return found

    def tensors(self, name: str) -> list[Value]:
        """A list of operands."""
        self.seen.add(name)
        found = self.arguments[name]
        if not isinstance(found, list | tuple) or not found or not all(isinstance(v, Value) for v in found):
            raise Unproven(f"argument {name!r} is no list of tensors")
        return list(found)

    def operands(self) -> list[Value]:
        """All arguments that are tensors."""
        names = [k for k, v in self.arguments.items() if isinstance(v, Value)]
        return [self.tensor(name) for name in names]

    def size(self, name: str) -> Shape:
        """A list of dims, in which the batch may stand."""
        self.seen.add(name)
        found = self.arguments[name]
        if not isinstance(found, list | tuple) or not all(_is_dim(d) for d in found):
            raise Unproven(f"argument {name!r} is no shape")
        return tuple(found)

    def dim(self, name: str) -> Dim:
        """A dim, in which the batch may stand."""
        self.seen.add(name)
        found = self.arguments[name]
        if not _is_dim(found):
            raise Unproven(f"argument {name!r} is no size")
        return found

    def integer(self, name: str) -> int:
        """A known integer."""
        found = self.dim(name)
        if not isinstance(found, int):
            raise Unproven(f"argument {name!r} is no known integer")
        return found

    def axis(self, rank: int, name: str = "dim") -> int:
        """An axis, counted from the front."""
        return counted(self.integer(name), rank)

    def axes(self, rank: int, name: str = "dim") -> tuple[int, ...]:
        """Some axes, counted from the front: one, a list, or all where none is given."""
        found = self.arguments.get(name)
        self.seen.add(name)
        if found is None:
            return tuple(range(rank))
        listed = self.size(name) if isinstance(found, list | tuple) else (self.integer(name),)
        if not listed or not all(isinstance(k, int) for k in listed):
            raise Unproven(f"argument {name!r} lists no known axes")
        return tuple(counted(int(k), rank) for k in listed)

    def check_rest(self) -> None:
        """Every argument that the rule has not looked at must be a value that padding does not change."""
        for name in self.arguments.keys() - self.seen:
            if holds(self.batch, self.arguments[name]):
                raise Unproven(f"the batch size is a value: argument {name!r}")
            if _has_values(self.arguments[name]):
                raise Unproven(f"a tensor as argument {name!r}")


def _is_dim(value: Any) -> bool:
    return isinstance(value, int | sympy.Expr) and not isinstance(value, bool)


def _has_values(value: Any) -> bool:
    return isinstance(value, Value) or (isinstance(value, list | tuple) and any(map(_has_values, value)))


def counted(axis: int, rank: int) -> int:
    """An axis, counted from the front. Errors: Unproven where there is none such."""
    if not -rank <= axis < rank:
        raise Unproven(f"no axis {axis} of {rank}")
    return axis % rank
