"""The rules of a program, checked at once: names, slots, widths, dtypes, batch symbols and references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise

import sympy

from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.core.dims import Dim, prod
from colonnade.core.examples import Feature
from colonnade.core.expr import Apply, Expr, Field, fields_of, walk
from colonnade.core.pooling import MARKS
from colonnade.errors import ColonnadeError, GraphError, listed
from colonnade.ir.column import POOLINGS, Column, Slot, fields_read
from colonnade.ir.element_facts import field_facts, inside
from colonnade.ir.program import PLACE, Buffer, Input, Program, Ref, batch_dim, operands, refs_in
from colonnade.ir.table import Table
from colonnade.ops.graph._on_host import OnHost
from colonnade.ops.graph.split_rows import SplitRows
from colonnade.ops.op import ElementFacts, FilterOp, RaggedOp

INTEGERS = ("int32", "int64")
FLOATS = ("float32", "float64")
DECODED = ("dense", "padded", "ragged", "steps")


def check(program: Program) -> None:
    """Errors: GraphError that lists every rule the program breaks."""
    failures = list(broken(program))
    if len(failures) == 1:
        raise GraphError("the program breaks a rule", where=failures[0][0], got=failures[0][1])
    if failures:
        found = listed([f"{where}: {what}" for where, what in failures])
        raise GraphError(f"the program breaks {len(failures)} rules", got=found)


def broken(program: Program) -> Iterator[tuple[str, str]]:
    """Where, and what is wrong there, for every rule the program breaks."""
    yield from _names(program)
    yield from _offsets(program)
    yield from _elements(program)
    yield from _decodes(program)
    yield from _row_keys(program)
    yield from _agreements(program)
    yield from _pads(program)
    yield from _buffers(program)
    for output in program.outputs:
        if output.label is not None and (problem := output.label.problem()):
            yield f"output {output.name!r}", f"its labels have {problem}"
    yield from _Columns(program).broken()
    yield from _references(program)


def _names(program: Program) -> Iterator[tuple[str, str]]:
    """Values of the dense rest share one space of names."""
    values = [
        *(i.name for i in program.inputs),
        *(b.name for b in program.buffers),
        *(p[0] for p in program.params),
        *(i.output for i in program.dense),
    ]
    spaces = {
        "value": values,
        "key": [d.name for d in program.decodes],
        "table": [t.name for t in program.tables],
        "column": [c.name for c in program.columns],
        "output": [o.name for o in program.outputs],
    }
    for space, names in spaces.items():
        for name, count in Counter(names).items():
            if count > 1:
                yield f"{space} {name!r}", f"the name stands for {count} {space}s"


def _offsets(program: Program) -> Iterator[tuple[str, str]]:
    """Ragged inputs are vectors, and so are the offsets that they name."""
    inputs = {i.name: i for i in program.inputs}
    for item in program.inputs:
        if item.offsets is None:
            continue
        where, offsets = f"input {item.name!r}", inputs.get(item.offsets)
        if len(item.shape) != 1 or not isinstance(item.shape[0], sympy.Symbol):
            yield where, f"a ragged input has the shape [N] with a symbol N, not {_shape(item)}"
        if offsets is None:
            yield where, f"the offsets {item.offsets!r} are no input"
        elif offsets.dtype not in INTEGERS or len(offsets.shape) != 1 or offsets.offsets is not None:
            got = f"{offsets.dtype}{_shape(offsets)}" + (" and ragged themselves" if offsets.offsets else "")
            yield where, f"the offsets {item.offsets!r} are {got}, not int32 or int64 [B + 1]"
        elif item.shape == (batch_dim(item, inputs),):
            yield where, f"the elements have the batch dim {item.shape[0]}, not a dim of their own"


def _elements(program: Program) -> Iterator[tuple[str, str]]:
    """The elements of an input are a vector of as many, of the same dtype; only columns read them."""
    inputs = {i.name: i for i in program.inputs}
    read = {name for line in program.dense for name in refs_in(operands(line))} | {
        o.value.name for o in program.outputs
    }
    for item in program.inputs:
        if item.of is None:
            continue
        where, source = f"input {item.name!r}", inputs.get(item.of)
        if item.among:
            yield from _choice(item, inputs, read)
            continue
        if source is None or source.of is not None:
            yield where, f"it is the elements of {item.of!r}, which is no input of a request"
        elif item.by is not None:
            yield from _made(item, inputs, item.by)
        elif item.places is not None:
            yield from _places(item, source, item.places)
        elif (item.dtype, item.shape) != (source.dtype, (prod(source.shape),)):
            got, want = f"{item.dtype}{_shape(item)}", f"{source.dtype}[{prod(source.shape)}]"
            yield where, f"it is {got}, the elements of {item.of!r} are {want}"
        if item.offsets is not None:
            yield where, "single elements have no offsets"
        if item.name in read:
            yield where, f"only columns read elements, the dense rest reads {item.of!r}"


def _choice(item: Input, inputs: Mapping[str, Input], read: set[str]) -> Iterator[tuple[str, str]]:
    """Choices are ragged, of fields of a request; their offsets are one a batch row, and one more."""
    where = f"input {item.name!r}"
    fields = [inputs.get(name) for name in item.among]
    if any(field is None or field.of is not None or not field.shape for field in fields):
        yield where, f"it is made of {', '.join(item.among)}, which are no fields of a request"
        return
    if not 0 <= item.place < len(fields) or item.among[item.place] != item.of:
        yield where, f"{item.of!r} is not field {item.place} of {', '.join(item.among)}"
    for field, by in zip(fields, item.splits, strict=False):
        if by and field is not None and (field.dtype, field.offsets, prod(field.shape[1:])) != ("string", None, 1):
            yield where, f"{field.name!r} is split, which is not one string a row"
    if item.splits and len(item.splits) != len(item.among):
        yield where, f"it has {len(item.splits)} separators for {len(item.among)} fields"
    rows = {batch_dim(field, inputs) for field in fields if field is not None}
    source = inputs[str(item.of)]
    offsets = item if item.offsets is None else inputs.get(item.offsets)
    if len(rows) != 1 or offsets is None or (offsets.among, offsets.splits) != (item.among, item.splits):
        yield where, "its fields and its offsets are not of the same rows"
    elif item.offsets is None and (item.dtype != "int64" or item.shape != (dims.add(*rows, 1),)):
        yield where, f"offsets are int64[{dims.add(*rows, 1)}], not {item.dtype}{_shape(item)}"
    elif item.offsets is not None and item.dtype != ("int64" if item.numbered else source.dtype):
        yield where, f"it is {item.dtype}, {item.of!r} is {source.dtype}; places are int64"
    if item.name in read:
        yield where, "only columns read choices"


def _agreements(program: Program) -> Iterator[tuple[str, str]]:
    """Inputs that agree are dense and of one shape; what is missing is of their dtype; a column reads both."""
    inputs = {i.name: i for i in program.inputs}
    together = [set(fields_read(c)) for c in program.columns]
    for item in program.agreements:
        where, one, other = f"agree {item.name!r}", inputs.get(item.name), inputs.get(item.other)
        if one is None or other is None:
            yield where, f"{item.name if one is None else item.other!r} is no input"
            continue
        if one.shape != other.shape or one.offsets is not None or other.offsets is not None:
            yield where, f"{_shape(one)} and {_shape(other)} of {item.other!r} are no dense inputs of one shape"
        if one.dtype not in (("string",) if isinstance(item.missing, bytes) else INTEGERS) or other.dtype != "float32":
            yield where, f"{one.dtype} and {other.dtype} do not lack {item.missing!r} and {item.other_missing!r}"
        if not any({item.name, item.other} <= fields for fields in together):
            yield where, f"no column reads it together with {item.other!r}"


def _made(item: Input, inputs: Mapping[str, Input], by: Expr) -> Iterator[tuple[str, str]]:
    """Strings that the host makes of inputs of one shape, in that shape, in rows of tokens, or one after the other."""
    split = by.op if isinstance(by, Apply) and isinstance(by.op, SplitRows) else None
    for name in fields_of(by):
        source = inputs.get(name)
        if source is None or source.of is not None or source.offsets is not None:
            yield f"input {item.name!r}", f"it is made of {name!r}, which is no dense input of a request"
            continue
        made = source.shape
        if split is not None:
            made = (prod(source.shape), dims.symbol(split.symbol) if split.width is None else split.width)
        if source.dtype != "string" or item.dtype != "string" or item.shape not in (made, (prod(made),)):
            got, want = f"{item.dtype}{_shape(item)}", f"{source.dtype}{_shape(source)}"
            yield f"input {item.name!r}", f"it is {got}, made of {name!r}, which is {want}"
    for expr in walk(by):
        if isinstance(expr, Apply) and not isinstance(expr.op, OnHost):
            yield f"input {item.name!r}", f"{expr.op.name} makes no strings on the host"


def _places(item: Input, source: Input, places: tuple[int, int]) -> Iterator[tuple[str, str]]:
    """Some places of each row of a matrix."""
    start, stop = places
    rows, *widths = source.shape or (0,)
    fits = len(widths) == 1 and isinstance(widths[0], int) and 0 <= start < stop <= widths[0]
    if not fits or source.offsets is not None:
        yield f"input {item.name!r}", f"{item.of!r} is {_shape(source)}: it has no places {start}:{stop} in a row"
    elif (item.dtype, item.shape) != (source.dtype, (rows, stop - start)):
        got, want = f"{item.dtype}{_shape(item)}", f"{source.dtype}[{rows}, {stop - start}]"
        yield f"input {item.name!r}", f"it is {got}, the places {start}:{stop} of {item.of!r} are {want}"


def _decodes(program: Program) -> Iterator[tuple[str, str]]:
    """What is decoded is an input of the feature's dtype and shape, once."""
    inputs = {i.name: i for i in program.inputs}
    made = Counter(name for d in program.decodes for _, name in d.features if name is not None)
    for decode in program.decodes:
        if not isinstance(decode.rows, sympy.Symbol):
            yield f"decode {decode.name!r}", f"it has {decode.rows} rows, not a symbol"
        for feature, name in decode.features:
            where = f"feature {feature.key!r} of {decode.name!r}"
            item = inputs.get(name or "")
            if feature.kind not in DECODED:
                yield where, f"it is {feature.kind}: a program has {', '.join(DECODED)}"
            elif feature.splits != "int64":
                yield where, "its splits have the dtype of the input of offsets, not one of their own"
            elif name is not None and item is None:
                yield where, f"the input {name!r} does not exist"
            elif item is not None:
                yield from ((where, what) for what in _decoded(feature, item, decode.rows, inputs))
    for name, count in made.items():
        if count > 1:
            yield f"input {name!r}", f"{count} features become it"


