"""A table of many rows: filled, read again, half of it given up and filled anew. No row may be lost or doubled.

    python -m benchmarks.train.growth --rows 10_000_000

A row is appended to `benchmarks/results/growth.jsonl`; none where a row was lost.
Legend: N rows; D embedding_dim.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from colonnade.testing.machine import commit, machine, now, versions
from colonnade.train.initializers import Uniform
from colonnade.train.optimizers import RowWiseAdagrad
from colonnade.train.tables.layout import Layout
from colonnade.train.tables.store import Fresh, Keys, Store

RESULTS = Path(__file__).parent.parent / "results" / "growth.jsonl"
DIM, KEY_BYTES = 8, 16
BATCH = 1 << 20
FAR = np.int64(-7046029254386353131)


def main(
    rows: Annotated[int, typer.Option("--rows", min=1000)] = 10_000_000,
    write: Annotated[bool, typer.Option("--write/--no-write")] = True,
) -> None:
    """Fill, check, give up every second row, fill anew, check."""
    optimizer = RowWiseAdagrad()
    layout = Layout(DIM, "float32", optimizer.num_states(DIM))
    store = Store("growth", layout, [Fresh(1, 2, Uniform().draw(DIM), np.array(optimizer.fresh(DIM), np.float32))])
    least = KEY_BYTES + 4 * (DIM + layout.num_states)
    most = 0.0
    began = time.perf_counter()
    for start in range(0, rows, BATCH):
        _insert(store, _keys(store, start, min(start + BATCH, rows)))
        most = max(most, store.budget.highest / (least * store.num_rows)) if start else most
        store.budget.highest = store.budget.used
    inserting = (time.perf_counter() - began) / rows
    sound = store.num_rows == rows and _all_there(store, 0, rows)
    resting = store.bytes / (least * rows)
    began = time.perf_counter()
    for start in range(0, rows, BATCH):
        found, _ = store.find(_keys(store, start, min(start + BATCH, rows)))
        store.remove(found[::2].copy())
    removing = (time.perf_counter() - began) / (rows // 2)
    before = store.bytes
    for start in range(rows, rows + rows // 2, BATCH):
        _insert(store, _keys(store, start, min(start + BATCH, rows + rows // 2)))
    sound &= store.bytes == before and _all_there(store, rows, rows + rows // 2) and _every_second(store, rows)
    sound &= len(np.unique(store.ids(store.rows_of(0)))) == store.num_rows
    row: dict[str, Any] = {
        "rows": rows, "embedding_dim": DIM, "insert_ns": round(1e9 * inserting, 1),
        "remove_ns": round(1e9 * removing, 1), "bytes_over_least": round(resting, 3),
        "most_over_least": round(most, 3), "bytes": before, "machine": machine(), "versions": versions(),
        "commit": commit(), "date": now(),
    }  # fmt: skip
    if not sound:
        print("rows were lost or doubled, no number", file=sys.stderr)
        sys.exit(1)
    print(json.dumps(row))
    if write:
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _keys(store: Store, start: int, end: int) -> Keys:
    """Ids that are far apart."""
    return store.keys(0, np.arange(start, end, dtype=np.int64) * FAR)


def _insert(store: Store, keys: Keys) -> None:
    rows, _ = store.find(keys)
    store.insert(keys, rows)


def _all_there(store: Store, start: int, end: int) -> bool:
    for begin in range(start, end, BATCH):
        keys = _keys(store, begin, min(begin + BATCH, end))
        rows, missing = store.find(keys)
        if missing or not np.array_equal(store.ids(rows), keys.ids):
            return False
    return True


def _every_second(store: Store, end: int) -> bool:
    """Whether of the first ids those with odd numbers are there, and no other."""
    for begin in range(0, end, BATCH):
        rows, _ = store.find(_keys(store, begin, min(begin + BATCH, end)))
        if (rows[0::2] >= 0).any() or (rows[1::2] < 0).any():
            return False
    return True


if __name__ == "__main__":
    typer.run(main)
