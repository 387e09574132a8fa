"""Hypothesis strategies for programs whose text form is tested: any names, attributes, operands and sources.

Facts: the programs need not pass `colonnade.ir.check_program`; they are what the types allow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.core.dims import Dim
from colonnade.core.expr import Apply, Expr, Field
from colonnade.ir.column import POOLINGS, Column, Slot
from colonnade.ir.program import Agreement, Buffer, Input, Instruction, Output, Program, Ref
from colonnade.ir.table import Table
from colonnade.ir.text_values import CONST_DTYPES
from colonnade.ops.at_least import AtLeast
from colonnade.ops.bucketize import Bucketize
from colonnade.ops.cast import Cast
from colonnade.ops.graph.clip_rows import ClipRows
from colonnade.ops.graph.join_shards import JoinShards
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.mod import Mod
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.split import Split

INT64 = st.integers(-(2**63), 2**63 - 1)
SIZES = st.integers(0, 2**40)


def names() -> st.SearchStrategy[str]:
    """Names as TensorFlow has them, words of the text form itself, and any text."""
    words = ("table", "value", "where", "and", "->", "-", "%", "1", "1.5", "true", "b", "#", "a->b", 'a"b', "pool")
    usual = st.from_regex(r"[A-Za-z0-9_./:-]{1,12}", fullmatch=True)
    return st.one_of(usual, st.sampled_from(words), st.text(max_size=6))


def sources() -> st.SearchStrategy[str]:
    """Sources: none, usual ones, and any text."""
    return st.one_of(st.just(""), st.from_regex(r"[a-z/_:0-9]{1,10}", fullmatch=True), st.text(max_size=6))


def any_dims() -> st.SearchStrategy[Dim]:
    """Integers, symbols, sums, products and the uninterpreted functions."""
    symbols = st.sampled_from(["B", "s0", "N_1"]).map(dims.symbol)
    leaves: st.SearchStrategy[Dim] = st.one_of(st.integers(-8, 1000), symbols)

    def grow(inner: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda p: dims.add(*p)),
            pair.map(lambda p: dims.mul(*p)),
            pair.map(lambda p: dims.sub(*p)),
            pair.map(lambda p: dims.maximum(*p)),
        )

    return st.recursive(leaves, grow, max_leaves=4)


def shapes() -> st.SearchStrategy[tuple[Dim, ...]]:
    """Shapes of up to three dims."""
    return st.lists(any_dims(), max_size=3).map(tuple)


@st.composite
def consts(draw: st.DrawFn, dtypes: tuple[str, ...] = CONST_DTYPES) -> Const:
    """Constants of every dtype and up to 80 elements: any bits, so also NaN with payloads."""
    dtype = draw(st.sampled_from(dtypes))
    size = draw(st.sampled_from([(), (0,), (1,), (3,), (2, 3), (64,), (65,), (0, 4), (80,)]))
    count = math.prod(size)
    if dtype == "string":
        array = np.empty(count, dtype=object)
        array[:] = draw(st.lists(st.binary(max_size=4), min_size=count, max_size=count))
        return Const(array.reshape(size))
    if dtype == "bool":
        return Const(np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool).reshape(size))
    width = np.dtype(dtype).itemsize * count
    data = draw(st.binary(min_size=width, max_size=width))
    return Const(np.frombuffer(data, dtype).reshape(size))


def exprs() -> st.SearchStrategy[Expr]:
    """Expressions of column ops, whether or not their dtypes fit."""
    fields: st.SearchStrategy[Expr] = names().map(Field)
    flags = st.booleans()
    all_ops: st.SearchStrategy[Any] = st.one_of(
        st.builds(Mod, INT64),
        st.builds(AtLeast, INT64),
        st.builds(HashBytes, st.just("farm")),
        st.builds(Cast, st.one_of(st.just("int64"), names())),
        st.builds(Split, st.binary(max_size=4)),
        st.builds(NotEqual, st.one_of(st.binary(max_size=4), INT64)),
        st.builds(Bucketize, consts(("float32",)), flags),
    )
    return st.recursive(fields, lambda inner: st.builds(Apply, all_ops, inner), max_leaves=1)


def operands() -> st.SearchStrategy[Any]:
    """Operands of the dense rest. Facts: a NaN is `math.nan` itself, so that programs compare equal."""
    leaves: st.SearchStrategy[Any] = st.one_of(
        st.builds(Ref, names()),
        any_dims(),
        INT64,
        st.floats(allow_nan=False),
        st.just(math.nan),
        st.booleans(),
        st.none(),
        st.text(max_size=6),
        st.sampled_from(["float32", "true", "inf", "none", "-x"]),
        st.binary(max_size=6),
        consts(),
    )
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)


def columns() -> st.SearchStrategy[Column]:
    """Any columns."""
    slots = st.builds(Slot, names(), SIZES, SIZES)
    return st.builds(
        Column,
        names(),
        exprs(),
        st.none() | names(),
        st.sampled_from(POOLINGS),
        st.lists(exprs(), max_size=2).map(tuple),
        st.none() | exprs(),
        st.none() | SIZES,
        st.booleans(),
        st.lists(slots, max_size=2).map(tuple),
        sources(),
    )


def made() -> st.SearchStrategy[Expr]:
    """What rows of tables are made of."""
    fields = st.builds(Field, names())
    joined = st.builds(Apply, st.builds(JoinShards, st.sampled_from(["div", "mod"])), fields, fields)
    clips = st.builds(ClipRows, st.floats(allow_nan=False))
    return joined | st.builds(Apply, clips, fields | joined)


def instructions() -> st.SearchStrategy[Instruction]:
    """Any lines of the dense rest."""
    kwargs = st.lists(st.tuples(names(), operands()), max_size=2).map(tuple)
    ops = st.sampled_from(["aten.addmm.default", "gather_nd"]) | names()
    return st.builds(Instruction, names(), ops, st.lists(operands(), max_size=4).map(tuple), kwargs, sources())


def programs() -> st.SearchStrategy[Program]:
    """Any programs."""
    dtypes = st.sampled_from(["string", "int32", "int64", "float32", "bfloat16"])

    def some(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(items, max_size=2).map(tuple)

    return st.builds(
        Program,
        some(st.builds(Input, names(), dtypes, shapes(), sources(), st.none() | names())),
        some(st.builds(Table, names(), SIZES, SIZES, dtypes, sources(), st.none() | made())),
        some(columns()),
        some(st.builds(Buffer, names(), any_dims(), SIZES, dtypes)),
        some(instructions()),
        some(st.builds(Output, names(), st.builds(Ref, names()), dtypes, shapes())),
        some(st.tuples(names(), dtypes, st.lists(SIZES, max_size=3).map(tuple))),
        agreements=some(
            st.builds(Agreement, names(), st.integers() | st.binary(), names(), st.floats(allow_nan=False))
        ),
    )