def _row_keys(program: Program) -> Iterator[tuple[str, str]]:
    """What says rows becomes an input of offsets, by symbols that it tells."""
    inputs = {i.name: i for i in program.inputs}
    for item in program.row_keys:
        where, offsets = f"rows {item.name!r}", inputs.get(item.offsets)
        if item.by not in ("indices", "splits", "nested"):
            yield where, f"rows are said by indices, splits or nested ones, not by {item.by}"
        if (item.by == "nested") != (item.outer is not None) or (item.elements is not None and item.by != "splits"):
            yield where, "nested splits lie in others, and splits alone end with a size; nothing else does"
        if offsets is None or offsets.shape != (dims.add(item.rows, 1),):
            yield where, f"the input {item.offsets!r} is no vector of {item.rows} + 1 offsets"
        elif offsets.dtype != "int64":
            yield where, f"the input {item.offsets!r} is {offsets.dtype}, not int64"
        sizes = [item.rows, item.width, item.count, *([] if item.elements is None else [item.elements])]
        sizes += [item.outer[1]] if item.outer is not None else []
        if not all(isinstance(d, sympy.Symbol) for d in sizes):
            yield where, f"its sizes are {', '.join(map(str, sizes))}, not symbols"
        if item.places is not None and (item.by != "indices" or item.places not in inputs):
            yield where, f"the places {item.places!r} are no input, or rows are not said by indices"
        if (item.shape is None) != (item.by != "indices" or item.trimmed):
            yield where, "an index matrix has a dense shape unless it is trimmed; nothing else has one"


