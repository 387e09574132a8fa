"""What a tape is made of while it is made: values, where they lie, and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy
import torch

from colonnade.backends.lanes import LANES
from colonnade.backends.tape import words as w
from colonnade.backends.tape.products import PANEL
from colonnade.backends.tape.zeros import Ranges
from colonnade.core.dims import Dim

Array = npt.NDArray[Any]
ALIGNMENT = 64
STEP_WORDS = w.STEP_BYTES // 8


class Unfit(Exception):
    """An instruction, or its operands, that no step takes."""


@dataclass(frozen=True, eq=False)
class Value:
    """A value of the dense rest. constant: what it is where no request changes it."""

    name: str
    shape: tuple[Dim, ...]
    dtype: torch.dtype
    constant: torch.Tensor | None = None

    @property
    def rows(self) -> sympy.Symbol:
        """The symbol of its rows. Errors: Unfit where it is not `[B]` or `[B, w]`."""
        if self.constant is not None or not 0 < len(self.shape) < 3 or not isinstance(self.shape[0], sympy.Symbol):
            raise Unfit
        if not isinstance(self.width, int) or self.width == 0:
            raise Unfit
        return self.shape[0]

    @property
    def width(self) -> Any:
        """Elements a row; of a constant, all of them."""
        if self.constant is not None:
            return self.constant.numel()
        return self.shape[1] if len(self.shape) > 1 else 1


@dataclass(eq=False)
class Home:
    """Memory of a value: a tensor of the request (`tensor`), a constant (`address`), or rows that a step writes.

    width, itemsize: of its rows.   result: whether its rows are a result of the tape.   at: its base and offset.
    """

    width: int
    itemsize: int
    tensor: str | None = None
    address: int | None = None
    result: int | None = None
    at: tuple[int, int] = (0, 0)


@dataclass(frozen=True, eq=False)
class Place:
    """Where a value of `width` elements a row lies in its home.

    each: whether every row has its own.   one: whether one element stands for all.
    """

    home: Home
    width: int
    offset: int = 0
    each: bool = True
    one: bool = False


@dataclass(frozen=True, eq=False)
class Step:
    """A step and its operands, the result first; each with its pitch."""

    code: int
    width: int
    operands: tuple[tuple[Place, int], ...]
    inner: int = 0
    relu: bool = False
    added: bool = False

    @property
    def target(self) -> Place:
        """Where its result lies."""
        return self.operands[0][0]

    def with_relu(self) -> Step:
        """The same, with 0 for negative results."""
        return replace(self, relu=True)


@dataclass(frozen=True)
class Skip:
    """A product whose zeros are not multiplied.   of: its operand.   ranges: of the operand's `width` elements."""

    product: str
    of: str
    width: int
    ranges: Ranges


