"""A program: signature, tables, columns, buffers and the dense rest. Pure data: the weights lie in `Weights`
beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.core import dims, quantize
from colonnade.core.consts import Const
from colonnade.core.dims import Dim
from colonnade.core.examples import Feature
from colonnade.core.expr import Expr, fields_of
from colonnade.ir.column import Column
from colonnade.ir.label import Label
from colonnade.ir.table import Table


@dataclass(frozen=True)
class Input:
    """One key of a request. Shapes: symbolic; a dense field that columns read has the batch symbol first.

    tensor: the source tensor's name, outside equality.
    offsets: of a ragged field, whose shape is `(N,)` with a data symbol N: the name of the input of shape `(B + 1,)`,
    int32 or int64, that says where the elements of each batch row begin and end; several fields may share it.
    of: the name of the input whose elements, row-major, this one is: a vector of them, each of which is a batch row to
    the columns that read it. It is no key of a request.
    among: of a made input, the fields of whose elements it holds each choice of one of each, row by row, the last
    field's fastest; place: which of them `of` is. The offsets of such inputs are one of them, by the same rule.
    splits: of fields of one string a row whose tokens are chosen among, the separators, b"" for others.
    numbered: with `among`: the place of what is chosen of that field in its row, an int64, instead of its value.
    places: with `of`, (start, stop): this one is `x[:, start:stop]` of that matrix instead.
    by: with `of`, the first input that it reads: strings that the host makes, elementwise, of inputs of this shape.
    default: what it is where a request leaves it out.
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...]
    tensor: str = field(default="", compare=False)
    offsets: str | None = None
    of: str | None = None
    among: tuple[str, ...] = ()
    place: int = 0
    default: Const | None = None
    places: tuple[int, int] | None = None
    by: Expr | None = None
    splits: tuple[bytes, ...] = ()
    numbered: bool = False

    @property
    def is_elements(self) -> bool:
        """Whether it is the single elements of another."""
        return self.of is not None and not self.among and self.places is None and self.by is None

    @property
    def sources(self) -> tuple[str, ...]:
        """The inputs that it is made of."""
        if self.by is not None:
            return fields_of(self.by)
        return () if self.of is None else (self.of, *self.among)


def batch_dim(item: Input, inputs: Mapping[str, Input]) -> Dim:
    """The number of batch rows of a field: its first dim; one less than its offsets' where it is ragged."""
    return item.shape[0] if item.offsets is None else dims.sub(inputs[item.offsets].shape[0], 1)


@dataclass(frozen=True)
class Decode:
    """A key of a request that holds serialized `tf.train.Example`s, `string[rows]`, and what is read of them.

    features: each with the input that it becomes: dense, or ragged with its offsets; None where it is only checked.
    Facts: those inputs, and their offsets, are no keys of a request.
    """

    name: str
    rows: Dim
    features: tuple[tuple[Feature, str | None], ...]
    tensor: str = field(default="", compare=False)


@dataclass(frozen=True)
class RowKeys:
    """Keys of a request that say the rows of ragged fields: an index matrix with its dense shape, splits, or splits of
    rows of rows, or splits of what is no field.

    name: the index matrix `int64[count, 2]` or the splits `[count]`.   shape: the key of the dense shape `int64[2]`.
    offsets: the input that they become, no key itself; a request may give it instead of them.
    rows, width: what the dense shape says: symbols whose values a request so tells.
    trimmed: rows behind the last one with an element are left out.   strict: places within a row must rise.
    places: the input that the place of each element in its row becomes, where something reads it: no key either.
    outer: by nested: the key of the splits of rows, whose rows `name` splits, and how many there are.
    elements: of splits of what is no field: the size with which they end.
    """

    name: str
    by: str
    offsets: str
    count: Dim
    rows: Dim
    width: Dim
    shape: str | None = None
    dtype: str = "int64"
    trimmed: bool = False
    strict: bool = False
    places: str | None = None
    outer: tuple[str, Dim] | None = None
    elements: Dim | None = None
    tensor: str = field(default="", compare=False)

    @property
    def keys(self) -> tuple[Input, ...]:
        """As keys of a request."""
        first = (self.count, 2) if self.by == "indices" else (self.count,)
        rest = [] if self.shape is None else [Input(self.shape, "int64", (2,))]
        if self.outer is not None:
            rest.append(Input(self.outer[0], self.dtype, (self.outer[1],)))
        return (Input(self.name, self.dtype, first, self.tensor), *rest)