def _pads(program: Program) -> Iterator[tuple[str, str]]:
    """What is padded is a ragged field, by the offsets that it has; the input has a place for each."""
    inputs = {i.name: i for i in program.inputs}
    for item in program.pads:
        where, made, of = f"pad {item.name!r}", inputs.get(item.name), inputs.get(item.of or "")
        if item.what not in ("values", "marks", "ends"):
            yield where, f"an input is values, marks or ends of rows, not {item.what}"
        if (item.what == "values") != (item.of is not None) or (item.of is None) != (item.fill is None):
            yield where, "values have a field and a fill; nothing else has one"
        if item.offsets not in inputs or inputs[item.offsets].shape != (dims.add(item.rows, 1),):
            yield where, f"the input {item.offsets!r} is no vector of {item.rows} + 1 offsets"
        if item.of is not None and (of is None or of.offsets != item.offsets):
            yield where, f"the field {item.of!r} is not ragged by {item.offsets!r}"
        if item.places is not None and item.places not in {r.places for r in program.row_keys}:
            yield where, f"no rows say the places {item.places!r}"
        dtype = of.dtype if of is not None else "int64"
        if made is None:
            yield where, "the input does not exist"
        elif (made.dtype, made.shape) != (dtype, item.shape):
            yield where, f"the input is {made.dtype}{_shape(made)}, not {dtype}[{', '.join(map(str, item.shape))}]"
        if item.fill is not None and of is not None and (item.fill.array.size != 1 or _named(item.fill) != of.dtype):
            yield where, f"it is filled with {item.fill}, not one {of.dtype}"


