"""Distinct keys against a dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from colonnade.train.initializers import Constant
from colonnade.train.reduce.unique import Unique, reference
from colonnade.train.tables.layout import Layout
from colonnade.train.tables.store import Fresh, Store

IDS = st.one_of(st.sampled_from([-1, 0, 1, 2**63 - 1, -(2**63)]), st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
UNIQUE = Unique()


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(IDS, max_size=100)), max_size=6))
def test_keys_are_numbered_as_a_dictionary_numbers_them(features: list[tuple[int, list[int]]]) -> None:
    fresh = [Fresh(key, 0, Constant().draw(1), np.zeros(0, np.float32)) for key in (3, 5, 2**64 - 1)]
    store = Store("s", Layout(1), fresh)
    sizes = np.array([len(ids) for _, ids in features], np.int64)
    starts = np.cumsum(sizes) - sizes
    values = np.array([id_ for _, ids in features for id_ in ids], np.int64)
    inverse = np.full(len(values), -7, np.int32)
    tables = np.array([table for table, _ in features], np.int64)
    keys = UNIQUE.run(store, tables, starts, sizes, values, inverse)
    want, numbers = reference(tables.tolist(), [np.array(ids, np.int64) for _, ids in features])
    flat = [number for part in numbers for number in part]
    assert list(zip(keys.tables.tolist(), keys.ids.tolist(), strict=True)) == want
    assert inverse.tolist() == flat
    assert keys.counts.tolist() == np.bincount(flat, minlength=len(want)).tolist()
    for table in range(3):
        of_table = keys.tables == table
        assert (store.keys(table, keys.ids[of_table]).hashes == keys.hashes[of_table]).all()


def test_many_ids_of_a_table_are_numbered_as_few_are() -> None:
    """More slots than stay in the nearest cache; ids that repeat lie near and far."""
    fresh = [Fresh(key, 0, Constant().draw(1), np.zeros(0, np.float32)) for key in (3, 5)]
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 4000, 9000), rng.integers(0, 20, 300), rng.integers(0, 6000, 5000), np.zeros(0, np.int64)]
    tables = np.array([1, 0, 1, 1])
    sizes = np.array([len(part) for part in parts])
    values, inverse = np.concatenate(parts), np.empty(int(sizes.sum()), np.int32)
    keys = UNIQUE.run(Store("s", Layout(1), fresh), tables, np.cumsum(sizes) - sizes, sizes, values, inverse)
    want, numbers = reference(tables.tolist(), parts)
    flat = [number for part in numbers for number in part]
    assert list(zip(keys.tables.tolist(), keys.ids.tolist(), strict=True)) == want
    assert inverse.tolist() == flat
    assert keys.counts.tolist() == np.bincount(flat, minlength=len(want)).tolist()
