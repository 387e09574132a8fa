"""The inputs of a request that are made of others: their elements, and choices of elements of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from colonnade.backends.feed_values import Unusual
from colonnade.backends.sizes import ShapeBinder
from colonnade.core import dims
from colonnade.ir.program import Input, Program

Offsets = npt.NDArray[np.int64]


class ElementInputs:
    """Adds them to a request: the values of an input row-major, without a copy where they lie side by side."""

    def __init__(self, program: Program) -> None:
        made = [i for i in program.inputs if i.of is not None]
        self._items = tuple(
            (i.name, i.of, ShapeBinder(program.input(i.of).shape)) for i in made if i.of is not None and not i.among
        )
        groups = dict.fromkeys(i.among for i in made if i.among)
        self._choices = tuple(ChoiceInputs(program, among) for among in groups)
        self.sources = frozenset(of for _, of, _ in self._items)
        self.sources |= {name for choices in self._choices for name in choices.sources}

    def __bool__(self) -> bool:
        return bool(self._items or self._choices)

    def added(self, feed: Mapping[str, Any], sizes: dict[str, int]) -> Mapping[str, Any]:
        """The request with them; the dims of what they are made of go to `sizes`. Raises where anything is unusual."""
        if not self:
            return feed
        found = dict(feed)
        for name, of, binder in self._items:
            found[name], shape = _flat(feed[of], of)
            if not binder.bind(shape, sizes):
                raise Unusual(of)
        for choices in self._choices:
            found |= choices.made(feed, sizes)
        return found


class ChoiceInputs:
    """The inputs that hold each choice of an element of each of some fields, row by row, the last field's fastest.

    Legend: B batch rows, N choices, K fields.
    """

    def __init__(self, program: Program, among: tuple[str, ...]) -> None:
        self._fields = tuple((program.input(name), ShapeBinder(program.input(name).shape)) for name in among)
        made = [i for i in program.inputs if i.among == among]
        self._places = {i.name: i.place for i in made if i.offsets is not None}
        (self._offsets,) = {i.offsets for i in made if i.offsets is not None}
        self.sources = frozenset(among) | {i.offsets for i, _ in self._fields if i.offsets is not None}

    def made(self, feed: Mapping[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
        """The inputs and their offsets; the fields' dims go to `sizes`. Raises where anything is unusual."""
        flat: list[Any] = []
        starts_KB: list[Offsets] = []
        lengths_KB: list[Offsets] = []
        for item, binder in self._fields:
            values, starts, lengths = _rows(item, binder, feed, sizes)
            flat.append(values)
            starts_KB.append(starts)
            lengths_KB.append(lengths)
        if len(set(map(len, lengths_KB))) != 1:
            raise Unusual("numbers of rows")
        counts_B = np.prod(np.stack(lengths_KB), 0, dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(counts_B)])
        rows_N = np.repeat(np.arange(len(counts_B)), counts_B)
        rest_N = np.arange(offsets[-1]) - offsets[rows_N]
        places: list[Offsets] = []
        for starts, lengths in zip(starts_KB[::-1], lengths_KB[::-1], strict=True):
            rest_N, place_N = np.divmod(rest_N, lengths[rows_N])
            places.insert(0, starts[rows_N] + place_N)
        found = {name: _taken(flat[k], places[k]) for name, k in self._places.items()}
        return {**found, self._offsets: offsets}


def _rows(
    item: Input, binder: ShapeBinder, feed: Mapping[str, Any], sizes: dict[str, int]
) -> tuple[Any, Offsets, Offsets]:
    """A field's values, flat, and where each row begins and how long it is."""
    values, shape = _flat(feed[item.name], item.name)
    if not binder.bind(shape, sizes):
        raise Unusual(item.name)
    if item.offsets is None:
        width = dims.prod(item.shape[1:])
        assert isinstance(width, int)
        return values, np.arange(shape[0], dtype=np.int64) * width, np.full(shape[0], width)
    offsets = np.asarray(feed[item.offsets], np.int64)
    lengths = np.diff(offsets)
    if offsets.ndim != 1 or not len(offsets) or offsets[0] or offsets[-1] != len(values) or (lengths < 0).any():
        raise Unusual(item.offsets)
    return values, offsets[:-1], lengths


def _taken(values: Any, places: Offsets) -> Any:
    if isinstance(values, pa.Array):
        return values.take(pa.array(places))
    return values[torch.from_numpy(places)] if isinstance(values, torch.Tensor) else values[places]


def _flat(value: Any, name: str) -> tuple[Any, tuple[int, ...]]:
    """All elements as a vector, and the shape they had."""
    if isinstance(value, np.ndarray | torch.Tensor):
        return value.reshape(-1), tuple(value.shape)
    if not isinstance(value, pa.Array):
        raise Unusual(name)
    array = value
    shape = [len(array)]
    while pa.types.is_fixed_size_list(array.type) and not array.null_count:
        shape.append(array.type.list_size)
        array = array.flatten()
    return array, tuple(shape)
