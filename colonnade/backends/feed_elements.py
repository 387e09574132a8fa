"""The inputs of a request that are made of others: elements, places of rows, strings, and choices of elements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from colonnade.backends.feed_values import Unusual, as_array
from colonnade.backends.sizes import ShapeBinder
from colonnade.core.expr import Apply, Expr, fields_of
from colonnade.core.rows import falls
from colonnade.errors import FeedError
from colonnade.ir.made import evaluated
from colonnade.ir.program import Input, Program
from colonnade.ops.graph.split_rows import SplitRows
from colonnade.ops.split import Split

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Source:
    """An input that others are made of. places: (name, start, stop) of some places of its rows."""

    name: str
    binder: ShapeBinder
    elements: tuple[str, ...]
    places: tuple[tuple[str, int, int], ...]


class ElementInputs:
    """Adds them to a request: the values of an input row-major, without a copy where they lie side by side."""

    def __init__(self, program: Program) -> None:
        made = [i for i in program.inputs if i.of is not None and i.by is None and not i.among]
        self._texts = tuple((i, i.by) for i in program.inputs if i.by is not None)
        self._read = {n: ShapeBinder(program.input(n).shape) for _, by in self._texts for n in fields_of(by)}
        groups = dict.fromkeys((i.among, i.splits) for i in program.inputs if i.among)
        self._choices = tuple(ChoiceInputs(program, among, splits) for among, splits in groups)
        self.sources = frozenset(name for i in program.inputs for name in i.sources)
        self.sources |= {name for choices in self._choices for name in choices.sources}
        self._sources = tuple(
            _Source(
                of,
                ShapeBinder(program.input(of).shape),
                tuple(i.name for i in made if i.of == of and i.places is None),
                tuple((i.name, *i.places) for i in made if i.of == of and i.places is not None),
            )
            for of in dict.fromkeys(str(i.of) for i in made)
        )

    def __bool__(self) -> bool:
        return bool(self.sources)

    def added(self, feed: Mapping[str, Any], sizes: dict[str, int]) -> Mapping[str, Any]:
        """The request with them; the dims of what they are made of go to `sizes`. Raises where anything is unusual."""
        if not self.sources:
            return feed
        found = dict(feed)
        texts = {name: self._strings(name, feed[name], sizes) for name in self._read}
        split: dict[Expr, Any] = {}
        for item, by in self._texts:
            if by not in split:
                split[by] = evaluated(by, texts)
                _tell_places(item, by, split[by].shape, sizes)
            found[item.name] = split[by].reshape(-1) if len(item.shape) == 1 else split[by]
        for source in self._sources:
            value = feed[source.name]
            flat, shape = _flat(value, source.name)
            if not source.binder.bind(shape, sizes):
                raise Unusual(source.name)
            for name in source.elements:
                found[name] = flat
            if source.places:
                made = (
                    _cut_arrow(flat, shape, source.places) if isinstance(flat, pa.Array) else _cut(value, source.places)
                )
                found.update(made)
        for choices in self._choices:
            found |= choices.made(feed, sizes)
        return found

    def _strings(self, name: str, value: Any, sizes: dict[str, int]) -> np.ndarray[Any, Any]:
        """An input's strings as an object array of bytes."""
        texts = as_array(value, "string")
        if not self._read[name].bind(texts.shape, sizes):
            raise Unusual(name)
        return texts


