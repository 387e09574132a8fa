"""The text form of a program: one line an input, table, parameter, buffer, column, instruction and output.

    colonnade program 1
    input city: string[B, 20]  # from city:0
    input tags: string[N] offsets tags_offsets
    input tags_offsets: int64[{B + 1}]
    table t0: float32[10000, 16]  # from city/embedding_weights
    decode rows: string[B]  # from rows:0
    feature age of rows: int64 padded[1] default int64[](0) -> age
    rows tags_offsets: int64[B, T] of indices tags_at[N] shape tags_shape
    buffer b0: float32[B, 16]
    column city = mod[divisor=10000](hash_bytes[function=farm](%city)) -> table t0 pool mean -> b0[0:16]
    %h = aten.relu.default(%b0)
    output y: float32[B, 16] = %h

Facts: `parse_program(print_program(p), consts_of(p)) == p`, and the other way round for a text that was printed; names
that are not `[A-Za-z0-9_./-]+` stand in double quotes; `#` starts a comment; sources are the comments `# from ...`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from colonnade.core.consts import Const
from colonnade.core.dims import Dim
from colonnade.core.examples import Feature
from colonnade.core.expr import Apply, Expr, Field, walk
from colonnade.errors import TextError
from colonnade.ir import text_lexer, text_values
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Agreement, Buffer, Decode, Input, Instruction, Output, Pad, Program, RowKeys
from colonnade.ir.table import Table
from colonnade.ir.text_lexer import Failure, name
from colonnade.ir.text_parser import Line, Param, near

VERSION = 1
HEADER = "colonnade program"
KINDS = ("input", "decode", "feature", "rows", "agree", "pad", "table", "param", "buffer", "column", "output")


def print_program(program: Program) -> str:
    """The program's text. Errors: TextError where a value of the dense rest or an attribute has no text form."""
    lines = [f"{HEADER} {VERSION}"]
    lines.extend(map(_input, program.inputs))
    for item in program.decodes:
        lines.append(_decode(item))
        lines.extend(_feature(item, feature, made) for feature, made in item.features)
    lines.extend(map(_rows, program.row_keys))
    lines.extend(map(_agreement, program.agreements))
    lines.extend(map(_pad, program.pads))
    lines.extend(map(_table, program.tables))
    lines.extend(map(_param, program.params))
    lines.extend(map(_buffer, program.buffers))
    lines.extend(map(print_column, program.columns))
    lines.extend(map(_instruction, program.dense))
    lines.extend(map(_output, program.outputs))
    return "\n".join(lines) + "\n"


def parse_program(text: str, consts: Mapping[str, Const]) -> Program:
    """The program of a text. Errors: TextError with line and column of everything that does not parse."""
    lines = text.split("\n")
    _check_header(lines[0])
    found: dict[str, list[Any]] = {kind: [] for kind in (*KINDS, "dense")}
    failures: list[tuple[int, str, Failure]] = []
    for number, line in enumerate(lines[1:], 2):
        try:
            kind, item = _parse_line(line.removesuffix("\r"), consts)
        except Failure as failure:
            failures.append((number, line, failure))
        except RecursionError:
            failures.append((number, line, Failure(0, "an expression that is nested less deeply")))
        else:
            if kind:
                found[kind].append(item)
    if failures:
        raise text_lexer.error(failures)
    return Program(
        inputs=tuple(found["input"]),
        tables=tuple(found["table"]),
        columns=tuple(found["column"]),
        buffers=tuple(found["buffer"]),
        dense=tuple(found["dense"]),
        outputs=tuple(found["output"]),
        params=tuple(found["param"]),
        decodes=_with_features(found["decode"], found["feature"]),
        row_keys=tuple(found["rows"]),
        agreements=tuple(found["agree"]),
        pads=tuple(found["pad"]),
    )


def _with_features(
    decodes: Sequence[Decode], features: Sequence[tuple[str, Feature, str | None]]
) -> tuple[Decode, ...]:
    strays = sorted({of for of, _, _ in features} - {d.name for d in decodes})
    if strays:
        raise TextError("features of what is not decoded", got=", ".join(strays), want="a line `decode NAME: ...`")
    return tuple(replace(d, features=tuple((f, made) for of, f, made in features if of == d.name)) for d in decodes)


