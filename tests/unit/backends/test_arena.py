"""Memory of output buffers: used again once nothing refers to it, never before."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from colonnade.backends.arena import ArenaPool, Loans
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
