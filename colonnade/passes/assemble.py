"""From a graph whose columns are extracted to a `Program`: slots, buffers, and the dense rest in aten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy
import torch

from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.core.dims import Dim
from colonnade.core.expr import Apply, Expr, fields_of, walk
from colonnade.core.facts import Facts
from colonnade.errors import UnsupportedOps, listed
from colonnade.ir.column import Column, Slot, fields_read
from colonnade.ir.column_value import ColumnValue
from colonnade.ir.graph import Graph, Node, args_of, facts_of, item_of, op_of, source_of
from colonnade.ir.label import Label
from colonnade.ir.made_table import made_of, rows_of
from colonnade.ir.padded import PADDING
from colonnade.ir.program import (
    ITEM,
    PLACE,
    REQUIRE,
    Agreement,
    Buffer,
    Input,
    Instruction,
    Output,
    Program,
    Ref,
    RowKeys,
    Weights,
    operands,
    param_value,
    plain,
    refs_in,
    transposed,
)
from colonnade.ir.table import Table
from colonnade.ops.graph._on_host import OnHost
from colonnade.ops.graph.as_string import AsString
from colonnade.ops.graph.broadcast_to import BroadcastTo
from colonnade.ops.graph.choices import Choices
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.lookup_table_find import LookupTableFind
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.row_splits import RowSplits
from colonnade.ops.graph.slice import Slice
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.tile import Tile
from colonnade.ops.graph.transpose import Transpose
from colonnade.ops.graph.variable import Variable
from colonnade.ops.op import GraphOp, Lowered, Operand
from colonnade.passes.chosen import chosen_name
from colonnade.passes.decode_inputs import aligned, decoded_inputs, decodes_of, inputs_of
from colonnade.passes.extract_columns import table_name
from colonnade.passes.fuse_dense import fuse
from colonnade.passes.host_strings import strings_of
from colonnade.passes.pad_inputs import input_of, pad_inputs, placed
from colonnade.passes.places import places_of
from colonnade.passes.row_inputs import inputs_said, row_inputs

GIVING = (ParseExample, RaggedInput, RowSplits, *PADDING)
"""Ops whose outputs are inputs of the program."""
MOVING = (BroadcastTo, ExpandDims, Reshape, Slice, Squeeze, StridedSlice, Tile, Transpose)
"""Ops that move elements and look at none."""


def assemble(graph: Graph, reasons: dict[str, str] | None = None) -> tuple[Program, Weights]:
    """The program and its weights.

    reasons: source node -> why a lookup there was not extracted, for the error.
    Errors: UnsupportedOps that lists every node which is neither a column nor something a dense rest can hold.
    """
    return _Assembler(graph, reasons or {}).assemble()


@dataclass
class _Names:
    """Unique names over inputs, buffers, parameters and values."""

    taken: set[str] = field(default_factory=set)

    def take(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        self.taken.add(name)
        return name


class _Assembler:
    def __init__(self, graph: Graph, reasons: dict[str, str]) -> None:
        self.graph = graph
        self.reasons = reasons
        self.decoded = list(decoded_inputs(graph))
        self.inputs = {*graph.inputs, *(name for d in self.decoded for name in (d.name, d.offsets) if name)}
        self.names = _Names({*self.inputs, *graph.store})
        self.rows = list(row_inputs(graph, self.names.take))
        self.counts: dict[tuple[tuple[str, ...], tuple[bytes, ...]], Dim] = {}
        self.pads = list(pad_inputs(graph, self.rows, self.decoded, self.names.take))
        self.decimals: set[Node] = set()
        self.labels: dict[Node, Label] = {}
        self.values: dict[Node, Ref] = {}
        self.slots: dict[Node, list[Slot]] = {}
        self.buffers: list[Buffer] = []
        self.instructions: list[Instruction] = []
        self.params: dict[str, torch.Tensor] = {}
        self.unsupported: dict[Node, str] = {}

    def assemble(self) -> tuple[Program, Weights]:
        """Slots first, then every other node in order."""
        for key, node in self.graph.inputs.items():
            self.values[node] = Ref(key)
        for found in self.decoded:
            self.values.update((node, Ref(name)) for node, name in found.values)
        for said in self.rows:
            self.values.update((node, Ref(key)) for node, key in said.aliases)
        self.values.update((made.node, Ref(made.pad.name)) for made in self.pads)
        packed = [n for n in self.graph.nodes() if isinstance(n.target, Concat) and self._pack(n)]
        self._own_buffers()
        self._checks()
        for node in self.graph.nodes():
            self._node(node, node in packed)
        if any(node not in self.values for node in self.graph.outputs.values()):
            raise self._refusal()
        return self._program()

    def _checks(self) -> None:
        """What inference could not prove is checked in every request: the request's sizes decide it."""
        for a, b, where in self.graph.checks:
            name = self.names.take("check")
            self.instructions.append(Instruction(name, REQUIRE, (a, b, f"node {where!r}"), source=where))

    # -- slots -------------------------------------------------------------------------------------------------------
    def _pack(self, node: Node) -> bool:
        """Give a concat of columns along the last axis a buffer. Other concats stay in the dense rest."""
        *operands, axis = args_of(node)
        known = facts_of(node)
        along = facts_of(axis).integer
        if known.rank != 2 or known.shape is None or along not in (1, -1) or known.dtype != "float32":
            return False
        widths = [_width(x, known) for x in operands]
        if not any(isinstance(x.target, ColumnValue) for x in operands) or None in widths:
            return False
        width = known.shape[1]
        assert isinstance(width, int)
        name = self._buffer(known.shape[0], width, "columns")
        offset = 0
        for x, w in zip(operands, widths, strict=True):
            assert w is not None
            if isinstance(x.target, ColumnValue):
                self.slots.setdefault(x, []).append(Slot(name, offset, w))
            offset += w
        self.values[node] = Ref(name)
        return True

    def _own_buffers(self) -> None:
        """Buffers for the columns that no concat took: one for all of a batch, as each costs a request memory of its
        own; an output has its own, so that it holds nothing else.
        """
        fetched = set(self.graph.outputs.values())
        apart: dict[Hashable, list[Node]] = {}
        for node in self.graph.nodes():
            if isinstance(node.target, ColumnValue) and node not in self.slots:
                rows, _ = _column_shape(node)
                apart.setdefault(node if node in fetched else str(rows), []).append(node)
        for nodes in apart.values():
            rows, width = _column_shape(nodes[0])
            if len(nodes) == 1:
                self._own_buffer(nodes[0], rows, width)
                continue
            widths = [_column_shape(node)[1] for node in nodes]
            name = self._buffer(rows, sum(widths), "columns")
            for node, offset, width in zip(nodes, accumulate(widths, initial=0), widths, strict=False):
                self.slots[node] = [Slot(name, offset, width)]

    def _own_buffer(self, node: Node, rows: Dim, width: int) -> None:
        assert isinstance(node.target, ColumnValue)
        name = self._buffer(rows, width, "column_" + node.target.column.name)
        self.slots[node] = [Slot(name, 0, width)]
        self.values[node] = Ref(name)

    def _buffer(self, rows: Dim, width: int, wanted: str) -> str:
        name = self.names.take(wanted)
        self.buffers.append(Buffer(name, rows, width))
        return name

    # -- the dense rest ----------------------------------------------------------------------------------------------
    def _node(self, node: Node, packed: bool) -> None:
        op = op_of(node)
        if isinstance(op, Placeholder) or (node in self.values and isinstance(item_of(node)[0].target, GIVING)):
            return
        if packed:
            self._place_others(node)
        elif isinstance(op, ColumnValue):
            self._column_view(node)
        elif isinstance(op, Constant | Variable):
            self._param(node)
        else:
            self._lowered(node)

    def _place_others(self, node: Node) -> None:
        """Copy the operands of a packed concat that are no columns into their places."""
        offset = 0
        known = facts_of(node)
        for x in args_of(node)[:-1]:
            width = _width(x, known)
            assert width is not None
            if not isinstance(x.target, ColumnValue):
                if x not in self.values:
                    # The operand is listed, the concat is not.
                    self.values.pop(node)
                    self.unsupported[node] = ""
                    return
                self._emit(node, PLACE, (self.values[x], self.values[node], offset))
            offset += width

    def _column_view(self, node: Node) -> None:
        """What readers of a column besides its concats see: a strided view of its slot."""
        if node in self.values:
            return
        slot = self.slots[node][0]
        span = (Ref(slot.output), 1, slot.offset, slot.offset + slot.width)
        self._emit(node, "aten.slice.Tensor", span)

    def _param(self, node: Node) -> None:
        op = op_of(node)
        if isinstance(op, Constant):
            if op.value.array.dtype == object:
                self.unsupported[node] = "a string constant in the dense rest"
                return
            self.values[node] = self._store(f"const_{op.value.digest}", torch.from_numpy(op.value.array.copy()))
        else:
            assert isinstance(op, Variable)
            # Taken from the store only if the dense rest reads it.
            self.values[node] = Ref(plain(op.key) if op.key in self.inputs else op.key)

    def _store(self, name: str, value: torch.Tensor) -> Ref:
        self.params[name] = value
        return Ref(name)

    def _lowered(self, node: Node) -> None:
        op = op_of(node)
        if op is None:
            self._item(node)
            return
        if self._decimal(node, op) or self._labelled(node, op):
            return
        operands = [Operand(self.values.get(a), facts_of(a)) for a in args_of(node)]
        lowered = op.lower(*operands)
        if lowered is None or _from_data((lowered.args, lowered.kwargs)):
            self.unsupported[node] = op.name
            return
        if _lacks(lowered.args):
            # An operand that the op really reads is not supported itself: it is listed, this one is not.
            self.values.pop(node, None)
            self.unsupported[node] = ""
            return
        self._emit(node, lowered.op, self._called(node, lowered.args), lowered.kwargs)

    def _called(self, node: Node, args: Any) -> Any:
        """The arguments, with the calls in them made before and named."""
        if isinstance(args, tuple):
            return tuple(self._called(node, a) for a in args)
        if not isinstance(args, Lowered):
            return args
        name = self.names.take(node.name)
        inner = self._called(node, args.args)
        self.instructions.append(Instruction(name, args.op, inner, args.kwargs, source=source_of(node)))
        return Ref(name)

    def _item(self, node: Node) -> None:
        """An output of an op that has several."""
        base, index = item_of(node)
        if base in self.values:
            self._emit(node, ITEM, (self.values[base], index))
        else:
            self.unsupported[node] = ""  # the op is listed

    def _decimal(self, node: Node, op: GraphOp) -> bool:
        """Integers as strings stay integers up to the outputs, which are given in decimal; true where that is all."""
        args = args_of(node)
        if isinstance(op, AsString) and facts_of(args[0]).dtype in ("int32", "int64") and args[0] in self.values:
            self.decimals.add(node)
            self.values[node] = self.values[args[0]]
            return True
        if not self.decimals.isdisjoint(args):
            if not isinstance(op, MOVING) or args[0] not in self.decimals:
                self.unsupported[node] = f"{op.name} of strings"
                return True
            self.decimals.add(node)
        return False

    def _labelled(self, node: Node, op: GraphOp) -> bool:
        """Integers that are called something stay integers up to the outputs; true where that is all."""
        args = args_of(node)
        ids = args[1] if isinstance(op, Gather) else args[0] if args else node
        label = _label(node, op)
        if label is not None and ids in self.values:
            self.labels[node] = label
            self.values[node] = self.values[ids]
            return True
        if not self.labels.keys().isdisjoint(args):
            if not isinstance(op, MOVING) or args[0] not in self.labels:
                self.unsupported[node] = f"{op.name} of strings"
                return True
            self.labels[node] = self.labels[args[0]]
        return False

    def _emit(self, node: Node, op: str, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...] = ()) -> None:
        name = self.names.take(node.name)
        self.instructions.append(Instruction(name, op, args, kwargs, source=source_of(node)))
        self.values[node] = Ref(name)

    # -- the result --------------------------------------------------------------------------------------------------
    def _missing(self) -> list[tuple[Node, str]]:
        """Unsupported nodes that an output needs. Facts: a node with a value has operands with values."""
        seen: set[Node] = set()
        stack = [n for n in self.graph.outputs.values() if n not in self.values]
        while stack:
            node = stack.pop()
            if node not in seen and node not in self.values:
                seen.add(node)
                base, _ = item_of(node)
                stack.extend(args_of(node) if base is node else (base,))
        return [(n, why) for n, why in self.unsupported.items() if n in seen and why]

    def _refusal(self) -> UnsupportedOps:
        lines = [f"{source_of(n)} ({why})" for n, why in self._missing()]
        lookups = [f"{where}: {why}" for where, why in self.reasons.items()]
        return UnsupportedOps(
            f"{len(lines)} node(s) are neither part of a column nor supported in the dense rest",
            got=listed(lines, limit=100),
            help="lookups that were not extracted:\n" + listed(lookups) if lookups else "",
        )

    def _program(self) -> tuple[Program, Weights]:
        outputs = tuple(
            replace(_output(key, node, self.values[node], node in self.decimals), label=self.labels.get(node))
            for key, node in self.graph.outputs.items()
        )
        names = [o.value.name for o in outputs]
        shapes = {k: tuple(v.shape) for k, v in self.params.items()}
        stored = {self.values[n].name: n.target for n in self.graph.nodes() if isinstance(n.target, Variable)}
        shapes |= {name: variable.shape for name, variable in stored.items()}
        alive = fuse(_alive(self.instructions, names), names, shapes, stored)
        read = {r for i in alive for r in refs_in(operands(i))} | {o.value.name for o in outputs}
        columns = [n for n in self.graph.nodes() if isinstance(n.target, ColumnValue)]
        tables = {n.target.column.table: self._table(args_of(n)[0]) for n in columns}  # type: ignore[union-attr]
        params = {k: v for k, v in self.params.items() if k in read}
        for variable in stored:
            for name in (variable, transposed(variable)):
                value = param_value(name, self.graph.store) if name in read else None
                if value is not None:
                    params[name] = value
        assembled = tuple(_column(n, tuple(self.slots[n])) for n in columns)
        used = read | {name for column in assembled for name in fields_read(column)}
        singles = dict.fromkeys(i for n in columns for i in self._elements(n))
        used |= {name for i in singles for name in i.sources}
        padded = [made for made in self.pads if made.pad.name in used]
        used |= {name for made in padded for name in (made.pad.of, made.pad.offsets) if name is not None}
        saying = [placed(said, padded) for said in self.rows]
        decoded = {d.key for d in self.decoded}
        given = [i for i in self._given(used) if i.name in used or i.name not in decoded]
        made = aligned(list(inputs_of(self.decoded, used)), assembled, read)
        program = Program(
            inputs=(
                *given,
                *(i for said in saying for i in inputs_said(said)),
                *made,
                *map(input_of, padded),
                *singles,
            ),
            tables=tuple(t for t in tables.values()),
            columns=assembled,
            buffers=tuple(self.buffers),
            dense=tuple(alive),
            outputs=outputs,
            params=tuple((k, str(v.dtype).removeprefix("torch."), tuple(v.shape)) for k, v in params.items()),
            decodes=decodes_of(self.decoded, {i.name for i in made}),
            row_keys=tuple(said.keys for said in saying),
            pads=tuple(made.pad for made in padded),
            agreements=self._agreements(assembled),
        )
        held = {table_name(args_of(n)[0]): args_of(n)[0] for n in columns}
        rows = {name: self._rows(table) for name, table in held.items()}
        return name_batch(program), Weights(rows, params, _consts(program.columns, outputs))

    def _choices(self, op: Choices, shape: Node) -> Iterator[Input]:
        """The inputs that hold choices of one element of each field, and their offsets."""
        among, splits = op.among, op.splits
        offsets, made = chosen_name(among, splits, None), item_of(shape)[0]
        rows = facts_of(shape).values
        assert rows is not None
        count = self.counts.setdefault((among, splits), dims.symbol(f"C{len(self.counts)}"))
        for k, name in enumerate(among):
            known = facts_of(self.graph.item(made, k + 1))
            made_name = chosen_name(among, splits, k)
            yield Input(made_name, known.dtype, (count,), "", offsets, name, among, k, splits=splits)
        for k in op.numbered:
            made_name = chosen_name(among, splits, k, numbered=True)
            yield Input(made_name, "int64", (count,), "", offsets, among[k], among, k, splits=splits, numbered=True)
        yield Input(offsets, "int64", (dims.add(rows[0], 1),), of=among[0], among=among, splits=splits)

    def _agreements(self, columns: Iterable[Column]) -> tuple[Agreement, ...]:
        """Errors: UnsupportedOps where no column reads two inputs that are held against each other."""
        together = [set(fields_read(c)) for c in columns]
        apart = [f"{a}, {b}" for a, b in self.graph.agreements if not any({a, b} <= fields for fields in together)]
        if apart:
            raise UnsupportedOps("requests cannot be held to ids and weights that no column reads", got=listed(apart))
        return tuple(Agreement(a, missing, b, other) for (a, b), (missing, other) in self.graph.agreements.items())

    def _given(self, read: set[str]) -> Iterator[Input]:
        """The inputs of the graph; what only says rows is left out."""
        offsets = {key: said.keys.offsets for said in self.rows for key in said.values}
        saying = {key.name for said in self.rows for key in said.keys.keys}
        for key, node in self.graph.inputs.items():
            if key in read or key not in saying:
                yield replace(_input(key, node), offsets=offsets.get(key))

    def _elements(self, node: Node) -> Iterator[Input]:
        """The inputs of a column that are made of others."""
        op = node.target
        assert isinstance(op, ColumnValue)
        chosen = [item_of(value)[0].target for value in args_of(node)[1:]]
        if chosen and isinstance(chosen[0], Choices):
            yield from self._choices(chosen[0], args_of(node)[-1])
            return
        for name, value in zip(op.fields, args_of(node)[1:], strict=False):
            known = facts_of(value)
            text = args_of(value)[0] if isinstance(value.target, Reshape) else value
            if isinstance(text.target, OnHost):
                by = strings_of(text, lambda node: self.values[node].name)
                assert isinstance(by, Expr)
                yield Input(name, known.dtype, known.shape or (), of=fields_of(by)[0], by=by)
            elif name not in self.inputs and not isinstance(value.target, PADDING):
                source = self.values[args_of(value)[0]]
                yield Input(name, known.dtype, known.shape or (), of=source.name, places=_places(value))

    def _rows(self, table: Node) -> npt.NDArray[Any]:
        op, made = op_of(table), made_of(table)
        if isinstance(op, Constant):
            return op.value.array
        assert made is not None
        return rows_of(made, self.graph.store)

    def _table(self, node: Node) -> Table:
        op = op_of(node)
        if isinstance(op, Constant):
            rows, width = op.value.array.shape
            return Table(table_name(node), rows, width, op.value.array.dtype.name)
        known, made = facts_of(node), made_of(node)
        assert known.shape is not None and made is not None
        rows, width = (int(d) for d in known.shape)
        if isinstance(op, Variable):
            return Table(op.key, rows, width, op.dtype, source=op.key)
        return Table(table_name(node), rows, width, known.dtype, made=made)


