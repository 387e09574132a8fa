"""The ragged fields of a request: values stay as they are, the offsets of each offsets input are read once.

Legend: B batch rows, N elements of a ragged field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sympy
import torch

from colonnade.backends.feed_values import Unfit, Unusual, arrow_type, is_text, numpy_dtype, sound
from colonnade.core.batch import Layout, Packed
from colonnade.core.strings import Strings
from colonnade.errors import FeedError, listed
from colonnade.ir.program import Input, batch_dim

Array = npt.NDArray[Any]
Offsets = npt.NDArray[np.int64]


class RaggedPacker:
    """Reads the ragged fields of one layout. Every function raises where anything is unusual."""

    def __init__(self, layout: Layout, inputs: Mapping[str, Input]) -> None:
        self._fields = tuple(
            (name, numpy_dtype(place.dtype), place, str(inputs[name].shape[0])) for name, place in layout.ragged.items()
        )
        self.offsets = tuple(dict.fromkeys(place.offsets for place in layout.ragged.values()))
        self._dtypes = {name: np.dtype(inputs[name].dtype) for name in self.offsets}

    def num_rows(self, feed: Mapping[str, Any]) -> int:
        """The number of batch rows that the first offsets input says."""
        return len(feed[self.offsets[0]]) - 1

    def add(self, packed: Packed, feed: Mapping[str, Any], sizes: dict[str, int]) -> Packed:
        """The same batch with the values of every ragged field and their offsets. Facts: offsets are copies."""
        if not self._fields:
            return packed
        offsets = {name: self._offsets(name, feed[name], packed.rows) for name in self.offsets}
        totals = {name: int(found[-1]) for name, found in offsets.items()}
        values: dict[str, Array | Strings] = {}
        for name, dtype, place, symbol in self._fields:
            found = values[name] = _values(feed[name], dtype, place.dtype)
            num = len(found)
            if num != totals[place.offsets] or sizes.setdefault(symbol, num) != num:
                raise Unusual(name)
        return replace(packed, ragged=values, offsets=offsets)

    def has_tensors(self, feed: Mapping[str, Any]) -> bool:
        """Whether any of the values or offsets is a torch tensor."""
        names = (*self.offsets, *(name for name, *_ in self._fields))
        return any(isinstance(feed[name], torch.Tensor) for name in names)

    def _offsets(self, name: str, value: Any, num_rows: int) -> Offsets:
        array = _numpy(value)
        if array.dtype != self._dtypes[name] or array.shape != (num_rows + 1,):
            raise Unusual(name)
        offsets = np.array(array, np.int64)  # a copy: a caller who writes to it later moves no read out of bounds
        if offsets[0] != 0 or np.any(offsets[1:] < offsets[:-1]):
            raise Unusual(name)
        return offsets


def _numpy(value: Any) -> Array:
    if type(value) is torch.Tensor and value.layout == torch.strided:
        value = value.detach().numpy()
    if type(value) is not np.ndarray:
        raise Unusual("another kind of value")
    return value


def _values(value: Any, dtype: np.dtype[Any], name: str) -> Array | Strings:
    """The elements, `[N]`, without a copy where they lie side by side.   name: of the declared dtype."""
    if isinstance(value, pa.Array):
        return _arrow_values(value, name)
    array = _numpy(value)
    if array.ndim != 1 or array.dtype != dtype:
        raise Unusual("another shape or dtype")
    if name == "string":
        texts = Strings.from_arrays((array,), array.shape)
        return Strings.from_objects(array) if texts is None else texts
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _arrow_values(value: pa.Array, dtype: str) -> Array | Strings:
    sound(value)
    if value.null_count:
        raise Unusual("nulls")
    if dtype == "string" and is_text(value.type):
        return Strings.from_arrow(value)
    if value.type != arrow_type(dtype) or pa.types.is_boolean(value.type):
        raise Unusual("another type")
    return np.asarray(value.to_numpy(zero_copy_only=True))


class RaggedInputs:
    """The ragged inputs of a program, beyond what its layouts read: their rules, and lists in their place."""

    def __init__(self, inputs: Sequence[Input]) -> None:
        by_name = {i.name: i for i in inputs}
        self.fields = {i.name: i.offsets for i in inputs if i.offsets is not None}
        self.names = frozenset(self.fields) | frozenset(self.fields.values())
        self._dtypes = {name: by_name[name].dtype for name in self.fields.values()}
        dims = {i.offsets: batch_dim(i, by_name) for i in inputs if i.offsets is not None}
        self._symbols = {name: dim.name for name, dim in dims.items() if isinstance(dim, sympy.Symbol)}

    def vote(self, votes: dict[str, Counter[int]], arrays: Mapping[str, Array]) -> None:
        """Count the number of rows that every offsets input says, by batch symbol."""
        for name, symbol in self._symbols.items():
            if name in arrays and len(arrays[name]):
                votes.setdefault(symbol, Counter())[len(arrays[name]) - 1] += 1

    def problems(self, arrays: Mapping[str, Array]) -> Iterator[str]:
        """What is wrong with offsets, and with values that do not fit them; all have the declared dtype."""
        good = {}
        for name in dict.fromkeys(self.fields.values()):
            if name not in arrays or arrays[name].ndim != 1:
                continue
            problem = _problem(arrays[name])
            if problem:
                yield f"{name}: {problem}"
            else:
                good[name] = int(arrays[name][-1])
        for field, name in self.fields.items():
            if name in good and field in arrays and arrays[field].ndim == 1 and len(arrays[field]) != good[name]:
                yield f"{field}: has {len(arrays[field])} values, but the offsets {name!r} end at {good[name]}"

    def unlisted(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of a record batch with values and offsets in the place of each list column of a ragged field.

        Errors: FeedError that lists every field whose lists are no valid Arrow array, or whose rows differ in length
        from those of another with its offsets.
        """
        found = dict(columns)
        if not self.fields:
            return found
        first: dict[str, str] = {}
        problems: list[str] = []
        unsound: list[str] = []
        for field, name in self.fields.items():
            column = columns.get(field)
            if name in columns or not _is_list(column):
                continue
            try:
                values, offsets = _unlisted(column)
            except Unfit as error:
                unsound.append(f"{field}: {error}")
                continue
            if name not in first:
                found[name] = offsets.astype(self._dtypes[name])
                first[name] = field
            elif not np.array_equal(found[name], offsets):
                problems.append(f"{field}: its lists differ in length from those of {first[name]!r}")
            if values is not None:
                found[field] = values
        if unsound:
            raise FeedError("lists that lie outside of their values", got=listed(unsound), want="valid Arrow arrays")
        if problems:
            raise FeedError(
                f"{len(problems)} columns of lists do not share their offsets",
                got=listed(problems),
                want="lists of equal lengths in each row, as the fields share one input of offsets",
            )
        return found


