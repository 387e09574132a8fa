"""Stores against a dictionary: find, insert, remove, growth, memory, narrow values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BudgetError, ShapeError
from colonnade.train.initializers import Constant, Uniform
from colonnade.train.loops import words as w
from colonnade.train.tables.layout import Layout
from colonnade.train.tables.store import Budget, Fresh, Keys, Store
from colonnade.train.tables.table import DynamicTable

IDS = st.one_of(
    st.sampled_from([-1, 0, 1, -2, 2**63 - 1, -(2**63)]), st.integers(-9, 9), st.integers(-(2**63), 2**63 - 1)
)


def made(embedding_dim: int = 3, num_tables: int = 2, dtype: str = "float32", budget: Budget | None = None) -> Store:
    fresh = [
        Fresh(7 * number, number, Uniform().draw(embedding_dim), np.full(2, 0.5, np.float32), default=float(number))
        for number in range(num_tables)
    ]
    return Store("s", Layout(embedding_dim, dtype, 2), fresh, budget)


def keys_of(store: Store, pairs: list[tuple[int, int]]) -> Keys:
    parts = [store.keys(table, np.array([id_])) for table, id_ in pairs]
    return Keys(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("hashes", "tables", "ids", "counts")))


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.tuples(st.integers(0, 1), IDS), max_size=40, unique=True)), max_size=12
    )
)
def test_a_store_is_a_dictionary(changes: list[tuple[bool, list[tuple[int, int]]]]) -> None:
    store = made()
    want: dict[tuple[int, int], float] = {}
    stamp = 0.0
    for adds, pairs in changes:
        if not pairs:
            continue
        keys = keys_of(store, pairs)
        rows, missing = store.find(keys)
        assert missing == sum(pair not in want for pair in pairs)
        assert [row >= 0 for row in rows] == [pair in want for pair in pairs]
        if adds:
            store.insert(keys, rows)
            stamps = stamp + np.arange(len(pairs), dtype=np.float32)
            store.set_values(rows, np.repeat(stamps[:, None], 3, 1))
            want |= dict(zip(pairs, stamps.tolist(), strict=True))
            stamp += len(pairs)
        else:
            store.remove(rows[rows >= 0])
            want = {pair: value for pair, value in want.items() if pair not in set(pairs)}
        assert store.num_rows == len(want)
    everything = [(table, int(id_)) for table in (0, 1) for id_ in store.ids(store.rows_of(table))]
    assert sorted(everything) == sorted(want)
    if want:
        keys = keys_of(store, list(want))
        rows, missing = store.find(keys)
        assert missing == 0 and store.gather(keys, rows)[:, 0].tolist() == list(want.values())


def test_growth_moves_no_row() -> None:
    store = made(embedding_dim=8)
    first = store.keys(0, np.arange(-50, 50))
    rows, _ = store.find(first)
    store.insert(first, rows, step=3)
    block, values = store._blocks[0].ctypes.data, store.gather(first, rows)
    many = store.keys(1, np.arange(200_000))
    others, _ = store.find(many)
    store.insert(many, others)
    assert len(store._blocks) > 1 and store._blocks[0].ctypes.data == block
    again, missing = store.find(first)
    assert missing == 0 and (again == rows).all() and (store.gather(first, rows) == values).all()
    assert store.bytes <= store.budget.used < store.bytes * 1.1 + 4096
    assert (store.states(rows) == 0.5).all() and (store.steps(rows) == 3).all()


def test_keys_with_one_hash_are_told_apart() -> None:
    store = made()
    ids = np.array([1, 2, 3, 4])
    keys = Keys(np.zeros(4, np.uint64), np.array([0, 0, 1, 1]), ids, np.ones(4, np.int32))
    honest = keys_of(store, [(0, 1), (0, 2), (1, 3), (1, 4)])
    rows, _ = store.find(honest)
    store.insert(honest, rows)
    store._slots[:] = 0  # every row published under one home and one tag
    for place, row in enumerate(rows):
        store._slots[place] = np.uint64(row + 1)
    assert store.find(keys)[0].tolist() == rows.tolist()
    swapped = Keys(keys.hashes, keys.tables[::-1].copy(), ids, keys.counts)
    assert (store.find(swapped)[0] == -1).all()


def test_a_row_that_is_used_again_is_new() -> None:
    store = made()
    table = DynamicTable("t", store, 0)
    table.write(torch.tensor([5]), torch.full((1, 3), 9.0))
    keys = store.keys(0, np.array([5]))
    rows, _ = store.find(keys)
    store.set_states(rows, np.full((1, 2), 7, np.float32))
    store.touch(keys, rows, 4)
    assert store.counts(rows).tolist() == [1] and store.steps(rows).tolist() == [4]
    assert table.delete(torch.tensor([5, 6, 5])) == 1
    other = store.keys(0, np.array([6]))
    again, _ = store.find(other)
    store.insert(other, again, step=8)
    assert again.tolist() == rows.tolist()
    assert store.states(again).tolist() == [[0.5, 0.5]] and store.counts(again).tolist() == [0]
    assert store.steps(again).tolist() == [8] and (abs(store.gather(other, again)) <= 0.05).all()


def test_too_much_memory_is_refused_before_anything_changes() -> None:
    store = made(budget=Budget(9_000_000))
    keys = store.keys(0, np.arange(20_000))
    rows, _ = store.find(keys)
    store.insert(keys, rows)
    used, size = store.budget.used, store.bytes
    more = store.keys(1, np.arange(1_000_000))
    others, _ = store.find(more)
    with pytest.raises(BudgetError, match="more memory than they may"):
        store.insert(more, others)
    assert (others == -1).all() and (store.budget.used, store.bytes, store.num_rows) == (used, size, 20_000)
    assert store.find(keys)[1] == 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_values_are_rounded_as_torch_does(dtype: str) -> None:
    rng = np.random.default_rng(1)
    corners = [0.0, -0.0, 1e-8, 6e-8, 3e-8, 2.0**-14, 65504.0, 65519.0, 65520.0, -1e30, np.inf, -np.inf, np.nan, 1e-45]
    x = np.concatenate([corners, rng.normal(size=200), rng.normal(size=200) * 1e-6, rng.normal(size=200) * 1e5])
    for value in x.astype(np.float32):
        fresh = Fresh(1, 1, Constant(float(value)).draw(1), np.zeros(0, np.float32))
        store = Store("s", Layout(1, dtype), [fresh])
        keys = store.keys(0, np.array([3]))
        rows, _ = store.find(keys)
        store.insert(keys, rows)
        want = torch.tensor([value]).to(getattr(torch, dtype)).float().numpy()
        np.testing.assert_array_equal(store.gather(keys, rows)[0], want)


def test_rows_by_id() -> None:
    table = DynamicTable("t", made(dtype="bfloat16"), 1)
    ids = torch.tensor([-1, 0, 2**63 - 1, -(2**63)])
    values = torch.arange(12.0).reshape(4, 3)
    table.write(ids, values)
    read, there = table.read(torch.tensor([0, 5, -1, 0]))
    assert read.tolist() == [[3, 4, 5], [1, 1, 1], [0, 1, 2], [3, 4, 5]] and there.tolist() == [True, False, True, True]
    assert len(table) == 4 and table.ids().tolist() == ids.tolist()
    table.clear()
    assert len(table) == 0 and table.ids().tolist() == [] and not table.read(ids)[1].any()
    assert table.store._get(w.NUM_FREE) == 4


@pytest.mark.parametrize(
    ("ids", "values"),
    [
        (torch.tensor([1, 1]), torch.zeros(2, 3)),
        (torch.tensor([1, 2]), torch.zeros(2, 4)),
        (torch.tensor([1, 2]), torch.zeros(2, 3, dtype=torch.int64)),
        (torch.tensor([1.0, 2.0]), torch.zeros(2, 3)),
    ],
)
def test_rows_that_do_not_fit_are_refused(ids: torch.Tensor, values: torch.Tensor) -> None:
    table = DynamicTable("t", made(), 0)
    with pytest.raises(ShapeError):
        table.write(ids, values)
    assert len(table) == 0