def _tell_places(item: Input, by: Expr, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    """How many tokens the longest row has goes to `sizes`. Errors: FeedError where it is to be as long as another."""
    op = by.op if isinstance(by, Apply) else None
    if not isinstance(op, SplitRows) or op.width is not None:
        return
    if sizes.setdefault(op.symbol, shape[1]) != shape[1]:
        raise FeedError(
            "rows of tokens that are joined place by place differ in width",
            where=f"input {item.of!r}",
            got=f"the longest row has {shape[1]} tokens",
            want=f"{sizes[op.symbol]}, as in others",
        )


class ChoiceInputs:
    """The inputs that hold each choice of an element of each of some fields, row by row, the last field's fastest.

    Legend: B batch rows, N choices, K fields.
    """

    def __init__(self, program: Program, among: tuple[str, ...], splits: tuple[bytes, ...]) -> None:
        separators = splits or (b"",) * len(among)
        fields = [program.input(name) for name in among]
        self._fields = tuple((f, ShapeBinder(f.shape), by) for f, by in zip(fields, separators, strict=True))
        made = [i for i in program.inputs if (i.among, i.splits) == (among, splits)]
        self._places = {i.name: (i.place, i.numbered) for i in made if i.offsets is not None}
        (self._offsets,) = {i.offsets for i in made if i.offsets is not None}
        self.sources = frozenset(among) | {i.offsets for i in fields if i.offsets is not None}

    def made(self, feed: Mapping[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
        """The inputs and their offsets; the fields' dims go to `sizes`. Raises where anything is unusual."""
        flat: list[Any] = []
        starts_KB: list[Offsets] = []
        lengths_KB: list[Offsets] = []
        for item, binder, separator in self._fields:
            values, starts, lengths = _rows(item, binder, feed, sizes)
            if separator:
                values, starts, lengths = _tokens(values, separator)
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
        numbers: list[Offsets] = []
        for starts, lengths in zip(starts_KB[::-1], lengths_KB[::-1], strict=True):
            rest_N, number_N = np.divmod(rest_N, lengths[rows_N])
            numbers.insert(0, number_N)
            places.insert(0, starts[rows_N] + number_N)
        found = {
            name: numbers[k] if numbered else _taken(flat[k], places[k]) for name, (k, numbered) in self._places.items()
        }
        return {**found, self._offsets: offsets}


def _rows(
    item: Input, binder: ShapeBinder, feed: Mapping[str, Any], sizes: dict[str, int]
) -> tuple[Any, Offsets, Offsets]:
    """A field's values, flat, and where each row begins and how long it is."""
    values, shape = _flat(feed[item.name], item.name)
    if not binder.bind(shape, sizes):
        raise Unusual(item.name)
    if item.offsets is None:
        width = math.prod(shape[1:])
        return values, np.arange(shape[0], dtype=np.int64) * width, np.full(shape[0], width)
    offsets = np.asarray(feed[item.offsets], np.int64)
    if offsets.ndim != 1 or not len(offsets) or offsets[0] or offsets[-1] != len(values) or falls(offsets).any():
        raise Unusual(item.offsets)
    return values, offsets[:-1], np.diff(offsets)


def _tokens(values: Any, separator: bytes) -> tuple[Any, Offsets, Offsets]:
    """The tokens of one string a row, where those of each row begin, and how many they are."""
    tokens, counts = Split(separator).expand(as_array(values, "string"))
    lengths = counts.numpy()
    return tokens, np.cumsum(lengths) - lengths, lengths


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


def _cut(value: Any, places: tuple[tuple[str, int, int], ...]) -> Mapping[str, np.ndarray[Any, Any] | torch.Tensor]:
    """Matrices `[B, stop - start]`, each contiguous. Single places are rows of one transposed copy."""
    is_torch = isinstance(value, torch.Tensor)
    single = sum(stop - start == 1 for _, start, stop in places)
    turned = None if single < 2 else value.T.contiguous() if is_torch else np.ascontiguousarray(value.T)
    found = {}
    for name, start, stop in places:
        if turned is not None and stop - start == 1:
            found[name] = turned[start].reshape(-1, 1)
        else:
            part = value[:, start:stop]
            found[name] = part.contiguous() if is_torch else np.ascontiguousarray(part)
    return found


def _cut_arrow(
    flat: pa.Array, shape: tuple[int, ...], places: tuple[tuple[str, int, int], ...]
) -> Mapping[str, pa.Array]:
    """The same of the elements of a matrix."""
    rows, width = shape
    found = {}
    for name, start, stop in places:
        chosen = (np.arange(rows)[:, None] * width + np.arange(start, stop)).reshape(-1)
        taken = flat.take(pa.array(chosen))
        found[name] = taken if stop - start == 1 else pa.FixedSizeListArray.from_arrays(taken, stop - start)
    return found
