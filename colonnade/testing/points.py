"""The points at which two implementations are compared: columns, concats, what stands before a step, outputs.

A *step* is a function that turns a small difference into a large one: round, floor, ceil, sign, argmax, a comparison, a
cast to integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.ir.program import Instruction, Output, Program, Ref, operands, refs_in

Array = NDArray[Any]

_ROUND = {"round", "floor", "ceil", "trunc", "fix"}
_COMPARE = {"gt", "ge", "lt", "le", "eq", "ne"}
_CASTS = {"to", "_to_copy"}
_INTEGERS = {"int8", "int16", "int32", "int64", "uint8", "bool"}


@dataclass(frozen=True)
class Point:
    """A tensor of ours (an output of `probe`), and where the source model has the same.

    key: its name in answers.   kind: column, concat, before or output.   source: the source's tensor, "" where unknown.
    step: for `before`, what follows.   slot: for a column, (buffer's key, offset, width).
    """

    key: str
    kind: str
    name: str
    source: str = ""
    step: str = ""
    slot: tuple[str, int, int] | None = None


def points_of(program: Program) -> tuple[Point, ...]:
    """Every point of a program, from the columns to the outputs."""
    found = [
        Point(f"column:{c.name}", "column", c.name, _tensor(c.source), slot=(f"concat:{s.output}", s.offset, s.width))
        for c in program.columns
        for s in c.slots[:1]
    ]
    found += [Point(f"concat:{b.name}", "concat", b.name) for b in program.buffers]
    for line, kind in steps(program):
        for name in read_by(program, line):
            source = _source_of(program, name)
            found.append(Point(f"before:{name}", "before", name, _tensor(source), kind))
    found += [Point(f"output:{o.name}", "output", o.name) for o in program.outputs]
    return tuple({p.key: p for p in found}.values())


def probe(program: Program) -> Program:
    """The program with every point as an output, by key. Facts: nothing is overwritten in place.

    The numbers are the same: an op in place computes what its plain form does.
    """
    names = {b.name: f"concat:{b.name}" for b in program.buffers}
    outputs = [Output(f"output:{o.name}", o.value, o.dtype, o.shape) for o in program.outputs]
    outputs += [Output(names[b.name], Ref(b.name), b.dtype, (b.rows, b.width)) for b in program.buffers]
    before = [p.name for p in points_of(program) if p.kind == "before"]
    outputs += [Output(f"before:{name}", Ref(name), "float32", ()) for name in before]
    return replace(program, dense=tuple(map(_plain, program.dense)), outputs=tuple(outputs))


def columns_only(program: Program) -> Program:
    """The program without its dense rest: the buffers are the outputs."""
    outputs = tuple(Output(b.name, Ref(b.name), b.dtype, (b.rows, b.width)) for b in program.buffers)
    return replace(program, dense=(), params=(), outputs=outputs)


def _plain(line: Instruction) -> Instruction:
    packet, _, overload = line.op.rpartition(".")
    in_place = packet.startswith("aten.") and packet.endswith("_") and not packet.endswith("__")
    return replace(line, op=f"{packet[:-1]}.{overload}") if in_place else line


def steps(program: Program) -> Iterator[tuple[Instruction, str]]:
    """The steps among what the outputs are made of, going back from the outputs and stopping at the first."""
    lines = {line.output: line for line in program.dense}
    seen: set[str] = set()
    stack = [o.value.name for o in program.outputs]
    while stack:
        name = stack.pop()
        line = lines.get(name)
        if line is None or name in seen:
            continue
        seen.add(name)
        kind = _step(line)
        if kind:
            yield line, kind
        else:
            stack.extend(refs_in(operands(line)))


def read_by(program: Program, line: Instruction) -> tuple[str, ...]:
    """The values that a step reads; what no node of the source is, such as NaN set apart, is looked through."""
    lines = {each.output: each for each in program.dense}
    found: dict[str, None] = {}
    stack = list(refs_in(line.args))
    while stack:
        name = stack.pop(0)
        inner = lines.get(name)
        if inner is not None and inner.source == name:
            stack += refs_in(operands(inner))
        else:
            found[name] = None
    return tuple(found)


def _step(line: Instruction) -> str:
    """The kind of step that a line is; "" where it is none."""
    name = line.op.removeprefix("aten.").partition(".")[0].rstrip("_")
    name = "_to_copy" if line.op.startswith("aten._to_copy") else name
    if name in _ROUND or name in {"sign", "argmax"} or name in _COMPARE:
        return name
    if name in _CASTS:
        return "cast" if _INTEGERS & {str(v) for v in (*line.args, *(v for _, v in line.kwargs))} else ""
    return ""


def margin(step: str, value: Array, line: Instruction | None = None) -> Array:
    """How far each value is from the place where the step's result changes; NaN has no such place (infinite).

    Facts: of a comparison with a number, the distance to it; with another tensor, unknown: 0.
    """
    x = np.asarray(value, np.float64)
    with np.errstate(invalid="ignore"):
        if step == "round":
            found = np.abs(np.abs(x - np.floor(x)) - 0.5)
        elif step in _ROUND or step == "cast":
            found = np.abs(x - np.rint(x))
        elif step == "sign":
            found = np.abs(x)
        elif step == "argmax":
            top = np.sort(x, axis=-1)
            found = np.broadcast_to((top[..., -1:] - top[..., -2:-1]) if x.shape[-1] > 1 else np.inf, x.shape)
        else:
            bound = _bound(line)
            found = np.zeros_like(x) if bound is None else np.abs(x - bound)
    return np.asarray(np.nan_to_num(found, nan=np.inf, posinf=np.inf))


def _bound(line: Instruction | None) -> float | None:
    numbers = [a for a in line.args if isinstance(a, int | float)] if line is not None else []
    return float(numbers[0]) if numbers else None


def dense_inputs(program: Program) -> frozenset[str]:
    """The inputs that the dense rest reads itself."""
    read = {name for line in program.dense for name in refs_in(operands(line))}
    return frozenset(i.name for i in program.inputs if i.name in read)


def _source_of(program: Program, name: str) -> str:
    last = {line.source: line.output for line in program.dense}  # lines before it hold no tensor of the source
    for line in program.dense:
        if line.output == name:
            return line.source if last[line.source] == name else ""
    return next((i.tensor for i in program.inputs if i.name == name), "")


def _tensor(source: str) -> str:
    return source if not source or ":" in source else f"{source}:0"


def slots_of(program: Program, answer: Mapping[str, Array]) -> dict[str, Array]:
    """The answer with a column's part of its buffer under the column's key."""
    found = dict(answer)
    for point in points_of(program):
        if point.slot is not None and point.key not in found and point.slot[0] in found:
            buffer, offset, width = point.slot
            found[point.key] = found[buffer][:, offset : offset + width]
    return found
