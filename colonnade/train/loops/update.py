"""The loop around every optimizer: once for each row, in eights of values, whatever form they are stored in.

Legend: `store` is the address of a store's words; U rows; D embedding_dim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from colonnade.backends.cpu.intrinsics import scratch
from colonnade.backends.lanes import LANES
from colonnade.backends.memory import kernel, load_f32, load_i64, store_f32, store_u8
from colonnade.train.loops import words as w
from colonnade.train.loops.entry import add_entry, entry
from colonnade.train.loops.rows import load_value, prefetch_learned, store_value
from colonnade.train.loops.slots import AHEAD, row_at

NUM_SCALARS = 8
"""float32 numbers of a table that an optimizer's step reads."""
SIZE = 4 * LANES

Begin = Callable[[int, int, int, int], np.float32]
"""(address of the row's state, of its gradient, D, address of the table's scalars) -> a number of the row."""
Step = Callable[[int, int, int, int, int, np.float32], Any]
"""(address of eight values, of eight values of the first state vector, bytes from one state vector to the next, address
of eight gradients, of the table's scalars, the number of the row): writes values and states."""

_room = scratch(SIZE * 4)


@kernel
def nothing(states: int, grad: int, dim: int, scalars: int) -> np.float32:
    """An optimizer that needs no number of the row."""
    return np.float32(0)


def updating(name: str, vectors: int, step: Step, begin: Begin = nothing) -> None:
    """Add the loop of an optimizer that keeps so many state vectors as long as a row."""

    @kernel
    def part(
        form: int, values: int, states: int, grad: int, dim: int, k: int, scalars: int, of_row: np.float32
    ) -> None:
        """Values that are stored in another form, or fewer than eight: by way of scratch memory."""
        room, n = _room(), min(LANES, dim - k)
        for i in range(LANES):
            inside = i < n
            store_f32(room + 4 * i, load_value(form, values, k + i) if inside else np.float32(0))
            store_f32(room + SIZE + 4 * i, load_f32(grad + 4 * (k + i)) if inside else np.float32(0))
            for v in range(vectors):
                at = states + 4 * (dim * v + k + i)
                store_f32(room + SIZE * (2 + v) + 4 * i, load_f32(at) if inside else np.float32(0))
        step(room, room + 2 * SIZE, SIZE, room + SIZE, scalars, of_row)
        for i in range(n):
            store_value(form, values, k + i, load_f32(room + 4 * i))
            for v in range(vectors):
                store_f32(states + 4 * (dim * v + k + i), load_f32(room + SIZE * (2 + v) + 4 * i))

    @kernel
    def update(store: int, rows: int, tables: int, grads: int, count: int, scalars: int) -> int:
        """One step for each row that is not -1. grads: float32 [U, D].   scalars: float32 [tables, NUM_SCALARS]."""
        dim, form = load_i64(store + w.DIM), load_i64(store + w.FORM)
        first, offset = load_i64(store + w.VALUES), load_i64(store + w.STATES)
        for u in range(count):
            if u + AHEAD < count:
                prefetch_learned(store, load_i64(rows + 8 * (u + AHEAD)))
            row = load_i64(rows + 8 * u)
            if row < 0:
                continue
            at, grad = row_at(store, row), grads + 4 * dim * u
            values, states = at + first, at + offset
            own = scalars + 4 * NUM_SCALARS * load_i64(tables + 8 * u)
            of_row = begin(states, grad, dim, own)
            for k in range(0, dim, LANES):
                if form == w.FLOAT32 and k + LANES <= dim:
                    step(values + 4 * k, states + 4 * k, 4 * dim, grad + 4 * k, own, of_row)
                else:
                    part(form, values, states, grad, dim, k, own, of_row)
        return 0

    add_entry(name, update)


@entry
def too_large(grads: int, count: int, dim: int, most: int, bad: int) -> int:
    """Mark the rows with a gradient that is NaN or beyond a limit; gives how many.

    most: address of the limit, float32.   bad: uint8 [U], written.
    """
    found, limit = 0, load_f32(most)
    # As one list first, which is fast: most gradients are right.
    for i in range(count * dim):
        x = load_f32(grads + 4 * i)
        found += 0 if -limit <= x <= limit else 1
    if found == 0:
        for u in range(count):
            store_u8(bad + u, np.uint8(0))
        return 0
    found = 0
    for u in range(count):
        outside = 0
        for k in range(dim):
            x = load_f32(grads + 4 * (dim * u + k))
            outside += 0 if -limit <= x <= limit else 1
        store_u8(bad + u, np.uint8(1 if outside > 0 else 0))
        found += 1 if outside > 0 else 0
    return found
