"""`python -m benchmarks.train.tables`: dynamic tables on a device, each step beside its floor or torch's.

Every answer is checked before it is timed. The floor is bytes over the bandwidth of a copy, with a bucket of slots and
a row 64 bytes each, as memory gives them. Times are those that a caller sees, between two events.

Legend: N ids, U distinct ones; D embedding_dim.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from benchmarks.gpu.clock import Clock, copy_bandwidth
from colonnade.testing.machine import commit, now, versions
from colonnade.train.gpu.store import Store
from colonnade.train.gpu.unique import Members, Unique
from colonnade.train.gpu.update import Part, Plan
from colonnade.train.initializers import Uniform
from colonnade.train.loops.update import NUM_SCALARS
from colonnade.train.optimizers import Adagrad, Optimizer, RowWiseAdagrad
from colonnade.train.tables.layout import Layout
from colonnade.train.tables.store import Fresh

RUNS = 7
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
STRIDE = 0x9E3779B97F4A7C1
"""Odd: multiples of it are distinct ids."""
BURST = 64
"""Bytes that memory reads at least."""
LEAST_BYTES = 12 + 8 + 32 + 4
"""What a row of 8 must hold: its key, its step and count, its values and one number of state."""
RESULTS = Path(__file__).parents[1] / "results" / "tables_gpu.jsonl"


@dataclass(frozen=True)
class Line:
    """What was measured. right: whether the answer was.   beside: what it is held against.   Units: microseconds."""

    what: str
    count: int
    right: bool
    dim: int | None = None
    us: float | None = None
    beside: str | None = None
    beside_us: float | None = None
    bytes_per_row: float | None = None

    def __str__(self) -> str:
        text = f"{self.what}: {self.count:,}" + ("" if self.dim is None else f" rows of {self.dim}")
        if self.us is not None and self.beside_us is not None:
            text = (
                f"{text:<64} {self.us:>8.0f} us, {self.beside} {self.beside_us:>6.0f}: {self.us / self.beside_us:.2f}"
            )
        if self.bytes_per_row is not None:
            text += f", {self.bytes_per_row:.1f} bytes a row, of which {LEAST_BYTES} hold its numbers"
        return text if self.right else f"{text} WRONG"


def store_of(dim: int, optimizer: Optimizer) -> Store:
    """An empty store of one table."""
    fresh = Fresh(12345, 678, Uniform().draw(dim), np.array(optimizer.fresh(dim), np.float32))
    return Store("benchmark", Layout(dim, "float32", optimizer.num_states(dim)), [fresh], device=DEVICE)


def _ids(count: int, kind: str) -> torch.Tensor:
    if kind == "distinct":
        return torch.randperm(count, device=DEVICE) * STRIDE
    if kind == "half distinct":
        return torch.randint(0, max(count // 2, 1), (count,), device=DEVICE) * STRIDE
    return torch.rand(count, device=DEVICE).double().pow(-1.2).clamp(max=1e12).long() * 7919


def unique(count: int, kind: str) -> Iterator[Line]:
    """Distinct ids, their numbers and counts, beside torch's without counts."""
    ids, zero = _ids(count, kind), torch.zeros(1, dtype=torch.int64, device=DEVICE)
    inverse = torch.empty(count, dtype=torch.int32, device=DEVICE)
    offsets = torch.stack((zero, zero + count), 1)
    members = Members.of([0], [0], [12345], [0], DEVICE)
    clock, theirs = Clock(DEVICE, RUNS), torch.unique(ids)
    other = clock.events([lambda: torch.unique(ids, return_inverse=True)]).p50
    work = Unique(DEVICE)
    for ordered in (False, True):
        found = work.run(members, offsets, ids, inverse, ordered=ordered)
        keys = found.keys.take(slice(0, int(found.counts)))
        right = torch.equal(keys.ids[inverse.long()], ids) and torch.equal(keys.ids.sort().values, theirs)
        right = right and torch.equal(torch.bincount(inverse, minlength=len(keys)), keys.counts.long())
        ours = clock.events([partial(work.run, members, offsets, ids, inverse, ordered=ordered)]).p50
        name = f"unique{', ordered' if ordered else ''}, {kind}"
        yield Line(name, count, right, None, 1e6 * ours, "torch.unique", 1e6 * other)


