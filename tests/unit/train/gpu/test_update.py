"""Optimizers on a device against the loops of the CPU, and against their references."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from colonnade.backends.memory import address_of
from colonnade.train.compiled import LOOPS
from colonnade.train.gpu import update as module
from colonnade.train.gpu.module import CAPABILITIES, Kernels
from colonnade.train.gpu.store import Store
from colonnade.train.gpu.update import Part, Plan, vectors_of
from colonnade.train.initializers import Normal
from colonnade.train.loops.update import NUM_SCALARS
from colonnade.train.optimizers import Adagrad, Adam, AdamW, Ftrl, Optimizer, RowWiseAdagrad, Sgd
from colonnade.train.tables import store as on_cpu
from colonnade.train.tables.layout import Layout
from colonnade.train.tables.store import Fresh
from tests.unit.train.gpu.devices import DEVICES
from tests.unit.train.gpu.test_store import keys_on

ALL: list[Optimizer] = [
    Sgd(0.1, 0.02),
    Adagrad(0.1, 0.05, 0.02, 0.1, 1e-6),
    RowWiseAdagrad(0.1, 0.5, 1e-3),
    Adam(0.1, 0.8, 0.95, 1e-3, 0.02),
    AdamW(0.1, weight_decay=0.3),
    Ftrl(0.1, 0.2, 0.05, 0.1, 0.3),
]
ROWS = 40


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("optimizer", ALL, ids=lambda o: type(o).__name__)
@pytest.mark.parametrize(("dim", "dtype"), [(8, "float32"), (13, "float32"), (70, "float32"), (5, "bfloat16")])
def test_rows_are_those_of_the_cpu(device: str, optimizer: Optimizer, dim: int, dtype: str) -> None:
    rng = np.random.default_rng(dim)
    layout = Layout(dim, dtype, optimizer.num_states(dim))
    states = np.array(optimizer.fresh(dim), np.float32)
    fresh = [Fresh(number, number, Normal(0, 1).draw(dim), states) for number in (0, 1)]
    one, other = on_cpu.Store("s", layout, fresh), Store("s", layout, fresh, device=device)
    both = [one.keys(table, np.arange(table, ROWS)) for table in (0, 1)]
    names = ("hashes", "tables", "ids", "counts")
    keys = on_cpu.Keys(*(np.concatenate([getattr(k, name) for k in both]) for name in names))
    rows = one.find(keys)[0]
    one.insert(keys, rows)
    same = keys_on(other.device, keys)
    found = other.find(same)
    other.insert(same, found)
    other.set_values(found, _stored(one, rows))  # normal values differ in their last bits
    loop = LOOPS.warm()[optimizer.loop]
    wide = torch.from_numpy(one.gather(keys, rows)).double()
    shapes = [(len(rows), dim if s.per_value else 1) for s in optimizer.states]
    kept = tuple(
        torch.full(shape, s.initial, dtype=torch.float64) for shape, s in zip(shapes, optimizer.states, strict=True)
    )
    chosen = np.where(np.arange(len(rows)) % 7 == 3, -1, rows)
    for step in (1, 2, 3):
        grads = rng.normal(size=(len(rows), dim)).astype(np.float32) * 10.0 ** rng.integers(-12, 3, (len(rows), 1))
        grads = grads.astype(np.float32)
        scalars = np.zeros((2, NUM_SCALARS), np.float32)
        for table, lr in enumerate((0.1, 0.03)):
            numbers = optimizer.scalars(step, lr)
            scalars[table, : len(numbers)] = numbers
            mine = torch.from_numpy(keys.tables == table)
            parts = tuple(s[mine] for s in kept)
            wide[mine] = optimizer.reference(wide[mine], parts, torch.from_numpy(grads).double()[mine], step, lr)
            for whole, part in zip(kept, parts, strict=True):
                whole[mine] = part
        at = (address_of(chosen), address_of(keys.tables), address_of(grads))
        loop(one.at, *at, len(rows), address_of(scalars))
        on_device = [torch.from_numpy(x).to(device) for x in (chosen, keys.tables.astype(np.int32), grads)]
        part = Part(other, optimizer, 0, *on_device, most=optimizer.most)
        plan = Plan.of([part], [other], other.device)
        told = plan.inspect(torch.zeros(2, dtype=torch.bool, device=device), skips=False)
        assert told.tolist() == [0, 1, 1]
        plan.update(torch.from_numpy(scalars).to(device))
    assert torch.equal(other.states(found).cpu(), torch.from_numpy(one.states(rows)))
    assert torch.equal(other.values(found).cpu(), _stored(one, rows))
    if dtype == "float32":
        moved = torch.from_numpy(chosen >= 0)
        torch.testing.assert_close(other.gather(same, found).cpu().double()[moved], wide[moved], rtol=2e-4, atol=1e-5)


def _stored(store: on_cpu.Store, rows: np.ndarray) -> torch.Tensor:  # type: ignore[type-arg]
    values = torch.from_numpy(store.values(rows))
    return values.view(torch.bfloat16) if store.layout.dtype == "bfloat16" else values


@pytest.mark.parametrize("device", DEVICES)
def test_stores_of_many_layouts_and_rules_learn_at_once(device: str) -> None:
    """Beyond what they may be: a gradient of the second store. The first table of the last one stands still."""
    parts, before = [], []
    for k, (optimizer, dim) in enumerate([(Adagrad(0.1), 70), (Sgd(0.5), 3), (Adam(0.1), 8), (Sgd(0.5), 33)]):
        states = np.array(optimizer.fresh(dim), np.float32)
        fresh = [Fresh(number, number, Normal(0, 1).draw(dim), states) for number in (0, 1)]
        store = Store("s", Layout(dim, "float32", optimizer.num_states(dim)), fresh, device=device)
        all_keys = [store.keys(table, torch.arange(9)) for table in (0, 1)]
        for keys in all_keys:
            store.insert(keys, store.find(keys))
        rows = torch.cat([store.find(keys) for keys in all_keys])
        tables = torch.cat([keys.tables for keys in all_keys])
        grads = torch.ones(len(rows), dim, device=device)
        if k == 1:
            grads[4, 2] = torch.nan
        parts.append(Part(store, optimizer, 2 * k, rows, tables, grads, optimizer.most))
        before.append(store.values(rows))
    plan = Plan.of(parts, [part.store for part in parts], torch.device(device))
    barred = torch.tensor([False] * 6 + [True, False], device=device)
    assert plan.inspect(barred, skips=False).tolist() == [1, 1, 1, 1, 1, 1, 1, 0, 1]
    assert plan.inspect(barred, skips=True).tolist() == [1, 1, 1, 1, 1, 1, 1, 0, 1]
    scalars = torch.zeros(8, NUM_SCALARS)
    for k, part in enumerate(parts):
        numbers = part.optimizer.scalars(1, part.optimizer.rate(1))
        scalars[2 * k : 2 * k + 2, : len(numbers)] = torch.tensor(numbers)
    plan.update(scalars.to(device))
    for k, (part, old) in enumerate(zip(parts, before, strict=True)):
        moved = (part.store.values(part.rows) != old).any(1).tolist()
        assert moved == [not (k == 1 and u == 4) and not (k == 3 and u < 9) for u in range(18)]
        if k in (1, 3):
            changed = torch.tensor(moved, device=device)
            assert torch.equal(part.store.values(part.rows)[changed], old[changed] - 0.5)


SIGNATURE = {
    **dict.fromkeys(("words", "tiles"), "*i64"),
    **dict.fromkeys(("num", "num_first"), "i32"),
    **{"scalars": "*fp32", "marks": "*i8", "barred": "*i1", "told": "*i32"},
}


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("optimizer", ALL, ids=lambda o: type(o).__name__)
def test_kernels_compile(capability: int, optimizer: Optimizer) -> None:
    made = Kernels(module.FILES, module.write([(0, 8, True), (1, 64, False)]), interpret=False)
    constants = {"RULE": optimizer.loop, "V": vectors_of(optimizer)}
    ptx = made.compiled("update_all", SIGNATURE, constants, capability).asm["ptx"]
    assert "fma" not in ptx and "div.full" not in ptx and "sqrt.approx" not in ptx


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_inspection_compiles(capability: int) -> None:
    made = Kernels(module.FILES, module.write([(0, 8, True), (1, 64, False)]), interpret=False)
    for skips in (False, True):
        made.compiled("inspect_all", SIGNATURE, {"SKIPS": skips}, capability)
