"""Stores on a device against stores on the CPU."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import BudgetError
from colonnade.train.gpu import store as module
from colonnade.train.gpu.module import CAPABILITIES, Kernels
from colonnade.train.gpu.store import Store
from colonnade.train.gpu.unique import Keys
from colonnade.train.initializers import Constant, Initializer, Normal, TruncatedNormal, Uniform
from colonnade.train.tables import store as on_cpu
from colonnade.train.tables.layout import Layout
from colonnade.train.tables.store import Budget, Fresh
from tests.unit.train.gpu.devices import DEVICES

IDS = st.one_of(
    st.sampled_from([-1, 0, 1, -2, 2**63 - 1, -(2**63)]), st.integers(-9, 9), st.integers(-(2**63), 2**63 - 1)
)
CHANGES = st.lists(
    st.tuples(st.booleans(), st.lists(st.tuples(st.integers(0, 1), IDS), max_size=40, unique=True)), max_size=10
)


def fresh_of(embedding_dim: int, num_tables: int = 2, initializer: Initializer | None = None) -> list[Fresh]:
    draw = (initializer or Uniform()).draw(embedding_dim)
    return [
        Fresh(7 * number, 2**63 + number, draw, np.full(2, 0.5, np.float32), default=float(number))
        for number in range(num_tables)
    ]


def both(device: str, embedding_dim: int = 3, dtype: str = "float32", **options: object) -> tuple[on_cpu.Store, Store]:
    budget = options.pop("budget", None)
    fresh = fresh_of(embedding_dim, **options)  # type: ignore[arg-type]
    layout = Layout(embedding_dim, dtype, 2)
    return on_cpu.Store("s", layout, fresh), Store("s", layout, fresh, budget, device)  # type: ignore[arg-type]


def keys_on(device: torch.device, keys: on_cpu.Keys) -> Keys:
    parts = (keys.hashes.view(np.int64), keys.tables.astype(np.int32), keys.ids, keys.counts)
    return Keys(*(torch.from_numpy(part).to(device) for part in parts))


def keys_of(store: on_cpu.Store, pairs: list[tuple[int, int]]) -> on_cpu.Keys:
    parts = [store.keys(table, np.array([id_])) for table, id_ in pairs]
    names = ("hashes", "tables", "ids", "counts")
    return on_cpu.Keys(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


def stored(store: on_cpu.Store, rows: np.ndarray) -> torch.Tensor:  # type: ignore[type-arg]
    values = torch.from_numpy(store.values(rows))
    return values.view(torch.bfloat16) if store.layout.dtype == "bfloat16" else values


def check_same(one: on_cpu.Store, other: Store) -> None:
    assert one.num_rows == other.num_rows
    for table in range(len(one.tables)):
        rows = one.rows_of(table)
        assert other.rows_of(table).tolist() == rows.tolist()
        assert other.num_rows_of(table) == len(rows)
        chosen = torch.from_numpy(rows).to(other.device)
        assert torch.equal(other.ids(chosen).cpu(), torch.from_numpy(one.ids(rows)))
        assert torch.equal(other.values(chosen).cpu(), stored(one, rows))
        assert torch.equal(other.states(chosen).cpu(), torch.from_numpy(one.states(rows)))
        assert torch.equal(other.steps(chosen).cpu(), torch.from_numpy(one.steps(rows)))
        assert torch.equal(other.counts(chosen).cpu(), torch.from_numpy(one.counts(rows)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_store_changes_as_that_of_the_cpu(device: str, dtype: str) -> None:
    @settings(max_examples=8 if device == "cpu" else 40)
    @given(CHANGES)
    def run(changes: list[tuple[bool, list[tuple[int, int]]]]) -> None:
        one, other = both(device, dtype=dtype)
        for step, (adds, pairs) in enumerate(changes):
            if not pairs:
                continue
            keys = keys_of(one, pairs)
            same = keys_on(other.device, keys)
            rows, found = one.find(keys)[0], other.find(same)
            assert found.tolist() == rows.tolist()
            if adds:
                wanted = keys.ids % 3 != 0
                one.insert(keys, rows, step, wanted)
                there = torch.from_numpy(wanted).to(other.device)
                other.insert(same, found, step, there)
                other.touch(same, found, step + 1)
                read = other.gather(same, found)
                one.touch(keys, rows, step + 1)
                assert torch.equal(read.cpu(), torch.from_numpy(one.gather(keys, rows)))
            else:
                one.remove(rows[rows >= 0])
                other.remove(found[found >= 0])
            assert other.find(same).tolist() == one.find(keys)[0].tolist()
        check_same(one, other)

    run()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dim", [1, 4, 17, 40])
@pytest.mark.parametrize(
    "initializer", [Constant(0.3), Uniform(-1, 3), Normal(1, 2), TruncatedNormal(0, 1, low=-0.5, high=1.0)], ids=str
)
def test_new_values_are_those_of_the_cpu(device: str, dim: int, initializer: Initializer) -> None:
    one, other = both(device, dim, initializer=initializer)
    count = 20 if device == "cpu" else 5000
    ids = np.concatenate([[-1, 0, 2**63 - 1, -(2**63)], np.random.default_rng(0).integers(-(2**63), 2**63, count)])
    for table in (0, 1):
        keys = one.keys(table, ids)
        rows = one.find(keys)[0]
        one.insert(keys, rows)
        same = other.keys(table, torch.from_numpy(ids))
        assert torch.equal(same.hashes.cpu(), torch.from_numpy(keys.hashes.view(np.int64)))
        found = other.find(same)
        other.insert(same, found)
        got, want = other.gather(same, found).cpu().numpy(), one.gather(keys, rows)
        if isinstance(initializer, Normal | TruncatedNormal):
            np.testing.assert_array_max_ulp(got, want, 2)
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("device", DEVICES)
def test_growth_moves_no_row(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 1 << 12)
    one, other = both(device, 8)
    places = []
    for start in range(0, 2000 if device != "cpu" else 500, 100):
        keys = one.keys(start // 100 % 2, np.arange(start, start + 100))
        same = keys_on(other.device, keys)
        rows, found = one.find(keys)[0], other.find(same)
        one.insert(keys, rows, start)
        other.insert(same, found, start)
        places.append(other._memory[0].data_ptr())
    assert len(other._memory) > 1 and len(set(places)) == 1
    check_same(one, other)
    assert other.budget.used - 4096 < other.bytes < other.budget.used * 1.1 + 4096


@pytest.mark.parametrize("device", DEVICES)
def test_room_is_made_for_a_batch_more(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 1 << 12)
    _, other = both(device, 8)
    keys = other.keys(0, torch.arange(100))
    other.insert(keys, other.find(keys))
    other.know(other.numbers.tolist())
    assert other.has_room(len(keys)) and other.num_rows == 100
    tight = both(device, 8, budget=Budget(other.budget.used - 1))[1]
    tight.insert(keys, tight.find(keys))
    assert tight.num_rows == 100 and not tight.has_room(len(keys))


@pytest.mark.parametrize("device", DEVICES)
def test_room_for_the_next_batch_is_a_part_of_a_large_store(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(module, "NEXT_BYTES", 1 << 12)
    _, store = both(device, 8)
    store.reserve(2000, 1_000_000)
    assert store.has_room(2000 + 500) and not store.has_room(4000)
    assert store.bytes < 1.5 * 2000 * (store.row_bytes + 8 / module.FULL)


@pytest.mark.parametrize("device", DEVICES)
def test_keys_with_one_hash_are_told_apart(device: str) -> None:
    """All keys begin their search in one bucket, and have one tag."""
    _, other = both(device)
    other.reserve(100)  # a map that grows computes the hashes anew
    pairs = [(table, id_) for id_ in range(20) for table in (0, 1)]
    zeros = torch.zeros(len(pairs), dtype=torch.int64, device=device)
    tables, ids = (torch.tensor(x, device=device) for x in zip(*pairs, strict=True))
    keys = Keys(zeros, tables.int(), ids, zeros.int())
    half = keys.take(slice(0, 25))
    rows = other.find(half)
    other.insert(half, rows)
    assert other.find(half).tolist() == rows.tolist() == list(range(25))
    assert other.find(keys).tolist() == [*range(25), *[-1] * 15]
    rest = other.find(keys)
    other.insert(keys, rest)
    assert rest.tolist() == list(range(40)) and other.find(keys).tolist() == list(range(40))


@pytest.mark.parametrize("device", DEVICES)
def test_slots_of_removed_rows_are_used_again(device: str) -> None:
    """Rows come and go: the map does not fill up with what was removed."""
    one, other = both(device, 1)
    for step in range(12 if device == "cpu" else 200):
        keys = one.keys(0, np.arange(20 * step, 20 * step + 40))
        same = keys_on(other.device, keys)
        rows, found = one.find(keys)[0], other.find(same)
        one.insert(keys, rows)
        other.insert(same, found)
        one.remove(rows[:20])
        other.remove(found[:20])
        assert len(other._slots) <= 256
    check_same(one, other)


@pytest.mark.parametrize("device", DEVICES)
def test_a_store_that_is_emptied_is_filled_in_the_memory_that_it_has(device: str) -> None:
    one, other = both(device, 1)
    for first in (0, 1000, 2000):
        keys = one.keys(0, np.arange(first, first + 40))
        same = keys_on(other.device, keys)
        rows, found = one.find(keys)[0], other.find(same)
        one.insert(keys, rows)
        other.insert(same, found)
        check_same(one, other)
        if first < 2000:
            one.remove(rows)
            other.remove(found)
        other._list_free(40)
        other.budget.most = other.budget.used


@pytest.mark.parametrize("device", DEVICES)
def test_too_much_memory_is_refused_before_anything_changes(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 1 << 12)
    _, other = both(device, budget=Budget(40_000))
    keys = other.keys(0, torch.arange(200))
    rows = other.find(keys)
    other.insert(keys, rows)
    used, size = other.budget.used, other.bytes
    more = other.keys(1, torch.arange(1000))
    others = torch.full((1000,), -1, device=device)
    with pytest.raises(BudgetError, match="more memory than they may"):
        other.insert(more, others)
    assert bool((others == -1).all()) and (other.budget.used, other.bytes, other.num_rows) == (used, size, 200)
    assert other.find(keys).tolist() == rows.tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_values_are_rounded_as_torch_does(device: str, dtype: str) -> None:
    corners = [0.0, -0.0, 1e-8, 6e-8, 2.0**-14, 65504.0, 65519.0, 65520.0, -1e30, math.inf, -math.inf, math.nan, 1e-45]
    x = np.array([*corners, *np.random.default_rng(1).normal(size=19)], np.float32)
    fresh = [Fresh(k, 1, Constant(float(value)).draw(1), np.zeros(0, np.float32)) for k, value in enumerate(x)]
    store = Store("s", Layout(1, dtype), fresh, device=device)
    tables = torch.arange(len(x), dtype=torch.int32, device=device)
    keys = Keys(tables.long(), tables, tables.long(), tables)
    rows = store.find(keys)
    store.insert(keys, rows)
    want = torch.from_numpy(x).to(getattr(torch, dtype)).float()[:, None].numpy()
    np.testing.assert_array_equal(store.gather(keys, rows).cpu().numpy(), want)
    assert [store.num_rows_of(table) for table in range(len(x))] == [1] * len(x)


LONGS = (
    *("slots", "spare", "blocks", "hashes", "ids", "rows", "tables", "words", "counters", "free", "lives", "order"),
    *("packed",),
)
SIGNATURE = {
    **dict.fromkeys(LONGS, "*i64"),
    **dict.fromkeys(("counts",), "*i32"),
    **dict.fromkeys(("out", "fresh"), "*fp32"),
    **dict.fromkeys(("num", "num_buckets", "num_shift", "row_bytes", "num_table", "num_step", "dim", "num_dim"), "i32"),
    **dict.fromkeys(("num_states", "num_states_at", "num_at", "num_width", "num_stride"), "i32"),
    "marks": "*i8",
}
KEYED = {**SIGNATURE, "tables": "*i32"}


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_kernels_compile(capability: int) -> None:
    made = Kernels(module.FILES, interpret=False)
    lanes = {"BLOCK": module.FINDING}
    made.compiled("find", KEYED, lanes, capability)
    for name in ("hash_ids", "withdraw", "touch", "mark_rows"):
        made.compiled(name, SIGNATURE, lanes, capability)
    made.compiled("rehash", SIGNATURE, {**lanes, "SPARE": module.SPARE}, capability)
    made.compiled("account", SIGNATURE, {}, capability)
    for form in (0, 1, 2):
        wide = {"FORM": form, "BLOCK": module.COPYING, "VALUES": 32, "FULL": form > 0}
        made.compiled("gather", KEYED, wide, capability)
        draws = {
            "NORMAL": form > 0,
            "TRUNCATED": form > 1,
            "NOTED": form > 0,
            "BLOCK": module.MAKING,
            "FOURS": 4,
            "FULL": form < 2,
            "STATES": 8,
        }
        made.compiled("insert", KEYED, {"FORM": form, "SPARE": module.SPARE, **draws}, capability)
    for writes in (False, True):
        made.compiled("copy_part", SIGNATURE, {"WRITES": writes, "BLOCK": module.COPYING, "VALUES": 8}, capability)
