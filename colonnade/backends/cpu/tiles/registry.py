"""The registry of tiles: how a column op is encoded as steps, and the numba functions that run them.

A step is four words: the address of its tile and three parameters. A tile is `tile(step, source, n, target)`: it reads
`n` elements at `source` and writes `n` results at `target`; a filter writes 0 into the mask bytes of those it drops.
Tiles are compiled one by one and called by address: a new op costs no compile of the engine.

Facts: how elements lie in memory, by dtype: float32 and float64 packed; int32 and int64 both as int64; a string as two
words, the address of its bytes and their number. Tiles of two operands read pairs of integers, 16 bytes each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from colonnade.errors import GraphError
from colonnade.ops.op import ColumnOp

F = TypeVar("F", bound=Callable[..., Any])
Tile = Callable[[int, int, int, int], None]
"""Step, source, n, target."""

JOIN = 0
"""In the place of a tile's address: the engine makes pairs of the values and those of a second operand."""
JOINED = "join"
"""The name of that step; parameters: address of the operand's chain, or 0 for places in rows, and the width of rows."""
STEP_WORDS = 4
STEP_BYTES = 8 * STEP_WORDS
ALIGNMENT = 64
LEAST_CHUNK, MOST_CHUNK = 1 << 16, 1 << 22
"""Bytes of memory that constants share."""

MAPS: dict[str, Tile] = {}
FILTERS: dict[str, Tile] = {}
LOWERINGS: dict[type[ColumnOp], Callable[..., list[Step]]] = {}


@dataclass(frozen=True)
class Step:
    """One tile call: the name of the tile and up to three parameters."""

    tile: str
    parameters: tuple[int, ...] = ()


class Memory:
    """Constant arrays that kernels read by address; they live as long as this object.

    Facts: arrays lie side by side in the order in which they came: what is read together shares pages, and spreads over
    a cache, where allocations of their own, or files' pages, would begin at the same places of it.
    """

    def __init__(self) -> None:
        self._kept: list[npt.NDArray[np.uint8]] = []
        self._known: dict[bytes, int] = {}
        self._used = self._size = 0

    def add(self, array: npt.NDArray[Any]) -> int:
        """The address of a copy of the array, a multiple of 64; equal arrays share one."""
        key = array.tobytes()
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.hold(array)
        return found

    def hold(self, array: npt.NDArray[Any]) -> int:
        """The address of a copy of the array, a multiple of 64."""
        return int(self.copy(array).__array_interface__["data"][0])

    def copy(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A contiguous copy of the array at a multiple of 64, with as many zeros behind it."""
        place = self._take(array.nbytes)[: array.nbytes]
        made = place.view(array.dtype).reshape(array.shape)
        made[...] = array
        return made

    def _take(self, num_bytes: int) -> npt.NDArray[np.uint8]:
        size = -(-num_bytes // ALIGNMENT) * ALIGNMENT + ALIGNMENT
        if self._used + size > self._size:
            self._size = max(size, min(2 * self._size, MOST_CHUNK), LEAST_CHUNK)
            raw = np.empty(self._size + ALIGNMENT, np.uint8)  # from some size on numpy asks for large pages
            raw.fill(0)
            skip = -int(raw.__array_interface__["data"][0]) % ALIGNMENT
            self._kept.append(raw[skip : skip + self._size])
            self._used = 0
        self._used += size
        return self._kept[-1][self._used - size : self._used]


def tile(function: F) -> F:
    """Register the tile of a map op under the function's name."""
    MAPS[function.__name__] = function
    return function


def filter_tile(function: F) -> F:
    """Register the tile of a filter op under the function's name."""
    FILTERS[function.__name__] = function
    return function


def lowering(op: type[ColumnOp]) -> Callable[[F], F]:
    """Register how an op is encoded: `lower(op, dtype, memory) -> steps`."""

    def register(function: F) -> F:
        LOWERINGS[op] = function
        return function

    return register


def lower(op: ColumnOp, dtype: str, memory: Memory) -> list[Step]:
    """The steps of one op on elements of a dtype. Errors: GraphError on an op without a tile."""
    found = LOWERINGS.get(type(op))
    if found is None:
        raise GraphError("this op has no tile in the cpu backend", got=op.name, want=", ".join(sorted(known())))
    return found(op, dtype, memory)


def known() -> list[str]:
    """The names of the ops that have tiles."""
    return [op.name for op in LOWERINGS]


def encode(steps: Sequence[Step], addresses: Mapping[str, int], memory: Memory) -> int:
    """The address of the steps' words, given those of the compiled tiles."""
    words = np.zeros((len(steps), STEP_WORDS), np.int64)
    for row, step in zip(words, steps, strict=True):
        row[0] = JOIN if step.tile == JOINED else addresses[step.tile]
        row[1 : 1 + len(step.parameters)] = step.parameters
    return memory.add(words) if steps else 0
