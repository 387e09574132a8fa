"""The text form: what it looks like, that it comes back, and what it says of a text that does not parse."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Expr, Field
from colonnade.errors import TextError
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Instruction, Output, Program, Ref
from colonnade.ir.table import Table
from colonnade.ir.text import by_digest, consts_of, parse_program, print_column, print_program
from colonnade.ops.bucketize import Bucketize
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.mod import Mod
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.split import Split
from colonnade.testing.strategies_program import consts, programs

GOLDEN = Path(__file__).parents[2] / "data" / "text" / "program.txt"
HEAD = "colonnade program 1\n"
B = dims.symbol("B")


def sample() -> Program:
    """A program that uses every part of the text form."""
    city, price, age = Field("user:city"), Field("price"), Field("age")
    tokens: Expr = Apply(Split(b";"), city)
    bounds = Const(np.array([-np.inf, 0.1, 1e-45, 16777216, np.inf], np.float32))
    many = Const(np.arange(65, dtype=np.float32))
    columns = (
        Column(
            "user/city",
            Apply(Mod(10000), Apply(HashBytes(), tokens)),
            "t0",
            "mean",
            filters=(Apply(NotEqual(b""), tokens), Apply(NotEqual(b'\xff"'), tokens)),
            default_row=3,
            slots=(Slot("b0", 0, 16), Slot("tower 2", 0, 16)),
            source="input_layer/city_embedding/weights:0",
        ),
        Column("age", Apply(Bucketize(bounds), age), "t1", ids_proven=True, slots=(Slot("b0", 16, 8),)),
        Column("age_many", Apply(Bucketize(many, True), age), "t1", weights=price, slots=(Slot("b0", 24, 8),)),
        Column("price", price, None, slots=(Slot("b0", 32, 1),)),
    )
    dense = (
        Instruction(
            "h", "aten.addmm.default", (Ref("bias"), Ref("b0"), Ref("w/0")), (("beta", 1.5),), source="dense/MatMul"
        ),
        Instruction("v", "aten.view.default", (Ref("h"), (B, -1, dims.add(dims.mul(2, B), 3))), source="odd \n source"),
        Instruction("y", "aten.to.dtype", (Ref("v"), "float32", "true", None, True, -0.0, 1e300, math.inf, (), (7,))),
    )
    return Program(
        inputs=(
            Input("user:city", "string", (B, 20), tensor="city:0"),
            Input("price", "float32", (B, dims.maximum(B, dims.symbol("N")))),
            Input("age", "int64", (B, 1)),
            Input("tags", "string", (dims.symbol("N"),), tensor="tags:0", offsets="tags offsets"),
            Input("tags offsets", "int32", (dims.add(B, 1),)),
        ),
        tables=(Table("t0", 10000, 16, source="city/embedding_weights"), Table("t1", 66, 8, "float16")),
        columns=columns,
        buffers=(Buffer("b0", B, 33), Buffer("tower 2", B, 16)),
        dense=dense,
        outputs=(Output("score", Ref("y"), "float32", (B, 1)),),
        params=(("bias", "float32", ()), ("w/0", "float32", (33, 64))),
    )


def test_a_program_prints_as_the_stored_text() -> None:
    assert print_program(sample()) == GOLDEN.read_text("utf-8")


def test_the_stored_text_parses_back() -> None:
    program = sample()
    parsed = parse_program(GOLDEN.read_text("utf-8"), consts_of(program))
    assert parsed == program
    assert [c.source for c in parsed.columns] == [c.source for c in program.columns]
    assert [i.tensor for i in parsed.inputs] == [i.tensor for i in program.inputs]
    assert [i.source for i in parsed.dense] == [i.source for i in program.dense]
    assert [t.source for t in parsed.tables] == [t.source for t in program.tables]


@given(programs())
def test_a_program_comes_back(program: Program) -> None:
    text = print_program(program)
    parsed = parse_program(text, consts_of(program))
    assert parsed == program
    assert print_program(parsed) == text
    assert text.count("\n") == 1 + sum(
        len(part)
        for part in (
            program.inputs,
            program.tables,
            program.columns,
            program.buffers,
            program.dense,
            program.outputs,
            program.params,
            program.agreements,
        )
    )


@given(consts())
def test_a_constant_comes_back_with_the_same_bits(const: Const) -> None:
    program = Program((), (), (), (), (Instruction("y", "f", (const,)),), ())
    text = print_program(program)
    held = {} if not by_digest(const) else {const.digest: const}
    assert parse_program(text, held).dense[0].args[0] is const
    assert by_digest(const) or const.array.size <= 64


@given(st.floats(width=32, allow_nan=False))
def test_a_float32_prints_as_its_shortest_text(x: float) -> None:
    const = Const(np.array([x], np.float32))
    text = print_program(Program((), (), (), (), (Instruction("y", "f", (const,)),), ()))
    shown = text.split("float32[1](")[1].split(")")[0]
    assert len(shown) <= len(str(np.float32(x)))


@given(
    st.text(max_size=60), st.sampled_from(["", "column ", "input ", "%h = ", "table ", "output ", "param ", "buffer "])
)
def test_any_text_parses_or_is_a_text_error(text: str, start: str) -> None:
    with contextlib.suppress(TextError):
        parse_program(HEAD + start + text, {})


@given(st.data())
def test_a_damaged_text_parses_or_is_a_text_error(data: st.DataObject) -> None:
    text = GOLDEN.read_text("utf-8")
    at = data.draw(st.integers(0, len(text) - 1))
    new = data.draw(st.sampled_from(["", "%", "(", ")", "[", "]", '"', "b", "->", ",", "{", "\n", "1", " "]))
    with contextlib.suppress(TextError):
        parse_program(text[:at] + new + text[at + 1 :], consts_of(sample()))


def test_comments_and_empty_lines_are_skipped() -> None:
    text = HEAD + "# a comment\n\n   \ninput x: int64[B]  # not a source\r\n"
    assert parse_program(text, {}) == Program((Input("x", "int64", (B,)),), (), (), (), (), ())


@pytest.mark.parametrize(
    ("line", "column", "want", "help"),
    [
        ("colum x = %x -> value pool sum", 1, "a line that starts with", "near names: column"),
        ("column x = bucketise[boundaries=1](%x) -> value pool sum", 12, "the name of a column op", "bucketize"),
        ("column x = mod[divsor=1](%x) -> value pool sum", 16, "an attribute of mod", "divisor"),
        ("column x = mod[divisor=1, divisor=2](%x) -> value pool sum", 27, "once", ""),
        ("column x = mod(%x) -> value pool sum", 12, "mod with the attributes divisor", ""),
        ("column x = %x -> value pool avg", 29, "a pooling: sum, mean", ""),
        ("column x = %x -> elsewhere pool sum", 18, "`table NAME` or `value`", ""),
        ("column x = %x -> value pool sum -> b[3:1]", 40, "not before 3", ""),
        ("column x = bucketize[boundaries=@beef](%x) -> value pool sum", 33, "the digest of a constant", "lacks it"),
        ("column x = bucketize[boundaries=float32[2](1.0, x)](%x) -> value pool sum", 49, "dtype float32", ""),
        ("column x = bucketize[boundaries=float32[3](1.0, 2.0)](%x) -> value pool sum", 33, "3 elements", ""),
        ("%y = f(int8[1](300))", 8, "elements that fit int8", ""),
        ("%y = f(string[1](3))", 18, "bytes", ""),
        ("%y = f(floaty[1](3))", 8, "a constant", "near names: float"),
        ("%y = f({B // 2})", 8, "a dim", ""),
        ("%y = f({__import__('os')})", 8, "a dim", ""),
        ("%y = f(1 2)", 10, "`,` or `)`", ""),
        ("%y = f(1", 9, "`,` or `)`", ""),
        ("%y = f(-x)", 8, "a value", "needs quotes"),
        ("%y = f(k=1, 2)", 13, "a named argument", ""),
        ('%y = f("\\x41")', 8, "JSON's escapes", ""),
        ('%y = f(b"\\n")', 8, "bytes", ""),
        ('%y = f("open)', 8, "the end of a quoted text", ""),
        ("%y = f() 3", 10, "the end of the line", ""),
        ("table t: float32[3]", 17, "[rows, embedding_dim]", ""),
        ("buffer b: float32[B, N]", 18, "[batch symbol, width]", ""),
        ("param w: float32[B]", 17, "of integers", ""),
        ("input x int64[B]", 9, "`:`", ""),
        ("output y: float32[B] = 3", 24, "`%`", ""),
        ("input x: int64[B]\u20ac", 18, "a name, a value or a mark", ""),
    ],
)
def test_an_error_points_at_the_place(line: str, column: int, want: str, help: str) -> None:
    with pytest.raises(TextError) as caught:
        parse_program(f"{HEAD}\n{line}\n", {})
    error = caught.value
    assert error.where == f"line 3, column {column}"
    assert want in error.want
    assert help in error.help
    shown, caret = error.got.split("\n")
    assert shown == line
    assert caret == " " * (column - 1) + "^"


def test_every_bad_line_is_listed() -> None:
    with pytest.raises(TextError) as caught:
        parse_program(HEAD + "input x\ninput y: int64[B]\ntable\n", {})
    assert caught.value.where == "lines 2, 4"
    assert caught.value.want == "line 2, column 8: `:`\nline 4, column 6: a table's name"


def test_a_long_line_is_cut_around_the_place() -> None:
    line = "%y = f(" + "1, " * 500 + "-x, " + "2, " * 500 + ")"
    with pytest.raises(TextError) as caught:
        parse_program(HEAD + line, {})
    shown, caret = caught.value.got.split("\n")
    assert len(shown) < 110
    assert shown[len(caret) - 1 :].startswith("-x")


def test_a_deeply_nested_line_is_a_text_error() -> None:
    with pytest.raises(TextError, match="nested"):
        parse_program(HEAD + "%y = f(" + "(" * 100_000, {})


@pytest.mark.parametrize("text", ["", "\n", "program 1\n", "colonnade program\n", "colonnade program x\n"])
def test_a_text_without_the_header_is_not_a_program(text: str) -> None:
    with pytest.raises(TextError, match="not the text of a program"):
        parse_program(text, {})


def test_a_text_of_another_version_is_refused() -> None:
    with pytest.raises(TextError, match="another version"):
        parse_program("colonnade program 2\n", {})


@pytest.mark.parametrize("operand", [[1], 1j, {"a": 1}, dims.symbol("a b"), dims.symbol("lambda")])
def test_what_has_no_text_is_refused_when_it_is_printed(operand: object) -> None:
    with pytest.raises(TextError, match="no text form"):
        print_program(Program((), (), (), (), (Instruction("y", "f", (operand,)),), ()))


def test_equal_attributes_of_other_types_print_as_they_are() -> None:
    lines = [
        print_program(Program((), (), (), (), (Instruction("y", "f", (x,)),), ())) for x in (1, 1.0, True, 0.0, -0.0)
    ]
    assert len(set(lines)) == 5


def test_numpy_scalars_print_as_numbers() -> None:
    line = Instruction("y", "f", (np.float32(0.1), np.int64(3), np.bool_(True)))
    assert "(0.10000000149011612, 3, true)" in print_program(Program((), (), (), (), (line,), ()))


def test_consts_of_finds_constants_in_filters_weights_and_tuples() -> None:
    a, b, c = (Const(np.array([k], np.float32)) for k in range(3))
    x = Field("x")
    column = Column("x", x, None, filters=(Apply(Bucketize(a), x),), weights=Apply(Bucketize(b), x))
    program = Program((), (), (column,), (), (Instruction("y", "f", ((1, (c,)),), (("k", a),)),), ())
    assert consts_of(program) == {k.digest: k for k in (a, b, c)}


def test_a_source_does_not_count_in_equality() -> None:
    column = sample().columns[0]
    other = dataclasses.replace(column, source="elsewhere")
    assert other == column
    assert print_column(other).endswith("  # from elsewhere")