def steps(count: int, dim: int, optimizer: Optimizer) -> Iterator[Line]:
    """Rows made, looked up and updated."""
    store, clock = store_of(dim, optimizer), Clock(DEVICE, RUNS)
    keys = store.keys(0, _ids(count, "distinct"))
    row, wide = -(-store.row_bytes // BURST) * BURST, 4 * dim
    rows = store.find(keys)
    store.insert(keys, rows)
    again = store.find(keys)
    right = torch.equal(rows, again) and torch.equal(store.ids(rows), keys.ids) and store.num_rows == count
    shuffled = torch.randperm(count, device=DEVICE)
    keys, rows = keys.take(shuffled), rows[shuffled]
    right = right and torch.equal(store.gather(keys, rows), store.values(rows))
    grads, scalars = torch.randn(count, dim, device=DEVICE), torch.zeros(1, NUM_SCALARS, device=DEVICE)
    part = Part(store, optimizer, 0, rows, keys.tables, grads, optimizer.most)
    plan = Plan.of([part], [store], DEVICE)
    barred = torch.zeros(1, dtype=torch.bool, device=DEVICE)
    plan.inspect(barred, skips=False)
    numbers = optimizer.scalars(1, 0.1)
    scalars[0, : len(numbers)] = torch.tensor(numbers)

    def insert() -> None:
        other = store_of(dim, optimizer)
        other.insert(keys, torch.full_like(rows, -1))

    for name, call, moved in (
        ("insert, from nothing", insert, 2 * BURST + row + 60),
        ("find", lambda: store.find(keys), 2 * BURST + 28),
        ("touch", lambda: store.touch(keys, rows, 5), 2 * BURST + 12),
        ("gather", lambda: store.gather(keys, rows), max(wide, BURST) + wide + 8),
        ("inspect", lambda: plan.inspect(barred, skips=False), wide + 13),
        ("update", lambda: plan.update(scalars), 2 * row + wide + 12),
    ):
        taken, floor = clock.events([call]).p50, count * moved / copy_bandwidth(DEVICE)
        yield Line(f"{name}, {type(optimizer).__name__}", count, right, dim, 1e6 * taken, "floor", 1e6 * floor)


def many(count: int, part: int) -> Iterator[Line]:
    """Rows of 8 with row-wise Adagrad made part by part, half of them given up, and made again."""
    store = store_of(8, RowWiseAdagrad())
    parts = [torch.arange(at, min(at + part, count), device=DEVICE) * STRIDE for at in range(0, count, part)]
    most = 0.0
    for step, ids in enumerate(parts):
        keys = store.keys(0, ids)
        store.insert(keys, store.find(keys), step)
        most = max(most, store.budget.highest / store.num_rows)
    used = torch.zeros(count, dtype=torch.bool, device=DEVICE)
    kept = 0
    for ids in parts:
        rows = store.find(store.keys(0, ids))
        kept += int((store.ids(rows[rows >= 0]) == ids[rows >= 0]).sum())
        used[rows[rows >= 0]] = True
    right = kept == int(used.sum()) == store.num_rows == count
    yield Line("made part by part, none lost, none twice", count, right, 8, bytes_per_row=store.bytes / count)
    yield Line("the most while growing", count, right, 8, bytes_per_row=most)
    rows = store.rows_of(0)
    store.remove(rows[store.steps(rows) < len(parts) // 2])
    there = sum(int((store.find(store.keys(0, ids)) >= 0).sum()) for ids in parts)
    gone = sum(len(ids) for ids in parts[: len(parts) // 2])
    right = there == store.num_rows == count - gone
    for ids in parts:
        keys = store.keys(0, ids)
        store.insert(keys, store.find(keys))
    right = right and store.num_rows == count
    yield Line("half given up and made again", count, right, 8, bytes_per_row=store.bytes / count)


def lines(dry: bool) -> Iterator[Line]:
    """All that is measured."""
    for count in (200,) if dry else (1 << 18, 1 << 20, 1 << 23):
        for kind in ("skewed", "half distinct", "distinct"):
            yield from unique(count, kind)
    for count in (100,) if dry else (1 << 20, 1 << 23):
        yield from steps(count, 8, RowWiseAdagrad())
        yield from steps(count, 32, Adagrad())
    yield from many(*((200, 100) if dry else (100_000_000, 8_000_000)))


def main(
    dry: Annotated[bool, typer.Option(help="Tiny sizes, which run without a device.")] = False,
    write: Annotated[bool, typer.Option("--write/--no-write", help="Append the rows to the results.")] = True,
) -> None:
    """Check every case, then time it; a row a measurement goes to `benchmarks/results/tables_gpu.jsonl`."""
    is_right = True
    where = {"device": torch.cuda.get_device_name() if DEVICE.type == "cuda" else "cpu", "versions": versions()}
    for line in lines(dry):
        is_right = is_right and line.right
        print(line, flush=True)
        if write and line.right and not dry:
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**asdict(line), **where, "commit": commit(), "date": now()}) + "\n")
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    typer.run(main)