def _named(fill: Const) -> str:
    return "string" if fill.array.dtype == object else fill.array.dtype.name


def _decoded(feature: Feature, item: Input, rows: Dim, inputs: Mapping[str, Input]) -> Iterator[str]:
    if item.dtype != feature.dtype:
        yield f"the input {item.name!r} is {item.dtype}, not {feature.dtype}"
    if (item.offsets is not None) != (feature.kind == "ragged"):
        yield f"the input {item.name!r} is {'dense' if item.offsets is None else 'ragged'}, the feature {feature.kind}"
    elif item.offsets is None and item.shape != (want := (rows, *_steps(feature, item), *feature.shape)):
        yield f"the input {item.name!r} is {_shape(item)}, not [{', '.join(map(str, want))}]"
    elif item.offsets in inputs and batch_dim(item, inputs) != rows:
        yield f"the input {item.name!r} has {batch_dim(item, inputs)} rows, not {rows}"


def _steps(feature: Feature, item: Input) -> tuple[Dim, ...]:
    """The most blocks of a feature of any number of them: a symbol."""
    if feature.kind != "steps":
        return ()
    found = item.shape[1] if len(item.shape) > 1 else 0
    return (found if isinstance(found, sympy.Symbol) else dims.symbol("T"),)


def _shape(item: Input) -> str:
    return f"[{', '.join(map(str, item.shape))}]"


def _buffers(program: Program) -> Iterator[tuple[str, str]]:
    """Slots lie inside and do not overlap, and every value of a row is written."""
    users: dict[str, list[tuple[int, int, str]]] = {b.name: [] for b in program.buffers}
    for column in program.columns:
        for slot in column.slots:
            users.setdefault(slot.output, []).append((slot.offset, slot.offset + slot.width, column.name))
    written = _written(program)
    for buffer in program.buffers:
        for what in _buffer(buffer, sorted(users[buffer.name]), written[buffer.name]):
            yield f"buffer {buffer.name!r}", what


def _written(program: Program) -> dict[str, set[int]]:
    """Where in each buffer the dense rest writes values beside the columns' own."""
    found: dict[str, set[int]] = {b.name: set() for b in program.buffers}
    buffers = {name: name for name in found}
    for line in program.dense:
        if line.op == PLACE and len(line.args) == 3:
            _, target, offset = line.args
            if isinstance(target, Ref) and target.name in buffers and isinstance(offset, int):
                buffers[line.output] = buffers[target.name]
                found[buffers[target.name]].add(offset)
    return found