def _problem(offsets: Array) -> str:
    """What is wrong with a vector of offsets alone; nothing where it is right."""
    if len(offsets) == 0:
        return "is empty, want B + 1 offsets: at least one"
    if offsets[0] != 0:
        return f"[0] is {offsets[0]}, want 0"
    drops = np.flatnonzero(offsets[1:] < offsets[:-1])
    if len(drops) == 0:
        return ""
    at = int(drops[0])
    return f"[{at + 1}] is {offsets[at + 1]}, less than {offsets[at]} before it"


def _is_list(column: object) -> bool:
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        return False
    return bool(pa.types.is_list(column.type) or pa.types.is_large_list(column.type))


def _unlisted(column: pa.Array | pa.ChunkedArray) -> tuple[pa.Array | None, Offsets]:
    """The values of a column of lists, and their offsets; no values where a list is missing.

    Errors: Unfit where the offsets lie outside the values, or go down.
    """
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
        try:
            chunk.validate()
        except pa.ArrowException as error:
            raise Unfit(f"is no valid Arrow array: {error}") from error
        ends = np.asarray(chunk.offsets.to_numpy())
        if np.any(ends[1:] < ends[:-1]):
            raise Unfit("has offsets that go down")
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    offsets = np.asarray(array.offsets.to_numpy(), np.int64)
    return (None if array.null_count else array.flatten()), offsets - offsets[0]
