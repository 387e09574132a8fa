"""Columns in fewer steps keep the same elements and give them the same ids."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Expr, Field
from colonnade.ir.column import Column
from colonnade.ir.evaluate import elements_of
from colonnade.ops.cast import Cast
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.mod import Mod
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.split import Split
from colonnade.ops.vocabulary import Vocabulary
from colonnade.passes.shorter import shorter

X = Field("x")
KEYS = (b"", b"a", b"b", b"c", b"d", b"e")
STRINGS, INTEGERS = {"x": "string"}, {"x": "int64"}


def objects(values: list[bytes]) -> np.ndarray:
    made = np.empty(len(values), object)
    made[:] = values
    return made


def words(values: list[int], default: int, num_oov: int = 0) -> Vocabulary:
    return Vocabulary(Const(objects(list(KEYS[: len(values)]))), Const(np.array(values, np.int64)), default, num_oov)


def column(ids: Expr, *filters: Expr) -> Column:
    return Column("c", ids, "t", filters=filters)


def kept(of: Column, values: np.ndarray | torch.Tensor) -> tuple[list[int], list[int]]:
    found = elements_of(of, {"x": values}, len(values))
    return found.ids.tolist(), found.rows.tolist()


@given(
    st.lists(st.integers(0, 4), max_size=6), st.integers(-1, 5), st.integers(0, 2), st.integers(-2, 6), st.booleans()
)
def test_filters_on_numbers_of_words_keep_the_same(
    numbers: list[int], default: int, num_oov: int, number: int, split: bool
) -> None:
    source: Expr = Apply(Split(b";"), X) if split else X
    ids = Apply(words(numbers, default, num_oov), source)
    before = column(ids, Apply(NotEqual(number), ids))
    after = shorter(before, STRINGS)
    texts = objects([*KEYS, b"none", b"other", b"a;b;;none", b""])
    assert kept(after, texts) == kept(before, texts)
    given_to_unknown = default <= number <= default + max(num_oov - 1, 0)
    looks_up = any(isinstance(f, Apply) and isinstance(f.args[0], Apply) and f.args[0] is ids for f in after.filters)
    assert looks_up == (given_to_unknown or numbers.count(number) > 4)


def test_a_number_of_one_word_is_that_word() -> None:
    ids = Apply(words([0, 2, 3], 1), X)
    assert shorter(column(ids, Apply(NotEqual(0), ids)), STRINGS).filters == (Apply(NotEqual(b""), X),)
    assert shorter(column(ids, Apply(NotEqual(7), ids)), STRINGS).filters == ()
    both = column(ids, Apply(NotEqual(0), ids), Apply(NotEqual(b""), X))
    assert shorter(both, STRINGS).filters == (Apply(NotEqual(b""), X),)


def test_a_number_that_an_unknown_word_may_have_stays() -> None:
    for op in (words([0, 1], 0), words([0, 3], -1, 2), words([3, 3, 3, 3, 3], 0)):
        ids = Apply(op, X)
        number = 3 if op.default == 0 and len(op.values.array) == 5 else 0
        before = column(ids, Apply(NotEqual(number), ids))
        assert shorter(before, STRINGS) == before


def test_numbers_of_integers_are_integers() -> None:
    op = Vocabulary(Const(np.array([70, -5, 9])), Const(np.array([1, 2, 1])), 0)
    ids = Apply(op, X)
    before = column(ids, Apply(NotEqual(1), ids))
    after = shorter(before, INTEGERS)
    assert after.filters == (Apply(NotEqual(70), X), Apply(NotEqual(9), X))
    values = torch.tensor([70, -5, 9, 0, 1])
    assert kept(after, values) == kept(before, values)


def test_what_has_no_keys_needs_no_steps_before_it() -> None:
    empty = Vocabulary(Const(np.zeros(0, np.int64)), Const(np.zeros(0, np.int64)), 3)
    before = column(Apply(empty, Apply(words([0, 2], 1), X)))
    after = shorter(before, STRINGS)
    assert isinstance(after.ids, Apply) and after.ids.args == (X,)
    texts = objects([*KEYS, b"none"])
    assert kept(after, texts) == kept(before, texts) == ([3] * 7, list(range(7)))
    of_integers = column(Apply(empty, Apply(Mod(7), X)))
    assert kept(shorter(of_integers, INTEGERS), torch.tensor([8, -1])) == ([3, 3], [0, 1])


def test_what_splits_or_has_buckets_stays() -> None:
    empty = Const(np.zeros(0, np.int64))
    hashed = Apply(HashBytes(), Apply(Split(b";"), X))
    for ids in (
        Apply(Vocabulary(empty, empty, 3), hashed),
        Apply(Vocabulary(empty, empty, 3, 2), Apply(HashBytes(), X)),
        Apply(Vocabulary(empty, empty, 3), Apply(Mod(3), Field("f"))),
    ):
        assert shorter(column(ids), {"x": "string", "f": "int32"}).ids is ids


def test_a_vocabulary_without_words_of_places() -> None:
    none = Const(np.zeros(0, np.int64))
    nothing = Vocabulary(none, none, 3, 0, "farm")
    column = Column("x", Apply(nothing, Apply(Cast("int64"), Field("x.0-1"))), "t")
    assert shorter(column, {"x": "int32"}) == column
