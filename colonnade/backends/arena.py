"""Memory for the output buffers of a call, used again when nothing refers to it any more.

Fresh pages cost more than filling them: at batch 256 a buffer of 8,000 floats a row took 3.6 ms fresh and 1.0 ms used.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from colonnade.core.batch import Layout
from colonnade.core.objects import Empty
from colonnade.ir.program import Buffer

Array = npt.NDArray[Any]
ALIGNMENT = 64
TOO_LARGE = 4
"""How many times larger than a request a block may be that is lent to it, if it is not `SMALL`."""
SMALL = 1 << 16
"""Units: bytes."""
FORGOTTEN = 1024


class Room(Protocol):
    """Memory for the packed batch of one request, so that it is packed where it is needed."""

    def array(self, layout: Layout, dtype: str, rows: int) -> Array:
        """The buffer of a dtype, `[rows * layout.widths[dtype]]`; its content is arbitrary."""

    def strings(self, layout: Layout, rows: int) -> Empty:
        """Makes the offsets of all strings, then their bytes, if called in this order with their exact number."""

    def close(self) -> None:
        """Give the memory back."""


@dataclass(frozen=True, eq=False, slots=True)
class Arena:
    """One call's buffers, as torch tensors and as numpy arrays of the same memory, 64-byte aligned."""

    tensors: Mapping[str, torch.Tensor]
    arrays: Mapping[str, Array]


class _Lease:
    """Memory on loan: every array and tensor made of it refers to it, so that it ends with the last of them."""

    __slots__ = ("__array_interface__", "__weakref__", "block")

    def __init__(self, block: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.block = block
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": dtype.str,
            "data": (_aligned(block), False),
        }


class _Idle:
    """Blocks that nobody refers to.

    Facts: at most `limit` are kept, and none that stayed idle while `FORGOTTEN` others came back. Every step is one
    operation of a dict, so that any thread, and the collector within it, may take and put at any time.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._blocks: dict[int, tuple[int, Array]] = {}  # by identity: when it came back, and the block; oldest first
        self._count = 0

    def __len__(self) -> int:
        return len(self._blocks)

    def take(self, size: int) -> Array | None:
        """The block of at least `size` bytes that came back last; none that a small answer would keep from others."""
        most = max(size * TOO_LARGE, SMALL)
        for key, (_, block) in reversed(self._blocks.copy().items()):
            if size <= len(block) <= most and self._blocks.pop(key, None) is not None:
                return block
        return None

    def put(self, block: Array) -> None:
        """Keep a block; the oldest goes where there are too many, or where nobody needs it any more."""
        self._count += 1
        self._blocks[id(block)] = self._count, block
        kept = self._blocks.copy()
        oldest = next(iter(kept))
        if len(kept) > self._limit or self._count - kept[oldest][0] > FORGOTTEN:
            self._blocks.pop(oldest, None)

    def drop_largest(self) -> None:
        """Keep one block less."""
        sizes = [(len(block), key) for key, (_, block) in self._blocks.copy().items()]
        self._blocks.pop(max(sizes, default=(0, 0))[1], None)


class ArenaPool:
    """Hands out arenas to concurrent callers; their memory comes back by itself.

    Facts: at most `limit` idle blocks a buffer are kept.
    """

    def __init__(self, buffers: Sequence[Buffer], limit: int = 8) -> None:
        self._buffers = tuple((b.name, b.width, np.dtype(b.dtype)) for b in buffers)
        self._idle = {b.name: _Idle(limit) for b in buffers}

    def take(self, rows: Sequence[int]) -> Arena:
        """An arena with `rows[i]` rows in the i-th buffer; its content is arbitrary."""
        arrays = {
            name: self._array(self._idle[name], (num_rows, width), dtype)
            for (name, width, dtype), num_rows in zip(self._buffers, rows, strict=True)
        }
        return Arena({name: torch.from_numpy(array) for name, array in arrays.items()}, arrays)

    @staticmethod
    def _array(idle: _Idle, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        size = shape[0] * shape[1] * dtype.itemsize + ALIGNMENT
        block = idle.take(size)
        if block is None:
            block = np.empty(size, np.uint8)
        lease = _Lease(block, shape, dtype)
        weakref.finalize(lease, idle.put, block).atexit = False
        return np.asarray(lease)


class Loans:
    """Hands out blocks of bytes of any kind of memory; each comes back with the last reference to it.

    Facts: at most `limit` blocks exist; taking from a list and appending to it are atomic.
    """

    def __init__(self, allocate: Callable[[int], Array], limit: int) -> None:
        self._allocate = allocate
        self._idle = _Idle(limit)
        self._permits = [None] * limit

    def take(self, num_bytes: int) -> Array | None:
        """At least so many bytes, of arbitrary content; None while all blocks are out."""
        try:
            self._permits.pop()
        except IndexError:
            return None
        lease = None
        try:
            block = self._idle.take(num_bytes + ALIGNMENT)
            if block is None:
                if len(self._idle) > len(self._permits):
                    self._idle.drop_largest()
                block = self._allocate(1 << (num_bytes + ALIGNMENT - 1).bit_length())
            lease = _Lease(block, (num_bytes,), np.dtype(np.uint8))
        finally:
            if lease is None:
                self._permits.append(None)
        weakref.finalize(lease, self._return, block).atexit = False
        return np.asarray(lease)

    def _return(self, block: Array) -> None:
        self._idle.put(block)
        self._permits.append(None)


def _aligned(block: Array) -> int:
    address: int = block.__array_interface__["data"][0]
    return -(-address // ALIGNMENT) * ALIGNMENT