@dataclass(frozen=True)
class Pad:
    """An input that is made of ragged rows, each of which has as many places as the widest: no key of a request.

    what: `values` (of the field `of`, row-major, with `fill` in places without an element), `marks` (1 where a place
    has one, else 0) or `ends` (for each row the place behind its last element, else 0).
    rows, width: symbols; where nothing else says the width, it is that of the longest row. A width that is a number
    cuts rows: elements behind it are left out.
    offsets, places: the inputs that say where each element lies; without places, those of a row come one by one.
    """

    name: str
    what: str
    rows: Dim
    width: Dim
    offsets: str
    places: str | None = None
    of: str | None = None
    fill: Const | None = None

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Of the input."""
        return (self.rows,) if self.what == "ends" else (dims.mul(self.rows, self.width),)


@dataclass(frozen=True)
class Buffer:
    """A dense `[rows, width]` output that columns write their slots into; `rows` is the batch symbol."""

    name: str
    rows: Dim
    width: int
    dtype: str = "float32"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two inputs of one shape of which every request lacks values in the same places.

    missing, other_missing: the value that stands for none in each; denormal floats count as 0.
    """

    name: str
    missing: int | bytes
    other: str
    other_missing: float


@dataclass(frozen=True)
class Instruction:
    """One line of the dense rest: `outputs = op(args)` with torch operands.

    op: an aten overload name such as `aten.addmm.default`, or one of our own: `PLACE`, `REQUIRE`, `ITEM`.
    args: operands; a `Ref` names an earlier value (input, buffer, parameter or output), a `Dim` is evaluated for the
    batch.
    """

    output: str
    op: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()
    source: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of the dense rest by name."""

    name: str


def refs_in(values: Any) -> Iterator[str]:
    """The name of every reference in an operand, in order; operands may lie in tuples and lists."""
    if isinstance(values, Ref):
        yield values.name
    elif isinstance(values, tuple | list):
        for value in values:
            yield from refs_in(value)


def operands(line: Instruction) -> tuple[Any, ...]:
    """All operands of an instruction, those by name after the others."""
    return (*line.args, *(value for _, value in line.kwargs))


@dataclass(frozen=True)
class Output:
    """A named result of the program: a value of the dense rest, an input or a buffer (or a slice of one).

    slice: (offset, width) of a buffer's last dim, where a column is fetched directly.   shape: symbolic.
    decimal: whether integers are given as strings, in decimal.   label: the strings that integers are given as.
    """

    name: str
    value: Ref
    dtype: str
    shape: tuple[Dim, ...]
    decimal: bool = False
    label: Label | None = None


@dataclass(frozen=True)
class Program:
    """Everything but the weights. Prints as text and parses back (`colonnade.ir.text`)."""

    inputs: tuple[Input, ...]
    tables: tuple[Table, ...]
    columns: tuple[Column, ...]
    buffers: tuple[Buffer, ...]
    dense: tuple[Instruction, ...]
    outputs: tuple[Output, ...]
    params: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    """name, dtype, shape of each parameter that the dense rest reads."""
    decodes: tuple[Decode, ...] = ()
    row_keys: tuple[RowKeys, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    pads: tuple[Pad, ...] = ()

    @property
    def signature(self) -> tuple[Input, ...]:
        """The keys of a request: the inputs, with what offsets and those of Examples are made of in their place."""
        offsets = {name for r in self.row_keys for name in (r.offsets, r.places)}
        kept = [i for i in self.undecoded if i.name not in offsets]
        names = {i.name for i in kept}
        keys = {key.name: key for r in self.row_keys for key in r.keys if key.name not in names}
        return (*kept, *keys.values())

    @property
    def undecoded(self) -> tuple[Input, ...]:
        """The inputs, with serialized Examples in the place of those made of them."""
        inputs = {i.name: i for i in self.inputs}
        made = {name for d in self.decodes for _, name in d.features if name is not None}
        made |= {p.name for p in self.pads}
        made |= {offsets for name in made if (offsets := inputs[name].offsets) is not None}
        kept = [i for i in self.inputs if i.name not in made and i.of is None]
        names = {i.name for i in kept}
        keys = [Input(d.name, "string", (d.rows,), d.tensor) for d in self.decodes if d.name not in names]
        return (*keys, *kept)

    def table(self, name: str) -> Table:
        """The table of that name."""
        return next(t for t in self.tables if t.name == name)

    def input(self, name: str) -> Input:
        """The input of that name."""
        return next(i for i in self.inputs if i.name == name)


OWN = "colonnade."
PLACE, REQUIRE, ITEM = f"{OWN}place", f"{OWN}require", f"{OWN}item"
"""Ops of the dense rest that aten has not; `backends/dense_ops.py` says what each does."""

TRANSPOSED = "^T"
PLAIN = "^V"


def transposed(variable: str) -> str:
    """The name of the parameter that is the transpose of a variable."""
    return variable + TRANSPOSED


def plain(variable: str) -> str:
    """The name of the parameter that is a variable whose own name an input has."""
    return variable + PLAIN


def param_value(name: str, store: Mapping[str, npt.NDArray[Any]]) -> torch.Tensor | None:
    """A copy of a parameter's value from a store of variables; None where it is no variable's (a constant)."""
    variable = name.removesuffix(TRANSPOSED).removesuffix(PLAIN)
    if variable not in store:
        return None
    value = torch.from_numpy(np.array(store[variable]))
    return value.t().contiguous() if name.endswith(TRANSPOSED) and name not in store else value


@dataclass(frozen=True)
class Weights:
    """The tensors a program needs: table name -> rows, parameter name -> tensor, digest -> constant.

    Facts: tables may be memory-mapped and unaligned views, and lie here as they are stored (`core/quantize.py`);
    nothing here is ever written to.
    """

    tables: Mapping[str, npt.NDArray[Any]]
    params: Mapping[str, torch.Tensor]
    consts: Mapping[str, Const]

    def misfits(self, program: Program) -> list[str]:
        """What a program needs and does not find here, or finds with another dtype or shape, in words."""
        wrong = []
        for table in program.tables:
            got, want = _array_kind(self.tables.get(table.name)), list(table.stored_shape)
            if got != f"{quantize.carrier(table.dtype)}{want}":
                wrong.append(f"table {table.name!r}: {got}, want {table.dtype}{want}")
        for name, dtype, shape in program.params:
            got = _tensor_kind(self.params.get(name))
            if got != f"{dtype}{list(shape)}":
                wrong.append(f"parameter {name!r}: {got}, want {dtype}{list(shape)}")
        return wrong


def _array_kind(value: object) -> str:
    """dtype and shape of a native numpy array, or what else is there."""
    if value is None:
        return "missing"
    if not isinstance(value, np.ndarray):
        return f"a {type(value).__name__}, no numpy array"
    order = "" if value.dtype.isnative else " of the other byte order"
    return f"{value.dtype.name}{list(value.shape)}{order}"


def _tensor_kind(value: object) -> str:
    """dtype and shape of a dense torch tensor on the host, or what else is there."""
    if value is None:
        return "missing"
    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}, no torch tensor"
    where = "" if value.device.type == "cpu" else f" on {value.device}, not the host"
    layout = "" if value.layout == torch.strided else f" as {value.layout}"
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{where}{layout}"
