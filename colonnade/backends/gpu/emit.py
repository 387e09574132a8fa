"""The text of one structure while it is written: lines of code, and the words that a unit's descriptor holds for it.

A *unit* is the work that shares one evaluation of ids (`units.py`); a *structure* is its code without its data, so that
units which differ only in data share code. Legend: N lanes of a block, one element each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from colonnade.core.expr import Apply, Expr, Field
from colonnade.errors import GraphError
from colonnade.ops.op import ColumnOp, ElementFacts, PositionOp

Array = npt.NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])

TRITON = {"float32": "tl.float32", "float64": "tl.float64", "int32": "tl.int32", "int64": "tl.int64", "bool": "tl.int1"}
POINTERS = {np.dtype(np.float32): "tl.float32", np.dtype(np.float64): "tl.float64", np.dtype(np.uint64): "tl.uint64"}


@dataclass(frozen=True)
class Number:
    """A number in each lane: the variable that holds it, its dtype and proven bounds."""

    name: str
    facts: ElementFacts

    @property
    def dtype(self) -> str:
        """Its dtype."""
        return self.facts.dtype


@dataclass(frozen=True)
class Text:
    """A string in each lane: the variables that hold its first byte's position and its length (int64), and the pointer
    to the words that hold its bytes.
    """

    start: str
    length: str
    data: str

    @property
    def facts(self) -> ElementFacts:
        """Strings."""
        return ElementFacts("string")


Emitted = Number | Text
EMITTERS: dict[type[ColumnOp], Callable[..., Emitted]] = {}


def emits(op: type[ColumnOp]) -> Callable[[F], F]:
    """Registers what an op writes: `emit(op, code, x) -> Emitted`, for one operand."""

    def register(function: F) -> F:
        EMITTERS[op] = function
        return function

    return register


class Memory:
    """Constant arrays on the device; equal ones are kept once. `place` puts an array there and gives its address."""

    def __init__(self, place: Callable[[Array], int]) -> None:
        self._place = place
        self._known: dict[tuple[str, bytes], int] = {}

    def address(self, array: Array) -> int:
        """The address of a copy of the array on the device."""
        key = (array.dtype.str, array.tobytes())
        if key not in self._known:
            self._known[key] = self._place(array)
        return self._known[key]


class Code:
    """Lines of one structure, the device files that they use, and the words of the unit that it is written for."""

    def __init__(self, memory: Memory) -> None:
        self.words: list[int] = []
        self.used: set[str] = set()
        self._memory = memory
        self._head: list[str] = []
        self._lines: list[str] = []
        self._indent = 1
        self._named = 0

    @property
    def text(self) -> str:
        """What is computed once, the loads of words first; then the lines."""
        return "\n".join([*self._head, *self._lines])

    def line(self, text: str) -> None:
        """One line at the present indentation."""
        self._lines.append("    " * self._indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines inside `head`."""
        self.line(head)
        self._indent += 1
        yield
        self._indent -= 1

    def let(self, value: str, kind: str = "v") -> str:
        """A new variable of that value."""
        name = f"{kind}{self._named}"
        self._named += 1
        self.line(f"{name} = {value}")
        return name

    def once(self, value: str, kind: str = "p") -> str:
        """A new variable of that value, set before all lines: for what no element changes."""
        name = f"{kind}{self._named}"
        self._named += 1
        self._head.append(f"    {name} = {value}")
        return name

    def call(self, function: str, *args: str, file: str = "") -> str:
        """A new variable that holds the result of a device function."""
        self.used.add(file or function)
        return self.let(f"{function}({', '.join(args)})")

    def parameter(self, value: int) -> str:
        """A word of the descriptor: the variable that holds it (a scalar int64)."""
        self.words.append(value)
        return self.once(f"tl.load(unit + {len(self.words) - 1})")

    def pointer(self, address: int, to: str, alignment: int = 0) -> str:
        """A word that is an address: the variable that holds the pointer."""
        name = self.parameter(address)
        value = f"{name}.to(tl.pointer_type({to}))"
        return self.once(f"tl.multiple_of({value}, {alignment})" if alignment else value, "a")

    def constant(self, array: Array) -> str:
        """The pointer to a constant array."""
        return self.pointer(self.address(array), POINTERS[array.dtype])

    def address(self, array: Array) -> int:
        """The address of a constant array."""
        return self._memory.address(array)


@dataclass
class Evaluator:
    """Expressions for the elements of one block: each is written once.

    field(name) writes the load of a field.   done: what is written so far; tokens are put in from outside.
    place() writes an element's place in its batch row; None: elements have none.
    """

    code: Code
    field: Callable[[str], Emitted]
    done: dict[Expr, Emitted]
    place: Callable[[], Number] | None = None

    def value(self, expr: Expr) -> Emitted:
        """The variables that hold an expression. Errors: GraphError where an op cannot be run on the gpu."""
        found = self.done.get(expr)
        if found is None:
            found = self.done[expr] = self._written(expr)
        return found

    def number(self, expr: Expr) -> Number:
        """The same, for what is no string."""
        found = self.value(expr)
        assert isinstance(found, Number)
        return found

    def _written(self, expr: Expr) -> Emitted:
        if isinstance(expr, Field):
            return self.field(expr.name)
        assert isinstance(expr, Apply)
        emit = EMITTERS.get(type(expr.op))
        if emit is None:
            known = sorted(op.name for op in EMITTERS)
            raise GraphError("the gpu backend cannot run this op", got=expr.op.name, want=", ".join(known))
        operands = [self.value(arg) for arg in expr.args]
        if isinstance(expr.op, PositionOp):
            if self.place is None:
                raise GraphError("only elements of dense fields have places in their rows", got=repr(expr))
            operands.append(self.place())
        return emit(expr.op, self.code, *operands)


def number(code: Code, op: ColumnOp, operands: Sequence[Emitted], name: str) -> Number:
    """The result of an op in a variable, with the facts that the op infers."""
    return Number(name, op.infer(*(o.facts for o in operands)))