def _column_shape(node: Node) -> tuple[Dim, int]:
    shape = facts_of(node).shape
    assert shape is not None and isinstance(shape[1], int)
    return shape[0], shape[1]


def _places(value: Node) -> tuple[int, int] | None:
    """Which places of each row an input is, where it is not all elements."""
    found = places_of(value)
    return None if found is None else (found.start, found.stop)


def _width(x: Node, whole: Facts) -> int | None:
    """The operand's width in a concat along the last axis; None where it does not fit a buffer."""
    known = facts_of(x)
    if known.rank != 2 or known.shape is None or whole.shape is None or known.dtype != whole.dtype:
        return None
    rows, width = known.shape
    return width if rows == whole.shape[0] and isinstance(width, int) else None


def _lacks(args: Any) -> bool:
    """Whether an operand among the arguments, or in a list or call among them, has no value."""
    return any(a is None or _lacks(_inside(a)) for a in args)


def _inside(arg: Any) -> tuple[Any, ...]:
    """The arguments that a list or call holds."""
    if isinstance(arg, Lowered):
        return arg.args
    return tuple(arg) if isinstance(arg, tuple | list) else ()


def _from_data(args: Any) -> bool:
    """Whether a size among the arguments is one that only the data decide: no request tells it."""
    if isinstance(args, tuple | list | Lowered):
        return any(map(_from_data, _inside(args)))
    return isinstance(args, sympy.Expr) and dims.from_data(args)


