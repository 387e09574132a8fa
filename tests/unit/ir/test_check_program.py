"""The rules of a program: one broken rule each, and all of them listed at once."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from colonnade.core import dims
from colonnade.core.expr import Apply, Field
from colonnade.errors import GraphError
from colonnade.ir.check_program import broken, check
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import PLACE, Agreement, Buffer, Input, Instruction, Output, Program, Ref
from colonnade.ir.table import Table
from colonnade.ops.at_least import AtLeast
from colonnade.ops.at_most import AtMost
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.mod import Mod
from colonnade.ops.not_equal import NotEqual

B, N = dims.symbol("B"), dims.symbol("N")
CITY, AGE, PRICE = Field("city"), Field("age"), Field("price")
IDS = Apply(Mod(10), Apply(HashBytes(), CITY))
CITIES = Column("city", IDS, "t", filters=(Apply(NotEqual(b""), CITY),), default_row=9, slots=(Slot("b", 0, 4),))
AGES = Column("age", AGE, "t", weights=PRICE, slots=(Slot("b", 4, 4),))
PRICES = Column("price", PRICE, None, slots=(Slot("b", 8, 3),))


def program(**changes: Any) -> Program:
    whole = Program(
        inputs=(Input("city", "string", (B, 2)), Input("age", "int64", (B, 3)), Input("price", "float32", (B, 3))),
        tables=(Table("t", 10, 4),),
        columns=(CITIES, AGES, PRICES),
        buffers=(Buffer("b", B, 11),),
        dense=(Instruction("h", "aten.mm.default", (Ref("b"), (Ref("w"),))),),
        outputs=(Output("y", Ref("h"), "float32", (B, 1)), Output("raw", Ref("b"), "float32", (B, 11))),
        params=(("w", "float32", (11, 1)),),
    )
    return dataclasses.replace(whole, **changes)


def test_a_whole_program_breaks_no_rule() -> None:
    check(program())
    check(Program((), (), (), (), (), ()))


def test_the_dense_rest_may_write_what_columns_leave_free() -> None:
    placed = (
        Instruction("p", PLACE, (Ref("q"), Ref("b"), 4)),
        Instruction("r", PLACE, (Ref("s"), Ref("p"), 11)),
        Instruction("h", "aten.mm.default", (Ref("r"), Ref("w"))),
    )
    params = (*program().params, ("q", "float32", (1, 4)), ("s", "float32", (1, 2)))
    check(program(columns=(CITIES, PRICES), buffers=(Buffer("b", B, 13),), dense=placed, params=params))


def test_filters_prove_that_ids_lie_in_the_table() -> None:
    kept = (Apply(AtLeast(0), AGE), Apply(AtMost(9), AGE))
    proven = dataclasses.replace(AGES, filters=kept, ids_proven=True)
    check(program(columns=(CITIES, proven, PRICES)))
    for filters in ((Apply(AtLeast(-1), AGE), kept[1]), (kept[0], Apply(AtMost(10), AGE)), kept[:1]):
        bad = program(columns=(CITIES, dataclasses.replace(proven, filters=filters), PRICES))
        assert [where for where, _ in broken(bad)] == ["column 'age'"]


def column(**changes: Any) -> Program:
    return program(columns=(dataclasses.replace(CITIES, **changes), AGES, PRICES))


@pytest.mark.parametrize(
    ("bad", "where", "got"),
    [
        (column(table="u"), "column 'city'", "the table 'u' does not exist"),
        (column(default_row=10), "column 'city'", "the default row 10 is outside the 10 rows"),
        (column(pooling="avg"), "column 'city'", "'avg' is none of sum, mean"),
        (column(slots=(Slot("c", 0, 4),)), "column 'city'", "the buffer 'c' does not exist"),
        (column(slots=(Slot("b", 0, 3),)), "column 'city'", "has the width 3, table 't' 4"),
        (column(slots=(Slot("b", 0, 0),), table=None, default_row=None), "column 'city'", "has the width 0"),
        (
            column(pooling="none", slots=(Slot("b", 0, 12),)),
            "column 'city'",
            "has the width 12, field 'city' 2 of table",
        ),
        (
            program(columns=(CITIES, AGES, dataclasses.replace(PRICES, slots=(Slot("b", 8, 2),)))),
            "column 'price'",
            "has the width 2, field 'price' 3",
        ),
        (column(slots=(Slot("b", 3, 4),)), "buffer 'b'", "columns 'city' and 'age' overlap at 4:7"),
        (column(slots=(Slot("b", -1, 4),)), "buffer 'b'", "the slot -1:3 of column 'city' is outside"),
        (column(slots=(Slot("b", 0, 4), Slot("b", 0, 4))), "buffer 'b'", "columns 'city' and 'city' overlap"),
        (program(columns=(CITIES, PRICES)), "buffer 'b'", "nothing writes 4:8"),
        (program(buffers=(Buffer("b", B, 12),)), "buffer 'b'", "nothing writes 11:12"),
        (
            column(ids=Apply(Mod(11), Apply(HashBytes(), CITY)), ids_proven=True),
            "column 'city'",
            "proven to lie in the 10 rows of table 't', and are not",
        ),
        (
            program(columns=(CITIES, dataclasses.replace(AGES, ids_proven=True), PRICES)),
            "column 'age'",
            "proven to lie in the 10 rows of table 't', and are not",
        ),
        (column(ids=Field("town")), "column 'city'", "the field 'town' is no input"),
        (column(ids=CITY), "column 'city'", "ids are of dtype string"),
        (column(ids=PRICE), "column 'city'", "ids are of dtype float32"),
        (column(ids=Apply(Mod(10), CITY)), "column 'city'", "ids: mod takes int64"),
        (column(ids=Apply(Mod(10), AGE, AGE)), "column 'city'", "ids: mod takes 1 operands"),
        (column(filters=(AGE,)), "column 'city'", "filter 0"),
        (column(weights=AGE), "column 'city'", "weights are of dtype int64"),
        (column(table=None), "column 'city'", "the default row 9 of no table"),
        (program(buffers=(Buffer("b", B, 8),)), "buffer 'b'", "the slot 8:11 of column 'price' is outside the width 8"),
        (program(dense=()), "output 'y'", "%h does not exist"),
        (program(params=()), "dense value 'h'", "%w is not defined before it"),
        (program(tables=(Table("t", 10, 4),) * 2), "table 't'", "the name stands for 2 tables"),
        (program(params=(("w", "float32", ()), ("b", "float32", ()))), "value 'b'", "the name stands for 2 values"),
    ],
)
def test_a_broken_rule_is_found(bad: Program, where: str, got: str) -> None:
    found = list(broken(bad))
    assert any(w == where and got in g for w, g in found), found
    with pytest.raises(GraphError):
        check(bad)


def test_the_fields_of_a_column_share_the_batch_dim() -> None:
    inputs = (Input("city", "string", (B,)), Input("age", "int64", (B,)), Input("price", "float32", (N, 3)))
    found = dict(broken(program(inputs=inputs)))
    assert found["column 'age'"] == "more than one batch dim: B of field 'age', N of field 'price'"
    assert found["column 'price'"] == "more than one batch dim: N of field 'price', B of buffer 'b'"
    scalar = (Input("city", "string", ()), *inputs[1:])
    assert ("column 'city'", "the field 'city' has no batch dim") in list(broken(program(inputs=scalar)))


TAGS, ENDS = Field("tags"), dims.add(B, 1)
RAGGED = (Input("tags", "int64", (N,), offsets="ends"), Input("ends", "int32", (ENDS,)))


def ragged(*inputs: Input, **changes: Any) -> Program:
    """A program of one ragged column; inputs replace those of their names."""
    named = {i.name: i for i in (*RAGGED, *inputs)}
    whole = Column("tag", TAGS, "t", slots=(Slot("b", 0, 4),))
    columns = (dataclasses.replace(whole, **changes),)
    return Program(tuple(named.values()), (Table("t", 10, 4),), columns, (Buffer("b", B, 4),), (), ())


def test_ragged_columns_share_offsets_and_the_batch_dim() -> None:
    check(ragged())
    weights = Input("w", "float32", (dims.symbol("M"),), offsets="ends")
    check(ragged(weights, weights=Field("w"), pooling="mean"))


@pytest.mark.parametrize(
    ("bad", "where", "got"),
    [
        (
            ragged(Input("tags", "int64", (N, 2), offsets="ends")),
            "input 'tags'",
            "has the shape [N] with a symbol N, not [N, 2]",
        ),
        (ragged(Input("tags", "int64", (5,), offsets="ends")), "input 'tags'", "with a symbol N, not [5]"),
        (ragged(Input("tags", "int64", (B,), offsets="ends")), "input 'tags'", "the elements have the batch dim B"),
        (ragged(Input("tags", "int64", (N,), offsets="gone")), "input 'tags'", "the offsets 'gone' are no input"),
        (ragged(Input("tags", "int64", (), offsets="ends")), "column 'tag'", "the field 'tags' has no batch dim"),
        (
            ragged(Input("ends", "uint32", (ENDS,))),
            "input 'tags'",
            "the offsets 'ends' are uint32[B + 1], not int32 or",
        ),
        (ragged(Input("ends", "int64", (ENDS, 1))), "input 'tags'", "are int64[B + 1, 1], not"),
        (ragged(Input("ends", "int64", ())), "input 'tags'", "are int64[], not int32 or int64 [B + 1]"),
        (ragged(Input("ends", "int64", (N,), offsets="tags")), "input 'tags'", "int64[N] and ragged themselves, not"),
        (ragged(Input("ends", "int64", (B,))), "column 'tag'", "batch dim: B - 1 of field 'tags', B of buffer 'b'"),
        (ragged(pooling="none"), "column 'tag'", "the pooling 'none' needs a dense field"),
        (ragged(table=None), "column 'tag'", "a numeric column needs a dense field"),
        (
            ragged(Input("w", "float32", (B, 3)), weights=Field("w")),
            "column 'tag'",
            "'tags' is ragged by 'ends', 'w' is dense",
        ),
        (
            ragged(Input("w", "float32", (N,), offsets="o"), Input("o", "int64", (ENDS,)), weights=Field("w")),
            "column 'tag'",
            "'tags' is ragged by 'ends', 'w' is ragged by 'o'",
        ),
    ],
)
def test_a_broken_rule_of_ragged_fields_is_found(bad: Program, where: str, got: str) -> None:
    found = list(broken(bad))
    assert any(w == where and got in g for w, g in found), found


def test_a_sequence_column_takes_whole_rows() -> None:
    columns = (dataclasses.replace(AGES, pooling="none", slots=(Slot("b", 0, 12),)),)
    check(program(columns=columns, buffers=(Buffer("b", B, 12),)))


def test_every_broken_rule_is_listed_at_once() -> None:
    bad = program(columns=(dataclasses.replace(CITIES, table="u"), dataclasses.replace(AGES, pooling="avg"), PRICES))
    with pytest.raises(GraphError, match="the program breaks 2 rules") as caught:
        check(bad)
    assert "column 'city': the table 'u'" in caught.value.got
    assert "column 'age': the pooling" in caught.value.got


@pytest.mark.parametrize(
    ("item", "got"),
    [
        (Agreement("age", -1, "cost", 0.0), "'cost' is no input"),
        (Agreement("city", b"", "price", 0.0), "are no dense inputs of one shape"),
        (Agreement("age", b"", "price", 0.0), "do not lack b'' and 0.0"),
        (Agreement("price", 0, "price", 0.0), "do not lack"),
        (Agreement("other", -1, "price", 0.0), "no column reads it together with 'price'"),
    ],
)
def test_inputs_that_agree(item: Agreement, got: str) -> None:
    inputs = (*program().inputs, Input("other", "int64", (B, 3)))
    assert not list(broken(program(inputs=inputs, agreements=(Agreement("age", -1, "price", 0.0),))))
    found = list(broken(program(inputs=inputs, agreements=(item,))))
    assert any(w == f"agree {item.name!r}" and got in g for w, g in found), found


def chosen(*changed: Input) -> Program:
    """A column over choices among two fields."""
    among = ("a", "b")
    made = {
        "a": Input("a", "int64", (B, 2)),
        "b": Input("b", "string", (B, 3)),
        "a*b.0": Input("a*b.0", "int64", (N,), offsets="a*b.offsets", of="a", among=among),
        "a*b.1": Input("a*b.1", "string", (N,), offsets="a*b.offsets", of="b", among=among, place=1),
        "a*b.offsets": Input("a*b.offsets", "int64", (ENDS,), of="a", among=among),
    }
    made |= {i.name: i for i in changed}
    column = Column("a", Field("a*b.0"), "t", filters=(Apply(NotEqual(b""), Field("a*b.1")),), slots=(Slot("o", 0, 4),))
    return Program(tuple(made.values()), (Table("t", 10, 4),), (column,), (Buffer("o", B, 4),), (), ())


@pytest.mark.parametrize(
    ("changed", "got"),
    [
        ({"dtype": "int32"}, "it is int32, 'a' is int64"),
        ({"of": "b"}, "'b' is not field 0 of a, b"),
        ({"place": 2}, "'a' is not field 2 of a, b"),
        ({"among": ("a", "c")}, "which are no fields of a request"),
        ({"among": ("a", "a")}, "its fields and its offsets are not of the same rows"),
    ],
)
def test_choices_among_fields(changed: dict[str, Any], got: str) -> None:
    assert not list(broken(chosen()))
    item = dataclasses.replace(chosen().input("a*b.0"), **changed)
    assert any(w == "input 'a*b.0'" and got in g for w, g in broken(chosen(item)))


def test_offsets_of_choices() -> None:
    offsets = chosen().input("a*b.offsets")
    for changed in ({"dtype": "int32"}, {"shape": (B,)}):
        assert list(broken(chosen(dataclasses.replace(offsets, **changed))))
    assert list(broken(chosen(Input("b", "string", (N, 3)))))