def _buffer(buffer: Buffer, users: Sequence[tuple[int, int, str]], places: Set[int]) -> Iterator[str]:
    if buffer.width < 0:
        yield f"the width {buffer.width} is negative"
    for start, stop, name in users:
        if start < 0 or stop > buffer.width:
            yield f"the slot {start}:{stop} of column {name!r} is outside the width {buffer.width}"
    filled = [u for u in users if u[0] < u[1]]
    for (_, stop, name), (start, _, other) in pairwise(filled):
        if start < stop:
            yield f"the slots of columns {name!r} and {other!r} overlap at {start}:{stop}"
    done = 0
    for start, stop in (*((start, stop) for start, stop, _ in filled), (buffer.width, buffer.width)):
        if start > done and done not in places:
            yield f"nothing writes {done}:{start}"
        done = max(done, stop)


class _Columns:
    """The rules of columns, with the program's parts by name."""

    def __init__(self, program: Program) -> None:
        self.columns = program.columns
        self.inputs: dict[str, Input] = {i.name: i for i in program.inputs}
        self.tables: dict[str, Table] = {t.name: t for t in program.tables}
        self.buffers: dict[str, Buffer] = {b.name: b for b in program.buffers}
        self._inferred: dict[Expr, ElementFacts] = {Field(i.name): field_facts(i.dtype) for i in program.inputs}

    def broken(self) -> Iterator[tuple[str, str]]:
        """Every broken rule."""
        for column in self.columns:
            for what in self._column(column):
                yield f"column {column.name!r}", what

    def _column(self, column: Column) -> Iterator[str]:
        if column.pooling not in POOLINGS:
            yield f"the pooling {column.pooling!r} is none of {', '.join(POOLINGS)}"
        if column.pooling == MARKS and (column.weights is None or column.table is None):
            yield "marks without a table and weights that stand in their places"
        fields = fields_read(column)
        missing = [f for f in fields if f not in self.inputs]
        yield from (f"the field {f!r} is no input" for f in missing)
        if not missing:
            yield from self._dtypes(column)
        yield from self._ragged(column, fields)
        yield from self._batch(column, fields)
        if column.table is not None:
            yield from self._rows(column, column.table)
        elif column.default_row is not None:
            yield f"the default row {column.default_row} of no table"
        yield from self._slots(column, fields)

    def _dtypes(self, column: Column) -> Iterator[str]:
        wanted = INTEGERS if column.table is not None else (*INTEGERS, *FLOATS)
        yield from self._dtype("ids", column.ids, wanted)
        for k, expr in enumerate(column.filters):
            yield from self._dtype(f"filter {k}", expr, ("bool",))
            if not (isinstance(expr, Apply) and isinstance(expr.op, FilterOp)):
                yield f"filter {k} does not end in a filter op"
        if column.weights is not None:
            yield from self._dtype("weights", column.weights, FLOATS)

    def _dtype(self, what: str, expr: Expr, wanted: Sequence[str]) -> Iterator[str]:
        try:
            got = self._infer(expr)
        except ColonnadeError as e:
            yield f"{what}: {e.message}" + (f", not {e.got}" if e.got else "")
            return
        if got.dtype not in wanted:
            yield f"{what} are of dtype {got.dtype}, not {', '.join(wanted)}"

    def _infer(self, expr: Expr) -> ElementFacts:
        if expr not in self._inferred:
            assert isinstance(expr, Apply)
            if isinstance(expr.op, RaggedOp):
                raise GraphError(f"a column cannot hold {expr.op.name}, which works on whole rows")
            if len(expr.args) != expr.op.arity:
                raise GraphError(f"{expr.op.name} takes {expr.op.arity} operands", got=str(len(expr.args)))
            self._inferred[expr] = expr.op.infer(*map(self._infer, expr.args))
        return self._inferred[expr]

    def _ragged(self, column: Column, fields: Sequence[str]) -> Iterator[str]:
        """The fields are all dense, or all have the same offsets and are pooled."""
        offsets = {name: self.inputs[name].offsets for name in fields if name in self.inputs}
        if not any(offsets.values()):
            return
        if len(set(offsets.values())) > 1:
            found = [f"{name!r} is " + (f"ragged by {o!r}" if o else "dense") for name, o in offsets.items()]
            yield f"the fields differ in their offsets: {', '.join(found)}"
        if column.table is None:
            yield "a numeric column needs a dense field: the values of a ragged one have no fixed place in a row"
        elif column.pooling == "none":
            yield "the pooling 'none' needs a dense field: pool the rows of a ragged one"

    def _batch(self, column: Column, fields: Sequence[str]) -> Iterator[str]:
        """The fields' first dims and the rows of the buffers are one dim."""
        found: dict[Dim, str] = {}
        for name in fields:
            item = self.inputs.get(name)
            if item is None or (item.offsets is not None and not self._has_shape(item.offsets)):
                continue
            if not item.shape:
                yield f"the field {name!r} has no batch dim"
            else:
                found.setdefault(batch_dim(item, self.inputs), f"of field {name!r}")
        for slot in column.slots:
            if slot.output in self.buffers:
                found.setdefault(self.buffers[slot.output].rows, f"of buffer {slot.output!r}")
        if len(found) > 1:
            yield "more than one batch dim: " + ", ".join(f"{d} {whose}" for d, whose in found.items())

    def _has_shape(self, name: str) -> bool:
        return name in self.inputs and bool(self.inputs[name].shape)

    def _rows(self, column: Column, name: str) -> Iterator[str]:
        table = self.tables.get(name)
        if table is None:
            yield f"the table {name!r} does not exist"
        elif column.default_row is not None and not 0 <= column.default_row < table.rows:
            yield f"the default row {column.default_row} is outside the {table.rows} rows of table {name!r}"
        elif column.ids_proven and not self._proven(column, table):
            yield f"its ids are said to be proven to lie in the {table.rows} rows of table {name!r}, and are not"

    def _proven(self, column: Column, table: Table) -> bool:
        """Facts: true where the ids have no type, which is said elsewhere."""
        known = self._inferred.get(column.ids)
        return known is None or inside(column.ids, known, column.filters, table.rows)

    def _slots(self, column: Column, fields: Sequence[str]) -> Iterator[str]:
        for slot in column.slots:
            if slot.output not in self.buffers:
                yield f"the buffer {slot.output!r} does not exist"
            yield from self._width(column, slot, fields)

    def _width(self, column: Column, slot: Slot, fields: Sequence[str]) -> Iterator[str]:
        if slot.width < 1:
            yield f"the slot in buffer {slot.output!r} has the width {slot.width}"
            return
        made = self._made(column, fields)
        if made is not None and slot.width != made[0]:
            yield f"the slot in buffer {slot.output!r} has the width {slot.width}, {made[1]}"

    def _made(self, column: Column, fields: Sequence[str]) -> tuple[int, str] | None:
        """How wide a column's vector is, and what says so; None where that is not known."""
        table = self.tables.get(column.table or "")
        if column.table is not None and table is None:
            return None
        dim, whose = (1, "") if table is None else (table.embedding_dim, f"table {table.name!r} {table.embedding_dim}")
        if table is not None and column.pooling != "none":
            return dim, whose
        widths = {n: self._width_of(n) for n in fields if n in self.inputs}
        known = {width for width in widths.values() if width is not None}
        if len(known) != 1 or None in widths.values():
            return None
        (width,) = known
        shown = ", ".join(f"field {name!r} {width}" for name in widths)
        return dim * width, " of ".join(filter(None, (shown, whose)))

    def _width_of(self, name: str) -> int | None:
        """Elements a row of a dense field; None where a request says it."""
        item = self.inputs[name]
        width = None if item.offsets is not None else prod(item.shape[1:])
        return width if isinstance(width, int) else None


def _references(program: Program) -> Iterator[tuple[str, str]]:
    """A value is defined before it is used."""
    known = {i.name for i in program.inputs} | {b.name for b in program.buffers} | {p[0] for p in program.params}
    for line in program.dense:
        for name in refs_in(operands(line)):
            if name not in known:
                yield f"dense value {line.output!r}", f"%{name} is not defined before it"
        known.add(line.output)
    for output in program.outputs:
        if output.value.name not in known:
            yield f"output {output.name!r}", f"%{output.value.name} does not exist"