def _alive(instructions: list[Instruction], wanted: list[str]) -> list[Instruction]:
    """Those that an output needs, and every check."""
    alive: list[Instruction] = []
    read = set(wanted)
    for i in reversed(instructions):
        if i.output in read or i.op == REQUIRE:
            alive.append(i)
            read.update(refs_in(operands(i)))
    return alive[::-1]


def _input(key: str, node: Node) -> Input:
    known, op = facts_of(node), op_of(node)
    default = op.default if isinstance(op, Placeholder) else None
    return Input(key, known.dtype, known.shape or (), tensor=source_of(node), default=default)


def _output(key: str, node: Node, value: Ref, decimal: bool) -> Output:
    known = facts_of(node)
    return Output(key, value, known.dtype, known.shape or (), decimal)


def _column(node: Node, slots: tuple[Slot, ...]) -> Column:
    assert isinstance(node.target, ColumnValue)
    return replace(node.target.column, slots=slots)


def _label(node: Node, op: GraphOp) -> Label | None:
    """What a lookup of strings by integers calls them."""
    args = args_of(node)
    if isinstance(op, LookupTableFind) and op.values.array.dtype == object and op.keys.array.dtype == np.int64:
        default = op_of(args[1])
        if isinstance(default, Constant):
            return Label(op.keys, op.values, bytes(default.value.array.reshape(-1)[0]))
    if isinstance(op, Gather) and not op.batch_dims and facts_of(args[2]).integer == 0:
        texts = op_of(args[0])
        if isinstance(texts, Constant) and texts.value.array.dtype == object and texts.value.array.ndim == 1:
            return Label(Const(np.arange(len(texts.value.array))), texts.value)
    return None


