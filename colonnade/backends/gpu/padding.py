"""Whether a request may be padded with rows: a proof that every row of every output depends on its own row alone.

An abstract interpretation of the dense rest: `rows/rules.py` has a rule for each op, nothing else is believed. The
columns need no proof: a row of a buffer is made of that row's ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import sympy

from colonnade.backends.dense import overload_of
from colonnade.backends.gpu.rows.aliases import Aliases
from colonnade.backends.gpu.rows.call import Call
from colonnade.backends.gpu.rows.names import REFUSING
from colonnade.backends.gpu.rows.rules import RULES
from colonnade.backends.gpu.rows.values import Unproven, Value, holds, shown, value_of
from colonnade.core import dims
from colonnade.ir.program import ITEM, OWN, PLACE, REQUIRE, Instruction, Program, Ref

Held: TypeAlias = Value | tuple[Value, ...]

_OWN_ARGUMENTS = {
    PLACE: ("x", "buffer", "offset"),
    REQUIRE: ("got", "want", "where"),
    ITEM: ("values", "index"),
    "colonnade.floor_mod": ("a", "b"),
    "colonnade.fmod": ("a", "b"),
    "colonnade.top_k": ("x", "k", "dtype"),
}


@dataclass(frozen=True)
class Proven:
    """Rows may be added: the first B rows of every output stay as they are, up to the last bits of a matrix product.

    batch: the symbol that stands for the rows.   refusing: instructions that refuse some values (an index outside, an
    integer division by zero). Facts: where there are any, a padding row must repeat a row of the request, and garbage
    will not do; inputs without the batch symbol are passed as they are.
    """

    batch: str
    refusing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dependent:
    """The exact batch must run. where: the first instruction, input or output at which the proof fails."""

    reason: str
    where: str


def row_independent(program: Program) -> Proven | Dependent:
    """The proof for a program, or where it fails."""
    batch = _batch(program)
    if isinstance(batch, Dependent):
        return batch
    proof = _Proof(program, batch)
    for line in program.dense:
        try:
            proof.step(line)
        except Unproven as failure:
            source = f" <- {line.source}" if line.source else ""
            return Dependent(str(failure), f"{_named(line)}{source}")
    for output in program.outputs:
        try:
            proof.output(output.value.name)
        except Unproven as failure:
            return Dependent(str(failure), f"output {output.name!r}")
    return Proven(batch.name, tuple(proof.refusing))


def _batch(program: Program) -> sympy.Symbol | Dependent:
    """The rows of every buffer; without buffers, those of every input that has a symbol first."""
    rows = {str(b.rows): b.rows for b in program.buffers}
    if not rows:
        rows = {str(i.shape[0]): i.shape[0] for i in program.inputs if i.shape and dims.is_symbol(i.shape[0])}
    if len(rows) != 1:
        return Dependent(f"{len(rows) or 'no'} batch sizes: {', '.join(sorted(rows)) or 'none'}", "signature")
    (only,) = rows.values()
    if not isinstance(only, sympy.Symbol):
        return Dependent(f"a batch size that is no symbol: {only}", "signature")
    return only


@dataclass
class _Proof:
    program: Program
    batch: sympy.Symbol
    values: dict[str, Held] = field(default_factory=dict)
    aliases: Aliases = field(default_factory=Aliases)
    refusing: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for item in self.program.inputs:
            if not holds(self.batch, item.shape[1:]) and (not item.shape or _is_rows(item.shape[0], self.batch)):
                self.values[item.name] = value_of(item.shape, self.batch)
        for buffer in self.program.buffers:
            self.values[buffer.name] = value_of((buffer.rows, buffer.width), self.batch)
        for name, _, shape in self.program.params:
            self.values[name] = Value(shape)

    def step(self, line: Instruction) -> None:
        """Errors: Unproven."""
        rule = RULES.get(line.op)
        if rule is None:
            raise Unproven("no rule says what the op does to rows")
        call = Call(self._arguments(line), self.batch)
        made = rule(call)
        call.check_rest()
        self.aliases.step(line, call.arguments)
        shapes = made if isinstance(made, list) else [made]
        values = tuple(value_of(shape, self.batch) for shape in shapes)
        self.values[line.output] = values if isinstance(made, list) else values[0]
        if line.op in REFUSING and any(v.axis is not None for v in call.operands()):
            self.refusing.append(_named(line))

    def output(self, name: str) -> None:
        """Errors: Unproven where it is no tensor of rows, nor one that padding does not change."""
        found = self._value(name)
        if not isinstance(found, Value):
            raise Unproven("a list of tensors")
        if found.axis is not None and (found.axis, found.block) != (0, 1):
            raise Unproven(f"its rows are not those of the batch: {shown(found.shape)}")

    def _value(self, name: str) -> Held:
        if name in self.values:
            return self.values[name]
        shapes = [i.shape for i in self.program.inputs if i.name == name]
        if shapes:
            raise Unproven(f"input {name!r} has the batch elsewhere than in front: {shown(shapes[0])}")
        raise Unproven(f"no value {name!r}")

    def _arguments(self, line: Instruction) -> dict[str, Any]:
        """The arguments by name, defaults and all."""
        named: dict[str, Any] = {}
        if line.op.startswith(OWN):
            names: Iterable[str] = _OWN_ARGUMENTS[line.op]
        else:
            call = overload_of(line.op)
            if call is None:
                raise Unproven("no such op")
            arguments = call._schema.arguments
            names = [a.name for a in arguments]
            named = {a.name: a.default_value for a in arguments if a.has_default_value()}
        given = dict(zip(names, line.args, strict=False)) | dict(line.kwargs)
        named |= {name: self._argument(value) for name, value in given.items()}
        missing = [name for name in names if name not in named]
        if missing or len(line.args) > len(tuple(names)):
            raise Unproven(f"arguments that do not fit: {missing or len(line.args)}")
        return named

    def _argument(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return self._value(value.name)
        if isinstance(value, tuple | list):
            return tuple(self._argument(v) for v in value)
        if isinstance(value, sympy.Expr):
            return dims.simple(value)
        return value


def _is_rows(dim: dims.Dim, batch: sympy.Symbol) -> bool:
    return dim == batch or not holds(batch, dim)


def _named(line: Instruction) -> str:
    return f"{line.output} = {line.op}"