def consts_of(program: Program) -> dict[str, Const]:
    """Every constant in the program by its digest, in order of first use."""
    found: dict[str, Const] = {}
    for value in _values(program):
        if isinstance(value, Const):
            found.setdefault(value.digest, value)
    return found


def by_digest(const: Const) -> bool:
    """Whether the text names a constant by its digest, so that its content must travel beside the text."""
    return text_values.inline(const) is None


def print_expr(expr: Expr) -> str:
    """An expression over fields, such as `mod[divisor=10](%x)`."""
    if isinstance(expr, Field):
        return "%" + name(expr.name)
    assert isinstance(expr, Apply)
    return f"{_op(expr.op)}({', '.join(map(print_expr, expr.args))})"


def print_column(column: Column) -> str:
    """A column's line."""
    parts = [f"column {name(column.name)} = {print_expr(column.ids)}"]
    if column.filters:
        parts.append("where " + " and ".join(map(print_expr, column.filters)))
    if column.weights is not None:
        parts.append("weight " + print_expr(column.weights))
    parts.append("-> value" if column.table is None else f"-> table {name(column.table)}")
    parts.append(f"pool {column.pooling}")
    if column.default_row is not None:
        parts.append(f"default {column.default_row}")
    if column.ids_proven:
        parts.append("proven")
    if column.slots:
        parts.append("-> " + ", ".join(map(_slot, column.slots)))
    return " ".join(parts) + _from(column.source)


def _parse_line(text: str, consts: Mapping[str, Const]) -> tuple[str, Any]:
    """The kind and content of a line; no kind for an empty one."""
    line = Line(text, consts)
    first = line.peek()
    if first.kind == "end":
        return "", None
    if line.ahead("%"):
        kind, item = "dense", line.instruction()
    elif first.kind == "word" and first.text in KINDS:
        line.take()
        kind, item = first.text, getattr(line, first.text)()
    else:
        raise Failure(first.at, f"a line that starts with {', '.join(KINDS)} or `%NAME =`", near(first.text, KINDS))
    line.done()
    return kind, item


def _check_header(line: str) -> None:
    words = line.split()
    version = words[2] if len(words) == 3 and " ".join(words[:2]) == HEADER else ""
    if not (version.isascii() and version.isdigit()):
        raise TextError(
            "this is not the text of a program", where="line 1, column 1", got=line[:100], want=f"{HEADER} {VERSION}"
        )
    if int(version) != VERSION:
        raise TextError(
            "the program text is of another version",
            where=f"line 1, column {line.index(version) + 1}",
            got=version,
            want=str(VERSION),
            help="read it with the version of colonnade that wrote it",
        )


def _values(program: Program) -> Iterator[Any]:
    yield from (p.fill for p in program.pads)
    for column in program.columns:
        weights = () if column.weights is None else (column.weights,)
        for expr in (column.ids, *column.filters, *weights):
            for node in walk(expr):
                if isinstance(node, Apply):
                    yield from _leaves(v for _, v in node.op.attributes())
    yield from (item.default for item in program.inputs)
    for item in program.decodes:
        yield from (feature.default for feature, _ in item.features)
    for output in program.outputs:
        yield from () if output.label is None else (value for _, value in output.label.attributes())
    for line in program.dense:
        yield from _leaves((line.args, *(v for _, v in line.kwargs)))


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from _leaves(value)
        else:
            yield value


def _op(op: Any) -> str:
    shown = ", ".join(f"{key}={text_values.value(v)}" for key, v in op.attributes())
    return f"{op.name}[{shown}]" if shown else str(op.name)