def _consts(columns: Iterable[Column], outputs: Iterable[Output]) -> dict[str, Const]:
    found: dict[str, Const] = {}
    for output in outputs:
        found.update({c.digest: c for c in ([output.label.keys, output.label.values] if output.label else [])})
    for c in columns:
        for expr in (c.ids, *c.filters, *([c.weights] if c.weights is not None else [])):
            for e in walk(expr):
                if isinstance(e, Apply):
                    found.update({v.digest: v for _, v in e.op.attributes() if isinstance(v, Const)})
    return found


def name_batch(program: Program) -> Program:
    """The commonest leading dim of the inputs is called B."""
    first = [i.shape[0] for i in program.inputs if i.shape and i.offsets is None] + [d.rows for d in program.decodes]
    first += [r.rows for r in program.row_keys]
    counts = {i.shape[0] for i in program.inputs if i.offsets is not None}
    counts |= {d for r in program.row_keys for d in (r.count, r.elements, *(r.outer or ())[1:]) if d is not None}
    leading = Counter(d for d in first if dims.is_symbol(d) and d not in counts)
    if not leading:
        return program
    (batch, _), *_ = leading.most_common(1)
    assert isinstance(batch, sympy.Symbol)
    mapping: dict[sympy.Symbol, Dim] = {batch: dims.symbol("B")}

    def shaped(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
        return tuple(dims.substitute(d, mapping) for d in shape)

    def arg(a: Any) -> Any:
        if isinstance(a, tuple):
            return tuple(map(arg, a))
        return dims.substitute(a, mapping) if isinstance(a, sympy.Expr) else a

    return replace(
        program,
        inputs=tuple(replace(i, shape=shaped(i.shape)) for i in program.inputs),
        decodes=tuple(replace(d, rows=dims.substitute(d.rows, mapping)) for d in program.decodes),
        row_keys=tuple(_renamed(r, mapping) for r in program.row_keys),
        pads=tuple(replace(p, rows=dims.substitute(p.rows, mapping)) for p in program.pads),
        buffers=tuple(replace(b, rows=dims.substitute(b.rows, mapping)) for b in program.buffers),
        dense=tuple(replace(i, args=arg(i.args), kwargs=arg(i.kwargs)) for i in program.dense),
        outputs=tuple(replace(o, shape=shaped(o.shape)) for o in program.outputs),
    )


def _renamed(item: RowKeys, mapping: Mapping[sympy.Symbol, Dim]) -> RowKeys:
    elements = None if item.elements is None else dims.substitute(item.elements, mapping)
    return replace(item, rows=dims.substitute(item.rows, mapping), elements=elements)
