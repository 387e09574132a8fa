"""The fields of one layout packed into buffers, a run at a time. Every function raises where anything is unusual.

Legend: B batch rows. A *run* is a stretch of neighbouring fields in a packed buffer that share dtype and shape; it is
packed by one call.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from colonnade.backends.arena import Room
from colonnade.backends.feed_ragged import RaggedPacker
from colonnade.backends.feed_room import SpareMemory
from colonnade.backends.feed_values import Unusual, arrow_type, is_text
from colonnade.backends.sizes import ShapeBinder
from colonnade.core import dims
from colonnade.core.arrow_columns import ColumnsOf
from colonnade.core.batch import Layout, Packed, Place
from colonnade.core.objects import Empty, gather_arrays, prepare
from colonnade.core.strings import Strings
from colonnade.ir.program import Input
from colonnade.ops.op import torch_dtype

Array = npt.NDArray[Any]
Getter = Callable[[Mapping[str, Any]], tuple[Any, ...]]

NO_BYTES = np.empty(0, np.uint8)
NO_STRINGS = np.zeros(1, np.int64)
NO_STRINGS.flags.writeable = False
TEXT_KINDS = frozenset("OSUT")
"""numpy's kinds of arrays that may hold strings: objects, bytes, text, text of any length."""


@dataclass(frozen=True, slots=True)
class Run:
    """Fields of shape `[B, *trailing]`, `width` values a row each, the first at `start` of their buffer's row."""

    names: tuple[str, ...]
    get: Getter
    dtype: str
    trailing: tuple[int, ...]
    start: int
    width: int

    @property
    def total(self) -> int:
        """Values a batch row of all its fields."""
        return self.width * len(self.names)


class Packer:
    """Packs the fields of one layout."""

    def __init__(self, layout: Layout, inputs: Mapping[str, Input]) -> None:
        self.layout = layout
        self.symbol = str(layout.rows)
        self.runs = _runs(layout, inputs)
        self.ragged = RaggedPacker(layout, inputs)
        self._rows = ShapeBinder((layout.rows,))
        single = any(inputs[name].is_elements for name in layout.fields)
        self.is_elements = single or not dims.is_symbol(layout.rows)
        self.is_made = any(inputs[name].of is not None for name in layout.fields)
        self._spare = SpareMemory({"uint8", "int64", *(t for t in layout.widths if t != "string")})
        prepare()

    def arrays(self, feed: Mapping[str, Any], sizes: dict[str, int], room: Room | None = None) -> tuple[Packed, bool]:
        """From numpy arrays or torch tensors of the declared dtypes; and whether any was a torch tensor."""
        num_rows = len(feed[self.runs[0].names[0]]) if self.runs else self.ragged.num_rows(feed)
        out = self._empty(num_rows, sizes, room)
        is_torch = False
        for run in self.runs:
            values = run.get(feed)
            if out.gather(run, values):
                continue
            kinds = set(map(type, values))
            if kinds == {np.ndarray}:
                if set(map(len, values)) != {num_rows}:
                    raise Unusual("numbers of rows")
                out.write_arrays(run, values)
            elif kinds == {torch.Tensor}:
                out.write_tensors(run, values)
                is_torch = True
            else:
                raise Unusual("mixed or other kinds of values")
        return self.ragged.add(out.packed(), feed, sizes), is_torch or self.ragged.has_tensors(feed)

    def columns(
        self, feed: Mapping[str, pa.Array], num_rows: int, sizes: dict[str, int], room: Room | None = None
    ) -> Packed:
        """From the columns of a record batch."""
        if self.is_elements:
            num_rows = len(feed[self.runs[0].names[0]])
        out = self._empty(num_rows, sizes, room)
        for run in self.runs:
            out.write_columns(run, run.get(feed))
        return self.ragged.add(out.packed(), feed, sizes)

    def decoded(
        self, feed: Mapping[str, Any], num_rows: int, sizes: dict[str, int], room: Room | None = None
    ) -> Packed:
        """From fields of Examples: numpy arrays of the declared dtypes and shapes, Arrow arrays of strings."""
        if self.is_elements:
            num_rows = len(feed[self.runs[0].names[0]])
        out = self._empty(num_rows, sizes, room)
        for run in self.runs:
            values = run.get(feed)
            if run.dtype == "string":
                out.write_columns(run, values)
            elif not out.gather(run, values):
                raise Unusual("not of the declared dtype and shape")
        return self.ragged.add(out.packed(), feed, sizes)

    def exported(
        self, columns: int, plan: Sequence[ColumnsOf], num_rows: int, sizes: dict[str, int], room: Room | None = None
    ) -> Packed:
        """From the columns of an exported record batch; `plan` says by run which."""
        out = self._empty(num_rows, sizes, room)
        for run, found in zip(self.runs, plan, strict=True):
            out.write_exported(run, columns, found)
        return out.packed()

    def matrices(
        self,
        by_dtype: Mapping[str, Array],
        places: Mapping[str, tuple[int, int]],
        sizes: dict[str, int],
        room: Room | None = None,
    ) -> Packed:
        """From one matrix a dtype; `places` are (first column, width) of each field in it."""
        num_rows = len(by_dtype[self.runs[0].dtype])
        out = self._empty(num_rows, sizes, room)
        for run in self.runs:
            first = [places[name][0] for name in run.names]
            columns: slice | list[int] = slice(first[0], first[0] + run.total)
            if first != list(range(first[0], first[0] + run.total, run.width)):
                columns = [start + k for start in first for k in range(run.width)]
            out.write_matrix(run, by_dtype[run.dtype][:, columns])
        return out.packed()

    def _empty(self, num_rows: int, sizes: dict[str, int], room: Room | None) -> _Buffers:
        if not self._rows.bind((num_rows,), sizes) or not self._rows.fits_derived((num_rows,), sizes):
            raise Unusual("number of rows")
        return _Buffers(self.layout, num_rows, self._spare, room)


