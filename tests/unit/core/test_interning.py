"""Equal expressions and constants are one object, whatever threads make them at once."""

from __future__ import annotations

import threading

import numpy as np

from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Field
from colonnade.ops.mod import Mod

THREADS, EACH = 8, 300


def test_threads_that_make_equal_values_get_one_object() -> None:
    made: list[list[tuple[int, ...]]] = [[] for _ in range(THREADS)]
    kept: list[object] = []
    barrier = threading.Barrier(THREADS)

    def work(number: int) -> None:
        barrier.wait()
        for i in range(EACH):
            values = (Field(f"thread{i}"), Apply(Mod(i + 1), Field(f"thread{i}")), Const(np.array([i, 7.5])))
            kept.append(values)
            made[number].append((*map(id, values), id(dims.symbol(f"thread_{i}"))))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(ids == made[0] for ids in made) and len(kept) == THREADS * EACH
