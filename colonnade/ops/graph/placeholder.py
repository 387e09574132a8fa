"""`placeholder`: an input of the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from colonnade.core import dims, facts
from colonnade.core.consts import Const
from colonnade.errors import GraphError
from colonnade.ops.op import GraphOp, Inferred, Value


@dataclass(frozen=True)
class Placeholder(GraphOp):
    """A tensor that the caller feeds. shape: int, symbol name (str) for an unknown dim; None: unknown rank.

    default: what it is where a request leaves it out, of whatever shape that has.
    Facts: unknown dims are symbols of the given names; two placeholders with one name share the dim.
    """

    key: str
    dtype: str
    shape: tuple[int | str, ...] | None
    default: Const | None = None

    def attributes(self) -> Iterator[tuple[str, Any]]:
        """Its attributes by name; the default where it has one."""
        return ((name, value) for name, value in super().attributes() if name != "default" or value is not None)

    def renamed(self, names: Mapping[str, str]) -> Placeholder:
        """The same input with other names of dims."""
        if self.shape is None:
            return self
        return replace(self, shape=tuple(names.get(d, d) if isinstance(d, str) else d for d in self.shape))

    def infer(self, *args: facts.Facts) -> Inferred:
        """dtype and symbolic shape."""
        if self.shape is None:
            return Inferred((facts.facts(self.dtype, None),))
        shape = tuple(d if isinstance(d, int) else dims.symbol(d) for d in self.shape)
        return Inferred((facts.facts(self.dtype, shape),))

    def reference(self, *args: Value) -> Value:
        """Never computed: it is fed."""
        raise GraphError(f"input {self.key!r} was not fed")