@dataclass(eq=False)
class Part:
    """The steps of one tape so far.

    work: of a row, in multiplications or as long.   most_weights: elements of a matrix that it may hold.   tile: most
    rows that pass through all steps at a time.   zeros: elements that are zero in most rows, of values by name.
    """

    most_weights: int = 1 << 15
    zeros: Mapping[str, Ranges] = field(default_factory=dict)
    rows: sympy.Symbol | None = None
    work: int = 0
    tile: int = w.TILE
    steps: list[Step] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)
    constants: list[Array] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)

    def accept(self, values: Sequence[Value]) -> None:
        """Errors: Unfit where values have other rows than the tape."""
        rows = {v.rows for v in values} | ({self.rows} if self.rows is not None else set())
        if len(rows) != 1:
            raise Unfit
        (self.rows,) = rows

    def place(self, value: Value) -> Place:
        """Where a value lies."""
        if value.name not in self.places:
            if value.constant is not None:
                self.places[value.name] = self.constant(value.constant)
            else:
                self.places[value.name] = Place(Home(value.width, value.dtype.itemsize, tensor=value.name), value.width)
        return self.places[value.name]

    def constant(self, value: torch.Tensor) -> Place:
        """Memory that holds a constant."""
        if value.dtype.itemsize not in (4, 8) or value.numel() == 0:
            raise Unfit
        held = value.detach().contiguous().reshape(-1).numpy()
        return Place(self._held(held), held.size, each=False, one=held.size == 1)

    def matrix(self, value: torch.Tensor) -> Place:
        """Memory that holds a matrix in panels of sixteen columns, or eight where that is enough for the last."""
        rows = value.detach().numpy()
        panels = []
        for first in range(0, rows.shape[1], PANEL):
            columns = rows[:, first : first + PANEL]
            panel = np.zeros((len(rows), PANEL if columns.shape[1] > LANES else LANES), np.float32)
            panel[:, : columns.shape[1]] = columns
            panels.append(panel.reshape(-1))
        return Place(self._held(np.concatenate(panels)), rows.shape[1], each=False)

    def bias(self, value: torch.Tensor) -> Place:
        """Memory that holds a vector, filled up with zeros to a whole number of lanes."""
        padded = np.zeros(-(-len(value) // LANES) * LANES, np.float32)
        padded[: len(value)] = value.detach().numpy()
        return Place(self._held(padded), len(value), each=False)

    def _held(self, array: Array) -> Home:
        raw = np.zeros(array.nbytes + ALIGNMENT, np.uint8)
        skip = -raw.ctypes.data % ALIGNMENT
        raw[skip : skip + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.constants.append(raw)
        return Home(array.size, array.itemsize, address=raw.ctypes.data + skip)

    def add(
        self, code: int, name: str, width: int, *operands: Place, inner: int = 0, relu: bool = False, wide: bool = False
    ) -> None:
        """A step whose result is a value of that name."""
        place = Place(Home(width, 8 if wide else 4), width)
        self.places[name] = place
        self.put(code, width, place, *operands, inner=inner, relu=relu)

    def put(
        self,
        code: int,
        width: int,
        target: Place,
        *operands: Place,
        inner: int = 0,
        relu: bool = False,
        added: bool = False,
    ) -> None:
        """A step that writes where something lies already."""
        taken = tuple((p, 0 if p.one or (p.width == 1 and width > 1) else p.home.itemsize) for p in operands)
        self.steps.append(Step(code, width, ((target, target.home.itemsize), *taken), inner, relu, added))

    def settle(self, tensors: Sequence[str], results: Sequence[Value]) -> int:
        """Give every home its place; gives the bytes of scratch memory.

        tensors: the operands of the tape by name; its results come after them.
        """
        for k, value in enumerate(results):
            place, home = self.places[value.name], self.places[value.name].home
            ours = home.tensor is None and home.address is None and home.result is None
            if ours and home.width == value.width:
                home.result = k
            else:
                made = Home(value.width, value.dtype.itemsize, result=k)
                self.put(w.COPY if made.itemsize == 4 else w.COPY_WIDE, value.width, Place(made, value.width), place)
        index, scratch = {name: w.TENSORS + k for k, name in enumerate(tensors)}, 0
        homes = {id(place.home): place.home for step in self.steps for place, _ in step.operands}
        for home in homes.values():
            if home.tensor is not None:
                home.at = index[home.tensor], 0
            elif home.address is not None:
                home.at = w.CONSTANTS, home.address
            elif home.result is not None:
                home.at = w.TENSORS + len(tensors) + home.result, 0
            else:
                home.at = w.SCRATCH, scratch
                scratch += -(-self.tile * home.width * home.itemsize // ALIGNMENT) * ALIGNMENT
        return scratch

    def words(self) -> Array:
        """The steps in memory, once every home has its place."""
        table = np.zeros((len(self.steps), STEP_WORDS), np.int64)
        for row, step in zip(table, self.steps, strict=True):
            row[w.CODE // 8], row[w.WIDTH // 8] = step.code, step.width
            row[w.INNER // 8], row[w.RELU // 8], row[w.ADDED // 8] = step.inner, step.relu, step.added
            for k, (place, pitch) in enumerate(step.operands):
                base, offset = place.home.at
                stride = place.home.width * place.home.itemsize if place.each else 0
                at = (w.OPERANDS + k * w.OPERAND_BYTES) // 8
                row[at : at + 4] = base, offset + place.offset, stride, pitch
        return table.reshape(-1)
