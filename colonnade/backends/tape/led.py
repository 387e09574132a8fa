"""A tape with another job in front: what writes a tile's operands runs right before the steps that read them.

The operands so written need no memory of the batch's size: each thread has room for the rows of a tile, which stay in
its caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.memory import address_of
from colonnade.backends.pool import POOL
from colonnade.backends.tape import words as w
from colonnade.backends.tape.products import ROWS
from colonnade.backends.tape.tape import ALIGNMENT, HEADER, PAIR, Context, TapeCall, place_tensor

Array = npt.NDArray[Any]
OWN_BYTES, LEAST_TILE = 1 << 19, 36
"""Of a CPU's second cache, what the written rows of a tile may take; and rows that a tile may have in any case."""
UNEVEN = 1024
"""Bytes of which the rows of a written operand are no multiple: they would fall on few sets of a cache."""


def stride_of(width: int) -> int:
    """Bytes from row to row of a written operand of so many float32."""
    size = -(-4 * width // ALIGNMENT) * ALIGNMENT
    return size if size % UNEVEN else size + ALIGNMENT


class LedTape:
    """A tape whose operands `written` are written by a leading job, a tile at a time.

    written: where in that job's context the address of each lies, by name. Units: bytes.   tile: its most rows.
    Facts: any thread may use it at any time, with a `LedCall` of its own.
    """

    def __init__(self, call: TapeCall, written: Mapping[str, int]) -> None:
        self.tape, self.code = call.tape, call.code
        self.made = tuple((shape, np.dtype(str(dtype).removeprefix("torch."))) for _, shape, dtype in self.tape.results)
        self.read = [(k, *form) for k, form in enumerate(self.tape.operands) if form[0] not in written]
        self.strides: list[tuple[int, int]] = []
        offset, entries = self.tape.scratch, [0]
        for k, (name, shape, _) in enumerate(self.tape.operands):
            if name in written:
                stride = stride_of(shape[0])
                word = w.BASES + w.BASE_BYTES * (w.TENSORS + k)
                self.strides.append((word // 8 + 1, stride))
                entries += [word, written[name], offset]
                offset += self.tape.tile * stride
        room = OWN_BYTES // max(1, sum(stride for _, stride in self.strides))
        self.tile = min(self.tape.tile, max(LEAST_TILE, room - room % ROWS))
        entries[0] = len(self.strides)
        self.table = np.array(entries, np.int64)
        self.scratch = offset


class LedCall(Context):
    """The contexts of one call at a time. lead: contexts of the leading job, one a row, for each thread."""

    def __init__(self, led: LedTape, lead: Array) -> None:
        tape = led.tape
        super().__init__(tape, led.code, len(tape.operands) + len(tape.results), led.scratch)
        self._led, self._lead = led, lead
        self.words[w.LEAD // 8] = lead.ctypes.data
        self.words[w.LEAD_BYTES // 8] = lead.strides[0]
        self.words[w.FILLED // 8] = led.table.ctypes.data
        for word, stride in led.strides:
            self.words[word] = stride

    def run(self, rows: int, tensors: Mapping[str, torch.Tensor], helpers: int, tile: int) -> list[Array]:
        """The results, once the leading job and the tape have been done for all rows.

        Errors: ShapeError where an operand does not have the form that the program says.
        """
        led, words = self._led, self.words
        words[w.ROWS // 8] = rows
        words[w.NEXT // 8] = words[w.SEAT // 8] = 0
        words[w.TILE_ROWS // 8] = tile
        held: list[torch.Tensor] = []
        for k, name, shape, dtype in led.read:
            place_tensor(words, HEADER + PAIR * (w.TENSORS + k), tensors[name], (name, shape, dtype), rows, held)
        made = [np.empty((rows, *shape), dtype) for shape, dtype in led.made]
        at = HEADER + PAIR * (w.TENSORS + len(led.tape.operands))
        for array in made:
            words[at] = address_of(array)
            words[at + 1] = array.strides[0]
            at += PAIR
        self.contexts[:, w.LED_TICKS // 8] = self.contexts[:, w.TICKS // 8] = 0
        led.code.run(self.address, POOL.address, helpers)
        return made

    @property
    def share(self) -> float:
        """The part of the threads' time that the leading job took in the last call."""
        led = int(self.contexts[:, w.LED_TICKS // 8].sum())
        ticks = led + int(self.contexts[:, w.TICKS // 8].sum())
        return led / ticks if ticks > 0 else 0.0
