"""Byte strings in Arrow's layout: all bytes in one array, and where each string begins and ends."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from colonnade.core.objects import Empty, gather_strings
from colonnade.errors import ShapeError

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Strings:
    """String e is `data[offsets[e] : offsets[e + 1]]`.

    Facts: `offsets` is nondecreasing int64 with one entry more than there are strings; it may begin after 0 and `data`
    may go on after the last string; neither is ever written to.
    """

    data: Bytes
    offsets: Offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def is_sound(self) -> bool:
        """Whether its facts hold and both arrays are contiguous: loops read by address what anybody may have made."""
        for array, dtype in ((self.data, np.uint8), (self.offsets, np.int64)):
            if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
                return False
            if not array.flags.c_contiguous:
                return False
        ends = self.offsets
        return len(ends) > 0 and ends[0] >= 0 and ends[-1] <= len(self.data) and bool((ends[1:] >= ends[:-1]).all())

    @staticmethod
    def from_objects(values: Sequence[bytes | str] | npt.NDArray[Any]) -> Strings:
        """From a flat sequence or array of bytes and str (as UTF-8).

        Errors: ShapeError that names the first value that is neither.
        """
        array = values if isinstance(values, np.ndarray) else np.fromiter(values, object, len(values))
        found = Strings.from_arrays((array,), array.shape)
        if found is not None:
            return found
        for i, value in enumerate(values):
            if not isinstance(value, bytes | str):
                raise ShapeError("strings are bytes or str", got=f"[{i}] {value!r}", want="bytes, str")
        try:  # strided arrays, subclasses of bytes and str, and text that has no UTF-8
            return Strings.from_arrow(pa.array(values, type=pa.large_binary(), from_pandas=False))
        except (pa.ArrowException, UnicodeError) as error:
            raise ShapeError("strings are bytes or str", got=str(error), want="bytes, str") from error

    @staticmethod
    def from_arrays(arrays: tuple[Any, ...], shape: tuple[int, ...], empty: Empty = np.empty) -> Strings | None:
        """From contiguous object arrays of one shape that hold nothing but bytes and str; None where any is another.

        empty: makes the flat arrays of the result from a length and a dtype.
        """
        found = gather_strings(arrays, shape, empty)
        return None if found is None else Strings(*found)

    @staticmethod
    def joined(parts: Sequence[Strings], empty: Empty = np.empty) -> Strings:
        """All strings of some parts, one part after the other: a copy. `empty` as in `from_arrays`."""
        offsets = empty(sum(map(len, parts)) + 1, np.int64)
        data = empty(sum(int(p.offsets[-1] - p.offsets[0]) for p in parts), np.uint8)
        row = end = 0
        for part in parts:
            first, last = int(part.offsets[0]), int(part.offsets[-1])
            np.add(part.offsets[:-1], end - first, out=offsets[row : row + len(part)])
            data[end : end + last - first] = part.data[first:last]
            row, end = row + len(part), end + last - first
        offsets[row] = end
        return Strings(data, offsets)

    @staticmethod
    def from_arrow(array: pa.Array) -> Strings:
        """From an Arrow array of any binary or string type; no copy where it is `large_binary` or `large_string`.

        Errors: ShapeError at the first null.
        """
        if array.null_count:
            first = int(np.argmax(np.asarray(array.is_null())))
            raise ShapeError("a string is missing", where=f"[{first}]", got="null", want="bytes, str")
        if array.type not in (pa.large_binary(), pa.large_string()):
            array = array.cast(pa.large_binary())
        if len(array) == 0:
            return Strings(np.empty(0, np.uint8), np.zeros(1, np.int64))
        _, offsets, data = array.buffers()
        return Strings(
            np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8),
            np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8),
        )

    def to_arrow(self) -> pa.Array:
        """The same strings as a `large_binary` array, without a copy."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)

    def to_objects(self) -> npt.NDArray[Any]:
        """The same strings as an object array of bytes."""
        first = int(self.offsets[0])
        data, offsets = self.data[first : int(self.offsets[-1])].tobytes(), (self.offsets - first).tolist()
        out = np.empty(len(self), dtype=object)
        out[:] = [data[a:b] for a, b in itertools.pairwise(offsets)]
        return out
