"""Which tables change their type, what is refused, and what is reported."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.core import quantize
from colonnade.errors import OptionError, ShapeError
from colonnade.ir.explanation import Explanation
from colonnade.ir.program import Program, Weights
from colonnade.ir.table import Table
from colonnade.ir.table_types import choose, parse, with_types

TABLES = (Table("a", 6, 8), Table("b", 3, 4), Table("c=d", 2, 16), Table("h", 2, 2, "float16"))
PROGRAM = Program((), TABLES, (), (), (), ())


def weights() -> Weights:
    rng = np.random.default_rng(0)
    rows = {t.name: rng.normal(size=(t.rows, t.embedding_dim)).astype(quantize.carrier(t.dtype)) for t in TABLES}
    return Weights(rows, {}, {})


def test_choices() -> None:
    assert choose(PROGRAM, None) == choose(PROGRAM, "float32") == {}
    assert choose(PROGRAM, "float16") == {"a": "float16", "b": "float16", "c=d": "float16"}
    # A row of four values is as large in int8: it stays.
    assert choose(PROGRAM, "int8-rowwise") == {"a": "int8_rowwise", "c=d": "int8_rowwise"}
    assert choose(PROGRAM, {"b": "int8_rowwise"}) == {"b": "int8_rowwise"}
    assert choose(PROGRAM, {"*": "bfloat16", "a": "float32"}) == {"b": "bfloat16", "c=d": "bfloat16"}


def test_command_line() -> None:
    assert parse(None) is None and parse([]) is None
    assert parse(["float16", "c=d=int8-rowwise"]) == {"*": "float16", "c=d": "int8-rowwise"}
    with pytest.raises(OptionError, match="one type"):
        parse(["a=float16", "a=float32"])


def test_everything_wrong_is_listed() -> None:
    with pytest.raises(OptionError, match="cannot be stored so") as caught:
        choose(PROGRAM, {"*": "int4", "a": "float8", "x": "float16", "h": "bfloat16"})
    assert caught.value.got.splitlines() == [
        "no such type: 'int4'",
        "no such type: 'float8' for table 'a'",
        "no such table: 'x'",
        "table 'h' is float16",
    ]
    assert caught.value.want == "one of float32, float16, bfloat16, int8_rowwise, for float32 tables"


def test_rows_are_stored_and_reported() -> None:
    said: list[str] = []
    old = weights()
    program, new, facts = with_types(PROGRAM, old, {"a": "int8-rowwise", "b": "bfloat16"}, said.append)
    assert [t.dtype for t in program.tables] == ["int8_rowwise", "bfloat16", "float32", "float16"]
    assert new.misfits(program) == [] and old.misfits(PROGRAM) == []
    assert [t.bytes for t in program.tables] == [new.tables[t.name].nbytes for t in program.tables]
    assert new.tables["c=d"] is old.tables["c=d"]
    assert said == ["store tables: 0 of 0 MB"]
    a, b = facts
    assert (a.table, a.dtype, a.bytes_float32, a.bytes) == ("a", "int8_rowwise", 192, 96)
    error = np.abs(quantize.decode(new.tables["a"], "int8_rowwise", 8) - old.tables["a"])
    assert a.largest == error.max() and 0 < a.rms < a.largest
    assert (b.table, b.dtype) == ("b", "bfloat16")
    explanation = Explanation(tables=facts)
    assert Explanation.from_json(explanation.to_json()) == explanation
    assert "tables" not in Explanation().to_json()
    assert new.misfits(PROGRAM) == [
        "table 'a': uint8[6, 16], want float32[6, 8]",
        "table 'b': uint16[3, 4], want float32[3, 4]",
    ]


def test_every_table_that_cannot_be_stored_is_named() -> None:
    bad = {name: np.array(rows) for name, rows in weights().tables.items()}
    bad["a"][4, 1] = np.nan
    bad["c=d"][0, 0] = np.inf
    with pytest.raises(OptionError, match="values that their type cannot") as caught:
        with_types(PROGRAM, Weights(bad, {}, {}), "int8-rowwise")
    first, second = caught.value.got.splitlines()
    assert first.startswith("table 'a': row 4 has a NaN") and second.startswith("table 'c=d': row 0 has a NaN")
    bad["a"] = bad["a"][:3]
    with pytest.raises(ShapeError, match="table 'a'"):
        with_types(PROGRAM, Weights(bad, {}, {}), "float16")
    with pytest.raises(ShapeError, match="missing"):
        with_types(PROGRAM, Weights({}, {}, {}), "float16")
