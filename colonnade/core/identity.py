"""Identity matrices: the tables of indicator columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided


def identity(size: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """The identity matrix, its rows windows of one vector: 8 bytes a row, which stay in the nearest cache."""
    vector = np.zeros(max(2 * size - 1, 1), np.float32)
    vector[size - 1 :][:1] = 1
    return as_strided(vector[max(size - 1, 0) :], (size, size), (-4, 4), writeable=False)


def window_of(array: npt.NDArray[Any]) -> np.ndarray[tuple[int], np.dtype[np.float32]] | None:
    """The vector of `2 * size - 1` values that the rows of an identity matrix are windows of; None where they are not.

    Facts: row i begins at value `size - 1 - i`. The matrix is never made.
    """
    size = array.shape[0] if array.ndim == 2 else 0
    if size < 2 or array.shape != (size, size) or array.dtype != np.float32 or array.strides != (-4, 4):
        return None
    vector = as_strided(array[size - 1], (2 * size - 1,), (4,), writeable=False)
    marks = np.zeros(2 * size - 1, np.uint32)
    marks[size - 1] = np.float32(1).view(np.uint32)
    return vector if bool((vector.view(np.uint32) == marks).all()) else None


def is_identity(array: npt.NDArray[Any]) -> bool:
    """Whether a matrix has the bits of an identity matrix: -0 is another zero."""
    if window_of(array) is not None:
        return True
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.dtype != np.float32:
        return False
    return bool((array == identity(len(array))).all() and not np.signbit(array).any())
