"""What of a program a device does, and what is left to the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import sympy

from colonnade.backends.dense import host_only
from colonnade.backends.dense_ops import require
from colonnade.backends.sizes import Sizes, dim_function
from colonnade.ir.program import REQUIRE, Instruction, Output, Program, Ref, operands, refs_in

SizeCheck = Callable[[Sizes], None]
INDEXES = {
    "aten.index_select.default": 2,
    "aten.gather.default": 2,
    "aten.embedding.default": 1,
    "aten.one_hot.default": 0,
    "aten.index.Tensor": 1,
    "colonnade.gather_nd": 1,
}
"""Ops that read where numbers say, and the position of the first argument that holds them."""
DIVISIONS = {
    "aten.div.Tensor_mode": 1,
    "aten.floor_divide.default": 1,
    "aten.fmod.Tensor": 1,
    "aten.remainder.Tensor": 1,
}
"""Divisions that programs have for integers alone, and the position of the divisor."""


def split(program: Program) -> tuple[Program, tuple[SizeCheck, ...]]:
    """What is left for the device, and the checks of sizes, which are made on the host in each request.

    Facts: outputs that are inputs or parameters are left out.
    """
    given = {i.name for i in program.inputs} | {name for name, _, _ in program.params}
    dense = tuple(line for line in program.dense if not _compares_sizes(line))
    outputs = tuple(o for o in program.outputs if o.value.name not in given)
    checks = tuple(map(_check_of, filter(_compares_sizes, program.dense)))
    return replace(program, dense=dense, outputs=outputs), checks


def columns_only(program: Program) -> Program:
    """Its outputs are the buffers."""
    buffers = tuple(Output(b.name, Ref(b.name), b.dtype, (b.rows, b.width)) for b in program.buffers)
    return replace(program, dense=(), outputs=buffers)


def reasons_for_host(program: Program) -> tuple[str, ...]:
    """The instructions of the dense rest that no device can do, in words.

    Facts: a device cannot refuse an index outside of its tensor: the process could not use it any more. It does not
    refuse to divide an integer by zero either, but gives some number.
    """
    params = {name for name, _, _ in program.params}
    reasons = [
        f"{line.output} = {line.op}: its {what} from the request"
        for line in program.dense
        for ops, what in ((INDEXES, "indices come"), (DIVISIONS, "divisor comes"))
        if line.op in ops and not params.issuperset(refs_in(line.args[ops[line.op] :]))
    ]
    return (*host_only(program), *reasons)


def symbols_read(program: Program) -> frozenset[str]:
    """The symbols of sizes that the dense rest or an output depends on."""
    names = {name for line in program.dense for name in refs_in(operands(line))}
    names |= {o.value.name for o in program.outputs}
    shapes = [i.shape for i in program.inputs if i.name in names] + [o.shape for o in program.outputs]
    exprs = [*_exprs([operands(line) for line in program.dense]), *_exprs(shapes)]
    return frozenset(str(s) for e in exprs for s in e.free_symbols)


def _exprs(values: Any) -> Iterator[sympy.Expr]:
    for value in values:
        if isinstance(value, sympy.Expr):
            yield value
        elif isinstance(value, tuple | list):
            yield from _exprs(value)


def _compares_sizes(line: Instruction) -> bool:
    return line.op == REQUIRE and not line.kwargs and all(isinstance(a, int | sympy.Expr) for a in line.args[:2])


def _check_of(line: Instruction) -> SizeCheck:
    got, want, where = line.args
    a, b = dim_function(got), dim_function(want)
    return lambda sizes: require(a(sizes), b(sizes), where)
