"""Distinct keys on a device against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.train.gpu import unique as module
from colonnade.train.gpu.module import CAPABILITIES, Kernels
from colonnade.train.gpu.unique import BLOCK, COUNTED, COUNTING, FEATURES, FIRST, SPARE, Keys, Members, Unique
from colonnade.train.initializers import Constant
from colonnade.train.reduce.unique import reference
from colonnade.train.tables.layout import Layout
from colonnade.train.tables.store import Fresh, Store
from tests.unit.train.gpu.devices import DEVICES

IDS = st.one_of(st.sampled_from([-1, 0, 1, 2**63 - 1, -(2**63)]), st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
CASES = st.lists(st.tuples(st.integers(0, 2), st.lists(IDS, max_size=100)), max_size=5)
HASH_KEYS = (3, 5, 2**64 - 1)


def check(
    unique: Unique,
    features: list[tuple[int, list[int]]],
    hash_keys: tuple[int, ...] = HASH_KEYS,
    *,
    ordered: bool = False,
    groups: tuple[int, ...] = (0, 1, 1),
) -> None:
    device = unique.device
    ends = np.cumsum([0, *(len(ids) for _, ids in features)])
    values = torch.tensor([id_ for _, ids in features for id_ in ids], dtype=torch.int64, device=device)
    offsets = torch.from_numpy(np.stack([ends[:-1], ends[1:]], 1)).to(device)
    inverse = torch.full((len(values),), -7, dtype=torch.int32, device=device)
    tables = [table for table, _ in features]
    members = Members.of(range(len(features)), tables, hash_keys, groups[: len(hash_keys)], device)
    found = unique.run(members, offsets, values, inverse, ordered=ordered)
    want, numbers = reference(tables, [np.array(ids, np.int64) for _, ids in features])
    places = [[u for u, (table, _) in enumerate(want) if groups[table] == g] for g in range(members.num_groups)]
    assert found.counts.tolist() == [len(own) for own in places]
    seen, keys = inverse.cpu().numpy(), found.keys
    of_id = np.repeat([groups[table] for table in tables], np.diff(ends)).astype(np.int64)
    flat = np.array([number for part in numbers for number in part], np.int64)
    for g, (base, own) in enumerate(zip(found.bases.tolist(), places, strict=True)):
        part = keys.take(slice(base, base + len(own)))
        pairs = list(zip(part.tables.tolist(), part.ids.tolist(), strict=True))
        assert sorted(pairs) == sorted(want[u] for u in own)
        assert [pairs[u] for u in seen[of_id == g]] == [want[u] for u in flat[of_id == g]]
        assert part.counts.tolist() == np.bincount(seen[of_id == g], minlength=len(own)).tolist()
        if ordered:
            assert pairs == [want[u] for u in own]
        _check_hashes(part, hash_keys)


def _check_hashes(keys: Keys, hash_keys: tuple[int, ...]) -> None:
    fresh = [Fresh(key, 0, Constant().draw(1), np.zeros(0, np.float32)) for key in hash_keys]
    store = Store("s", Layout(1), fresh)
    for table in range(len(hash_keys)):
        of_table = (keys.tables == table).cpu().numpy()
        hashes = keys.hashes.cpu().numpy().view(np.uint64)[of_table]
        assert (store.keys(table, keys.ids.cpu().numpy()[of_table]).hashes == hashes).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("ordered", [False, True])
def test_keys_are_those_of_a_dictionary(device: str, ordered: bool) -> None:
    unique = Unique(torch.device(device))

    @settings(max_examples=8 if device == "cpu" else 60)
    @given(CASES, st.sampled_from([(0, 0, 0), (0, 1, 1), (0, 1, 2)]))
    def run(features: list[tuple[int, list[int]]], groups: tuple[int, ...]) -> None:
        check(unique, features, ordered=ordered, groups=groups)

    run()


@pytest.mark.parametrize("device", DEVICES)
def test_slots_are_told_apart_by_the_batch_that_wrote_them(device: str) -> None:
    unique = Unique(torch.device(device))
    for batch in range(600 if device != "cpu" else 6):
        if device == "cpu" and batch == 3:
            unique._stamp = 254  # until the stamps begin anew
        check(unique, [(0, [batch, batch + 1, batch]), (1, [batch])])


@pytest.mark.parametrize("device", DEVICES)
def test_one_slot_for_all_keys(device: str) -> None:
    """An id is told from others by the batch, not by its hash: here a slot holds one bit of it."""
    unique = Unique(torch.device(device))
    table_keys = tuple([7] * (1 << 12))
    unique._stamped = lambda count, tables, f=unique._stamped: (*f(count, tables)[:4], 1)  # type: ignore[method-assign,misc]
    check(unique, [(1, list(range(60))), (0, list(range(30, 90))), (1, [5] * 9)], table_keys[:2])


@pytest.mark.parametrize("device", DEVICES)
def test_frequent_keys_come_first_and_are_counted_together(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("COUNTED", 16), ("FIRST", 2), ("LEAST_SAMPLED", 1), ("SAMPLE", 64)):
        monkeypatch.setattr(module, name, value)
    unique = Unique(torch.device(device))
    rng = np.random.default_rng(0)
    often = list(range(40)) + [30] * 99 + [17] * 77 + rng.integers(0, 200, 300).tolist()
    check(unique, [(1, []), (0, often), (2, [5]), (1, []), (0, [30] * 200), (2, [9, 5] * 40), (1, [])])
    check(unique, [(0, [7])])
    check(unique, [(1, []), (0, [])])


@pytest.mark.gpu
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("skewed", [False, True])
def test_many_ids(ordered: bool, skewed: bool) -> None:
    unique = Unique(torch.device("cuda"))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        ids = rng.zipf(1.2, 300_000) if skewed else rng.integers(-(2**63), 2**63, 300_000)
        check(
            unique,
            [(0, ids[:100_000].tolist()), (2, ids[50_000:].tolist()), (0, ids[:7].tolist()), (1, [])],
            ordered=ordered,
        )


SIGNATURE = {
    **dict.fromkeys(
        (
            *("values", "features", "tiles", "slots", "spare", "hashes", "ids", "members"),
            *("offsets", "owning", "counting", "bases"),
        ),
        "*i64",
    ),
    **dict.fromkeys(("owners", "numbers", "found", "tables", "counts", "inverse", "leads", "sums"), "*i32"),
    **dict.fromkeys(("num", "num_slots", "num_stamp", "num_bits", "num_stride", "num_end"), "i32"),
}


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_kernels_compile(capability: int) -> None:
    made = Kernels(["unique"], interpret=False)
    for ordered in (False, True):
        made.compiled(
            "own",
            SIGNATURE,
            {"BLOCK": BLOCK, "SPARE": SPARE, "MASKED": True, "ORDERED": ordered, "SAMPLED": not ordered, "TILE": BLOCK},
            capability,
        )
    for name in ("earliest", "lead", "list_keys"):
        made.compiled(name, SIGNATURE, {"BLOCK": BLOCK}, capability)
    counting = {"BLOCK": COUNTING, "COUNTED": COUNTED, "FIRST": FIRST}
    made.compiled("settle", SIGNATURE, counting, capability)
    described = {"SHIFTED": True, "OWN": 2, "COUNT": 4, "BLOCK": FEATURES}
    made.compiled("describe", SIGNATURE, described, capability)
