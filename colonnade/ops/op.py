"""The two kinds of op, and their registries.

A *column op* (`MapOp`, `FilterOp`, `ExpandOp`; `RaggedOp` of whole rows) says what is done to one element of a column;
a *graph op* (`GraphOp`) is a whole-tensor op, shaped like the source framework's. Both are frozen dataclasses that hold
attributes only.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt
import torch

from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.core.expr import Expr
from colonnade.core.facts import Facts
from colonnade.core.ragged import Ragged

Value = torch.Tensor | npt.NDArray[Any]
"""A whole tensor for `reference`: torch for numbers and bools, a numpy object array of `bytes` for strings."""

COLUMN_OPS: dict[str, type[ColumnOp]] = {}
GRAPH_OPS: dict[str, type[GraphOp]] = {}


def structural(**options: Any) -> Any:
    """A dataclass field that changes generated code; every other attribute is a kernel argument."""
    return dataclasses.field(metadata={"structural": True}, **options)


def snake(name: str) -> str:
    """`HashBytes` -> `hash_bytes`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _register(registry: dict[str, Any], cls: type[Op]) -> None:
    cls.name = snake(cls.__qualname__.rpartition(".")[2])
    other = registry.get(cls.name)
    if other is not None and other.__module__ != cls.__module__:
        raise TypeError(f"op {cls.name!r} is defined in both {other.__module__} and {cls.__module__}")
    registry[cls.name] = cls


@dataclass(frozen=True)
class Op:
    """What is done to values; attributes only."""

    name: ClassVar[str] = ""

    @property
    def __name__(self) -> str:
        return self.name

    def attributes(self) -> Iterator[tuple[str, Any]]:
        """Its attributes by name."""
        for f in dataclasses.fields(self):
            yield f.name, getattr(self, f.name)

    @property
    def structure(self) -> tuple[Any, ...]:
        """What decides its code: its kind and its structural attributes."""
        kept = [getattr(self, f.name) for f in dataclasses.fields(self) if f.metadata.get("structural")]
        return (self.name, *kept)


@dataclass(frozen=True)
class ColumnOp(Op):
    """An op on the elements of a column. `infer` gives the dtype of its result and proven bounds."""

    arity: ClassVar[int] = 1

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.rpartition(".")[2] != "op":
            _register(COLUMN_OPS, cls)

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """Facts of the result from facts of the operands. Errors: ShapeError on a dtype it cannot take."""
        raise TypeError(f"{type(self).__name__} defines no infer")

    def reference(self, *args: Value) -> Value:
        """The result for flat operands: obviously right, not fast."""
        raise TypeError(f"{type(self).__name__} defines no reference")


@dataclass(frozen=True, slots=True)
class ElementFacts:
    """dtype of the elements (numpy-style name or `string`) and inclusive bounds of integers, where proven."""

    dtype: str
    lo: int | None = None
    hi: int | None = None


@dataclass(frozen=True)
class MapOp(ColumnOp):
    """One element to one element."""


@dataclass(frozen=True)
class PositionOp(MapOp):
    """One element to one element, by the place of the element in its batch row, which `reference` takes last.

    Facts: only elements of dense fields have places, not tokens.
    """


@dataclass(frozen=True)
class FilterOp(ColumnOp):
    """A predicate: the element stays where `reference` is true."""


@dataclass(frozen=True)
class ExpandOp(ColumnOp):
    """One element to any number of elements, in order."""

    def expand(self, value: Value) -> tuple[Value, torch.Tensor]:
        """All results, flat, and how many came of each element."""
        raise TypeError(f"{type(self).__name__} defines no expand")


@dataclass(frozen=True, slots=True)
class RowFacts:
    """How the elements of a feature lie in batch rows.

    levels: of offsets: 1, or 2 for rows of lists.   width: elements of every row, where all have as many.
    """

    levels: int = 1
    width: int | None = None


@dataclass(frozen=True)
class RaggedOp(ColumnOp):
    """Whole rows to whole rows: it drops, repeats, pairs or joins elements, and their weights with them.

    most: operands, where the number is open.   Facts: `infer` speaks of the elements, `rows` of how they lie.
    """

    most: ClassVar[int] = 1

    def rows(self, *args: RowFacts) -> RowFacts:
        """How the results lie. Errors: ShapeError on rows that it cannot take."""
        raise TypeError(f"{type(self).__name__} defines no rows")

    def apply(self, *args: Ragged) -> Ragged:
        """The result for whole operands, whose values are tensors or object arrays: obviously right, not fast."""
        raise TypeError(f"{type(self).__name__} defines no apply")


@dataclass(frozen=True)
class Inferred:
    """The facts of a graph op's outputs; pairs of dims that the op requires to be equal.

    Facts: `fresh(k)` symbols in it stand for sizes that only the data decide; each node gets its own.
    """

    outputs: tuple[Facts, ...]
    equal: tuple[tuple[Dim, Dim], ...] = ()


def fresh(k: int) -> Dim:
    """The k-th size of an op's outputs that only the data decide: replaced by a symbol of the node's own."""
    return dims.data_symbol("fresh", k)


@dataclass(frozen=True)
class Operand:
    """An operand of `lower`: how the dense rest refers to it, and its facts."""

    value: Any
    facts: Facts


@dataclass(frozen=True)
class Lowered:
    """A call of aten, or of an op of our own: overload name such as `aten.addmm.default`, arguments by place and name.

    args may hold operand values, ints, floats, bools, dtypes by name, dims, other calls, and tuples of these.
    Facts: the call of an op with several outputs gives a list or tuple of them.
    """

    op: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class GraphOp(Op):
    """A whole-tensor op. `infer` is a pure function of (op, facts); `reference` computes it in torch.

    `elementwise` says it as column ops on the elements of its operands, where it is one; `lower` as aten, where a dense
    network can hold it.
    """

    num_outputs: ClassVar[int] = 1

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.rpartition(".")[2] != "op":
            _register(GRAPH_OPS, cls)

    def infer(self, *args: Facts) -> Inferred:
        """Facts of the outputs from facts of the operands. Errors: ShapeError where the op cannot take them."""
        raise TypeError(f"{type(self).__name__} defines no infer")

    def reference(self, *args: Value) -> Any:
        """The output, or a tuple of outputs where `num_outputs` is not 1."""
        raise TypeError(f"{type(self).__name__} defines no reference")

    def elementwise(self, *args: Expr) -> Expr | None:
        """The same op on single elements, as an expression of column ops; None: it is not elementwise."""
        return None

    def lower(self, *args: Operand) -> Lowered | None:
        """The same op in aten, given facts of the operands; None: a dense rest cannot hold it."""
        return None

    def __call__(self, *args: Value) -> Any:
        return self.reference(*args)


def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype of a numpy-style name."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"no torch dtype {name!r}")
    return found
