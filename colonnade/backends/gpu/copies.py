"""A request's way to the device and its answer's way back, by a kernel where both are short.

A copy by the copy engine makes what follows in a graph wait for 9 us (22 us with one row) on an H200, and a copy back
is waited for 6 us; a kernel that reads or writes pinned memory over the bus moves as much a second and has no such gap.
Matrices that the host computed go straight to their places that way, all in one launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
from triton.runtime.interpreter import InterpretedFunction

from colonnade.backends.gpu.device.copy_words import copy_words
from colonnade.backends.gpu.device.place_rows import place_rows

MOST_BYTES = 1 << 21
"""Beyond, the copy engine's few percent are worth more than the gap."""
BLOCK, WARPS = 1024, 8
WORD = 8
ALIGNED = 16
"""Elements: where a matrix begins in its block is a multiple of them."""


@dataclass(frozen=True, eq=False)
class Moves:
    """Matrices of a block and where each goes.

    pairs: a view of the block on the device, and the place, float32, of a row each by itself.   words: the same for a
    kernel, int64 [M, 5] on the device.   most: elements of the largest.
    Facts: holds the places' memory.
    """

    pairs: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    words: torch.Tensor
    most: int

    @staticmethod
    def of(block: torch.Tensor, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Moves:
        """Of views of `block`, each from a multiple of ALIGNED elements on."""
        words = [
            (
                (values.data_ptr() - block.data_ptr()) // values.itemsize,
                *values.shape,
                place.data_ptr(),
                place.stride(0),
            )
            for values, place in pairs
        ]
        made = torch.tensor(words, dtype=torch.int64, device=block.device).reshape(-1, 5)
        return Moves(tuple(pairs), made, max((values.numel() for values, _ in pairs), default=0))


class Copies:
    """Copies between pinned memory and one device.

    most_bytes: what a kernel copies at most. Where it is not given, none on the CPU, on which one is interpreted: only
    one thread at a time may do that.
    """

    def __init__(self, device: torch.device, most_bytes: int | None = None) -> None:
        on_host = device.type == "cpu"
        self._most_bytes = (0 if on_host else MOST_BYTES) if most_bytes is None else most_bytes
        compiled = InterpretedFunction if on_host else triton.jit
        self._kernel: Any = compiled(copy_words)
        self._place_rows: Any = compiled(place_rows)

    def bring(self, host: torch.Tensor, device: torch.Tensor, cleared: torch.Tensor) -> None:
        """Enqueue `device = host` and `cleared = 0`.

        Shapes: host, device uint8, as long as each other and a multiple of 8; cleared int64, at most BLOCK.
        """
        if host.numel() > self._most_bytes:
            device.copy_(host, non_blocking=True)
            cleared.zero_()
            return
        self._copy(host, device, cleared, cleared.numel())

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Enqueue `target = source`, one of them on the host. Shapes: as of `bring`."""
        if source.numel() > self._most_bytes:
            target.copy_(source, non_blocking=True)
            return
        self._copy(source, target, target.view(torch.int64), 0)

    def place(self, host: torch.Tensor, device: torch.Tensor, moves: Moves) -> None:
        """Enqueue a copy of each matrix of `host` to its place. Facts: what `device` holds afterwards is not said.

        Shapes: host, device as of `bring`, device the block that the moves are of.
        """
        if host.numel() > self._most_bytes:
            device.copy_(host, non_blocking=True)
            for values, place in moves.pairs:
                place.copy_(values)
            return
        grid = (-(-moves.most // BLOCK), len(moves.pairs))
        if all(grid):
            self._place_rows[grid](host.view(torch.float32), moves.words, ALIGNED=ALIGNED, BLOCK=BLOCK, num_warps=WARPS)

    def _copy(self, source: torch.Tensor, target: torch.Tensor, cleared: torch.Tensor, num_cleared: int) -> None:
        words = source.numel() // WORD
        grid = (max(1, -(-words // BLOCK)),)
        given = source.view(torch.int64), target.view(torch.int64), words, cleared, num_cleared
        self._kernel[grid](*given, BLOCK=BLOCK, num_warps=WARPS)