class _Buffers:
    """The buffers of one packed batch while they are filled."""

    def __init__(self, layout: Layout, num_rows: int, spare: SpareMemory, room: Room | None) -> None:
        self.num_rows = num_rows
        self.spare = spare
        self.room = room
        self.layout = layout
        self.buffers: dict[str, Array] = {}
        self.texts: list[Strings] = []

    def part(self, run: Run) -> Array:
        """The run's place in its buffer, `[B * fields, *trailing]`."""
        buffer = self.buffers.get(run.dtype)
        if buffer is None:
            if self.room is None:
                buffer = self.spare.empty(self.num_rows * self.layout.widths[run.dtype], run.dtype)
            else:
                buffer = self.room.array(self.layout, run.dtype, self.num_rows)
            self.buffers[run.dtype] = buffer
        flat = buffer[self.num_rows * run.start : self.num_rows * (run.start + run.total)]
        return flat.reshape(self.num_rows * len(run.names), *run.trailing)

    def empty(self) -> Empty:
        """What makes the memory of strings: those of all runs at once go where the room has a place for them."""
        return self.spare.empty if self.room is None else self.room.strings(self.layout, self.num_rows)

    def gather(self, run: Run, values: tuple[Any, ...]) -> bool:
        """Write contiguous arrays of exactly the declared dtype and shape; false where any value is another."""
        shape = (self.num_rows, *run.trailing)
        if run.dtype != "string":
            return gather_arrays(values, shape, self.part(run))
        texts = Strings.from_arrays(values, shape, self.empty())
        if texts is not None:
            self.texts.append(texts)
        return texts is not None

    def write_arrays(self, run: Run, arrays: Sequence[Array]) -> None:
        if run.dtype != "string":
            np.concatenate(arrays, out=self.part(run), casting="no")
            return
        # Joined with text, numbers would become text.
        if not {a.dtype.kind for a in arrays} <= TEXT_KINDS:
            raise Unusual("not arrays of strings")
        joined = np.concatenate(arrays)
        if joined.shape != (self.num_rows * len(run.names), *run.trailing):
            raise Unusual("not arrays of the declared shape")
        self.texts.append(Strings.from_objects(joined.reshape(-1).astype(object, copy=False)))

    def write_tensors(self, run: Run, tensors: Sequence[torch.Tensor]) -> None:
        # torch.cat converts dtypes and skips empty vectors, hence the exact checks.
        shape = (self.num_rows, *run.trailing)
        if {t.dtype for t in tensors} != {torch_dtype(run.dtype)} or {t.shape for t in tensors} != {shape}:
            raise Unusual("not tensors of the declared dtype and shape")
        with torch.no_grad():
            torch.cat(tuple(tensors), out=torch.from_numpy(self.part(run)))

    def write_columns(self, run: Run, columns: Sequence[pa.Array]) -> None:
        joined = pa.concat_arrays(columns)
        while pa.types.is_fixed_size_list(joined.type) and not joined.null_count:
            joined = joined.flatten()
        if joined.null_count or len(joined) != self.num_rows * run.total:
            raise Unusual("nulls or another width")
        if run.dtype == "string" and is_text(joined.type):
            self.texts.append(Strings.from_arrow(joined))
        elif joined.type != arrow_type(run.dtype):
            raise Unusual("another type")
        elif run.total == self.layout.widths[run.dtype]:
            self.buffers[run.dtype] = joined.to_numpy(zero_copy_only=True)
        else:
            self.part(run).reshape(-1)[...] = joined.to_numpy(zero_copy_only=True)

    def write_exported(self, run: Run, columns: int, found: ColumnsOf) -> None:
        if run.dtype != "string":
            if not found.numbers(columns, self.num_rows, self.part(run)):
                raise Unusual("nulls")
            return
        texts = found.texts(columns, self.num_rows, run.width, self.empty())
        if texts is None:
            raise Unusual("nulls, or offsets out of order")
        self.texts.append(Strings(*texts))

    def write_matrix(self, run: Run, matrix: Array) -> None:
        fields = matrix.reshape(self.num_rows, len(run.names), run.width).transpose(1, 0, 2)
        if run.dtype == "string":
            self.texts.append(Strings.from_objects(fields.reshape(-1)))
        else:
            self.part(run).reshape(fields.shape)[...] = fields

    def packed(self) -> Packed:
        strings = Strings(NO_BYTES, NO_STRINGS)
        if self.texts:
            strings = self.texts[0] if len(self.texts) == 1 else Strings.joined(self.texts, self.empty())
        return Packed(self.num_rows, self.buffers, strings.data, strings.offsets)


def _runs(layout: Layout, inputs: Mapping[str, Input]) -> tuple[Run, ...]:
    found: list[tuple[Place, tuple[int, ...], list[str]]] = []
    for name, place in sorted(layout.places.items(), key=lambda item: (item[1].dtype, item[1].start)):
        trailing = tuple(int(d) for d in inputs[name].shape[1:])
        if found and found[-1][0].dtype == place.dtype and found[-1][1] == trailing:
            found[-1][2].append(name)
        else:
            found.append((place, trailing, [name]))
    return tuple(Run(tuple(n), _getter(n), p.dtype, t, p.start, p.width) for p, t, n in found)


def _getter(names: Sequence[str]) -> Getter:
    if len(names) == 1:
        (name,) = names
        return lambda feed: (feed[name],)
    return operator.itemgetter(*names)
