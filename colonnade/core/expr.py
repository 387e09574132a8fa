"""Expressions over the elements of input fields: `Field`, and `Apply` of a column op to expressions.

Expressions are interned: equal expressions are one object, so shared prefixes are shared and equality is identity.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, ClassVar

from colonnade.core.fork import Lock

_LOCK = Lock()


class Expr:
    """A value for each element of a column: `Field` or `Apply`."""

    __slots__ = ("__weakref__", "key")
    _pool: ClassVar[weakref.WeakValueDictionary[tuple[Any, ...], Expr]] = weakref.WeakValueDictionary()

    key: tuple[Any, ...]

    def __new__(cls, *key: Any) -> Any:
        full = (cls, *key)
        found = Expr._pool.get(full)
        if found is None:
            made = object.__new__(cls)
            made.key = key
            with _LOCK:  # two threads that compile at once must get one object
                found = Expr._pool.setdefault(full, made)
        return found

    def __reduce__(self) -> tuple[type[Expr], tuple[Any, ...]]:
        return type(self), self.key


class Field(Expr):
    """The elements of one input, in row-major order."""

    __slots__ = ()

    def __new__(cls, name: str) -> Field:
        return super().__new__(cls, name)  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        """The input's name in the signature."""
        return self.key[0]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Field({self.name!r})"


class Apply(Expr):
    """A column op applied to expressions of one domain."""

    __slots__ = ()

    def __new__(cls, op: Any, *args: Expr) -> Apply:
        return super().__new__(cls, op, *args)  # type: ignore[no-any-return]

    @property
    def op(self) -> Any:
        """The column op."""
        return self.key[0]

    @property
    def args(self) -> tuple[Expr, ...]:
        """The op's operands."""
        return self.key[1:]

    def __repr__(self) -> str:
        return f"Apply({self.op!r}, {', '.join(map(repr, self.args))})"


def walk(expr: Expr) -> Iterator[Expr]:
    """Every sub-expression once, operands before users."""
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        node, ready = stack.pop()
        if node in seen:
            continue
        if ready or not isinstance(node, Apply):
            seen.add(node)
            yield node
            continue
        stack.append((node, True))
        stack.extend((a, False) for a in reversed(node.args))


def fields_of(expr: Expr) -> tuple[str, ...]:
    """The names of the fields it reads, in order of first use."""
    return tuple(e.name for e in walk(expr) if isinstance(e, Field))
