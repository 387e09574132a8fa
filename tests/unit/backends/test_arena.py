"""Memory of output buffers: used again once nothing refers to it, never before."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from colonnade.backends.arena import FORGOTTEN, ArenaPool, Loans
from colonnade.core import dims
from colonnade.ir.program import Buffer

BUFFERS = (Buffer("a", dims.symbol("B"), 5), Buffer("b", dims.symbol("B"), 3))


def test_arrays_are_aligned_and_share_memory_with_their_tensors() -> None:
    arena = ArenaPool(BUFFERS).take([4, 2])
    for name, array in arena.arrays.items():
        assert array.ctypes.data % 64 == 0 and array.dtype == np.float32 and array.flags.c_contiguous
        arena.tensors[name].fill_(7)
        assert (array == 7).all()
    assert arena.arrays["a"].shape == (4, 5) and arena.arrays["b"].shape == (2, 3)


def test_memory_comes_back_only_with_the_last_view() -> None:
    pool = ArenaPool(BUFFERS)
    arena = pool.take([4, 4])
    view = arena.tensors["a"][1:].numpy()[:, 2:]
    address = arena.arrays["a"].ctypes.data
    del arena
    assert pool.take([4, 4]).arrays["a"].ctypes.data != address
    del view
    assert address in {
        pool.take([4, 4]).arrays["a"].ctypes.data,
        *[a.arrays["a"].ctypes.data for a in [pool.take([4, 4])]],
    }


def test_a_larger_request_gets_a_larger_block_and_an_empty_one_works() -> None:
    pool = ArenaPool(BUFFERS)
    for rows in (1, 1000, 0, 3):
        arena = pool.take([rows, rows])
        arena.arrays["a"][...] = rows
        assert arena.arrays["a"].shape == (rows, 5)


def test_a_small_answer_keeps_no_large_block() -> None:
    pool = ArenaPool((Buffer("a", dims.symbol("B"), 500),))
    large = pool.take([2048]).arrays["a"].ctypes.data
    kept = pool.take([1]).arrays["a"]
    assert kept.base is not None and len(kept.base.block) < 8192  # the lease
    assert pool.take([600]).arrays["a"].ctypes.data == large  # less than four times too large
    assert pool.take([2048]).arrays["a"].ctypes.data == large


def test_blocks_that_nobody_needs_are_forgotten() -> None:
    pool = ArenaPool((Buffer("a", dims.symbol("B"), 500),))
    held = [pool.take([2048]) for _ in range(20)]
    del held
    assert len(pool._idle["a"]) == 8
    for _ in range(FORGOTTEN + 8):
        pool.take([1])
    assert len(pool._idle["a"]) == 1


def test_sizes_in_turn_need_no_new_memory() -> None:
    pool = ArenaPool((Buffer("a", dims.symbol("B"), 500),))
    seen = {rows: {pool.take([rows]).arrays["a"].ctypes.data for _ in range(3)} for rows in (1, 100, 2048)}
    for rows in 20 * (2048, 1, 100):
        assert {pool.take([rows]).arrays["a"].ctypes.data} == seen[rows]


def test_the_collector_may_give_memory_back_at_any_time() -> None:
    pool = ArenaPool(BUFFERS)
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for rows in range(300):
            ring: list[Any] = [pool.take([rows, rows])]
            ring.append(ring)  # only the collector ends it
    finally:
        gc.set_threshold(*threshold)
    assert all(len(blocks) <= 8 for blocks in pool._idle.values())


def test_concurrent_callers_never_share() -> None:
    pool = ArenaPool(BUFFERS)
    wrong = []

    def work(number: int) -> None:
        for _ in range(200):
            arena = pool.take([8, 8])
            arena.arrays["a"][...] = number
            if not (arena.arrays["a"] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and all(len(blocks) <= 8 for blocks in pool._idle.values())


def test_blocks_on_loan_come_back_with_the_last_view_and_are_limited() -> None:
    made: list[int] = []

    def allocate(size: int) -> np.ndarray:
        made.append(size)
        return np.empty(size, np.uint8)

    loans = Loans(allocate, 2)
    first, second = loans.take(100), loans.take(100)
    assert first is not None and second is not None and loans.take(1) is None
    assert first.ctypes.data % 64 == 0 and len(first) == 100 and not np.shares_memory(first, second)
    view = first[3:].view(np.uint8)
    del first
    assert loans.take(1) is None
    del view
    again = loans.take(150)
    assert again is not None and len(made) == 2
    del again, second
    assert loans.take(5000) is not None and len(made) == 3


def test_loans_of_other_sizes_stay_within_the_limit() -> None:
    sizes: list[int] = []

    def allocate(size: int) -> np.ndarray:
        sizes.append(size)
        return np.empty(size, np.uint8)

    loans = Loans(allocate, 2)
    held = [loans.take(1 << 20), loans.take(1 << 20)]
    del held
    small = loans.take(1 << 17)
    assert small is not None and len(sizes) == 3  # and one of the large ones is gone
    large = loans.take(1 << 20)
    assert large is not None and len(sizes) == 3 and loans.take(1) is None
    del large, small
    assert loans.take(1 << 17) is not None and loans.take(1 << 20) is not None and len(sizes) == 3


def test_memory_that_is_refused_costs_no_loan() -> None:
    is_full = True

    def allocate(size: int) -> np.ndarray:
        if is_full:
            raise MemoryError
        return np.empty(size, np.uint8)

    loans = Loans(allocate, 2)
    for _ in range(5):
        with pytest.raises(MemoryError):
            loans.take(100)
    is_full = False
    held = [loans.take(100) for _ in range(3)]
    assert [block is None for block in held] == [False, False, True]