def _input(item: Input) -> str:
    offsets = "" if item.offsets is None else f" offsets {name(item.offsets)}"
    places = "" if item.places is None else f"[{item.places[0]}:{item.places[1]}]"
    of = "" if item.of is None else f" of {name(item.of)}{places}"
    of = of if item.by is None else f" by {print_expr(item.by)}"
    if item.among:
        ends = [f" split {text_values.value(by)}" if by else "" for by in item.splits or (b"",) * len(item.among)]
        fields = (name(field) + end for field, end in zip(item.among, ends, strict=True))
        of += f" {'place of ' if item.numbered else ''}choice {item.place} among ({', '.join(fields)})"
    default = "" if item.default is None else f" default {text_values.value(item.default)}"
    return f"input {name(item.name)}: {name(item.dtype)}{_shape(item.shape)}{of}{offsets}{default}{_from(item.tensor)}"


def _decode(item: Decode) -> str:
    return f"decode {name(item.name)}: string{_shape((item.rows,))}{_from(item.tensor)}"


def _feature(item: Decode, feature: Feature, made: str | None) -> str:
    parts = [f"feature {name(feature.key)} of {name(item.name)}: {feature.dtype} {feature.kind}{_shape(feature.shape)}"]
    if feature.default is not None:
        parts.append("default " + text_values.value(feature.default))
    if made is not None:
        parts.append("-> " + name(made))
    return " ".join(parts)


def _rows(item: RowKeys) -> str:
    parts = [f"rows {name(item.offsets)}: {item.dtype}{_shape((item.rows, item.width))} of"]
    parts += [word for word in ("trimmed", "strict") if getattr(item, word)]
    parts.append(f"{item.by} {name(item.name)}{_shape((item.count,))}")
    if item.outer is not None:
        parts.append(f"in {name(item.outer[0])}{_shape((item.outer[1],))}")
    if item.elements is not None:
        parts.append(f"over {_shape((item.elements,))}")
    if item.shape is not None:
        parts.append("shape " + name(item.shape))
    if item.places is not None:
        parts.append("places " + name(item.places))
    return " ".join(parts) + _from(item.tensor)


def _agreement(item: Agreement) -> str:
    sides = ((item.name, item.missing), (item.other, item.other_missing))
    return "agree " + " and ".join(f"{name(key)} without {text_values.value(value)}" for key, value in sides)


def _pad(item: Pad) -> str:
    parts = [f"pad {name(item.name)}: {item.what}{_shape((item.rows, item.width))}"]
    if item.of is not None:
        parts.append("of " + name(item.of))
    if item.fill is not None:
        parts.append("fill " + text_values.value(item.fill))
    parts.append("by " + name(item.offsets))
    if item.places is not None:
        parts.append("at " + name(item.places))
    return " ".join(parts)


def _table(item: Table) -> str:
    made = "" if item.made is None else f" = {print_expr(item.made)}"
    return f"table {name(item.name)}: {name(item.dtype)}[{item.rows}, {item.embedding_dim}]{made}{_from(item.source)}"


def _param(item: Param) -> str:
    return f"param {name(item[0])}: {name(item[1])}{_shape(item[2])}"


def _buffer(item: Buffer) -> str:
    return f"buffer {name(item.name)}: {name(item.dtype)}{_shape((item.rows, item.width))}"


def _slot(item: Slot) -> str:
    return f"{name(item.output)}[{item.offset}:{item.offset + item.width}]"


def _instruction(item: Instruction) -> str:
    args = [text_values.value(a) for a in item.args]
    args.extend(f"{name(key)}={text_values.value(v)}" for key, v in item.kwargs)
    return f"%{name(item.output)} = {name(item.op)}({', '.join(args)}){_from(item.source)}"


def _output(item: Output) -> str:
    value = f"%{name(item.value.name)}"
    shown = f"decimal({value})" if item.decimal else value if item.label is None else f"{_op(item.label)}({value})"
    return f"output {name(item.name)}: {name(item.dtype)}{_shape(item.shape)} = {shown}"


def _shape(items: tuple[Dim, ...]) -> str:
    return "[" + ", ".join(map(_dim, items)) + "]"


def _dim(item: Dim) -> str:
    shown = text_values.dim(item)
    return shown if shown.isidentifier() or isinstance(item, int) else "{" + shown + "}"


def _from(source: str) -> str:
    if not source:
        return ""
    plain = source.isprintable() and source == source.strip() and not source.startswith('"')
    return "  # from " + (source if plain else text_lexer.quoted(source))
