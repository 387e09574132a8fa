"""Memory of packed requests: used again once nothing refers to it, never before."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.backends.feed_room import SMALL, SpareMemory


@pytest.mark.parametrize("dtype", ["uint8", "bool", "float16", "int64"])
@pytest.mark.parametrize("num_bytes", [0, 8, SMALL, SMALL + 8, 5 * SMALL])
def test_length_dtype_and_alignment(dtype: str, num_bytes: int) -> None:
    count = num_bytes // np.dtype(dtype).itemsize
    array = SpareMemory([dtype]).empty(count, dtype)
    assert array.shape == (count,) and array.dtype == np.dtype(dtype) and array.flags.c_contiguous
    array[...] = 1
    assert (array == 1).all()


def test_large_memory_is_used_again_once_free() -> None:
    spare = SpareMemory(["float32"])
    first = spare.empty(SMALL, np.float32)
    address = first.ctypes.data
    part = first[7:]
    del first
    second = spare.empty(SMALL, "float32")
    assert second.ctypes.data != address
    del part
    assert spare.empty(SMALL - 5, np.float32).ctypes.data == address
