"""Memory for the output buffers of a call, kept for the next: fresh pages cost more than filling them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import torch

from colonnade.ir.program import Buffer
from colonnade.ops.op import torch_dtype


@dataclass(frozen=True, eq=False, slots=True)
class Arena:
    """One call's buffers, as torch tensors and as numpy arrays of the same memory, 64-byte aligned.

    whole: the tensors of full capacity.   storages: where their memory begins.
    """

    whole: Mapping[str, torch.Tensor]
    storages: frozenset[int]
    tensors: Mapping[str, torch.Tensor]
    arrays: Mapping[str, npt.NDArray[Any]]


class ArenaPool:
    """Hands out arenas to concurrent callers and takes them back.

    Facts: at most `limit` idle arenas are kept; each has room for the largest request that it has served.
    """

    def __init__(self, buffers: Sequence[Buffer], limit: int = 8) -> None:
        self._buffers = tuple(buffers)
        self._limit = limit
        self._idle: list[Arena] = []
        self._lock = threading.Lock()

    def take(self, rows: Sequence[int]) -> Arena:
        """An arena with `rows[i]` rows in the i-th buffer; its content is arbitrary."""
        with self._lock:
            arena = self._idle.pop() if self._idle else None
        whole = dict(arena.whole) if arena is not None else {}
        for buffer, num_rows in zip(self._buffers, rows, strict=True):
            have = whole.get(buffer.name)
            if have is None or len(have) < num_rows:
                whole[buffer.name] = torch.empty(num_rows, buffer.width, dtype=torch_dtype(buffer.dtype))
        tensors = {
            b.name: whole[b.name] if len(whole[b.name]) == n else whole[b.name][:n]
            for b, n in zip(self._buffers, rows, strict=True)
        }
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        return Arena(whole, frozenset(t.untyped_storage().data_ptr() for t in whole.values()), tensors, arrays)

    def give_back(self, arena: Arena) -> None:
        """Keeps an arena that nothing outside refers to."""
        with self._lock:
            if len(self._idle) < self._limit:
                self._idle.append(arena)
