"""A batch of fields on a device: packed on the host and copied at once, or tensors that lie there already.

Legend: B batch rows, F fields, N elements of a field.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.cpu import transform as t
from colonnade.backends.gpu.columns import TEXT_PADDING
from colonnade.backends.gpu.transform import words as w
from colonnade.backends.memory import address_of
from colonnade.core.ragged import Ragged
from colonnade.core.stored import is_stored
from colonnade.core.strings import Strings
from colonnade.errors import FeedError, listed
from colonnade.frontends.feature import FieldSpec
from colonnade.train.features.placed import TORCH, Placed

Words = npt.NDArray[np.int64]
ITEMS = {"int32": 4, "int64": 8, "float32": 4, "float64": 8, "bool": 1, "string": 8}
NARROW = {"int32": t.LOAD_INT32, "bool": t.LOAD_BOOL}
ALIGNMENT = 16


@dataclass(frozen=True, eq=False)
class DeviceStrings:
    """Strings on a device: string e is `data[offsets[e] : offsets[e + 1]]`.

    Shapes: data uint8, whose memory begins at a multiple of 8 bytes; `TEXT_PADDING` bytes behind the last string can
    be read; offsets int64 [N + 1].
    """

    data: torch.Tensor
    offsets: torch.Tensor

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @staticmethod
    def of(strings: Strings, device: torch.device) -> DeviceStrings:
        """A copy on a device."""
        first, last = int(strings.offsets[0]), int(strings.offsets[-1])
        data = np.zeros(last - first + TEXT_PADDING, np.uint8)
        data[: last - first] = strings.data[first:last]
        return DeviceStrings(torch.from_numpy(data).to(device), torch.from_numpy(strings.offsets - first).to(device))


@dataclass(frozen=True, eq=False)
class Held:
    """Fields on a device, as the header says them.

    words: [F, VALUE_WORDS], addresses.   offsets, weights: of each field, on the device.   alive: what addresses point
    into.
    """

    words: Words
    rows: int
    offsets: Sequence[tuple[torch.Tensor, ...]]
    weights: Sequence[torch.Tensor | None]
    alive: Sequence[Any]

    @cached_property
    def outer(self) -> Words:
        """[F], the address of the offsets that count each field's lists; 0 where it has none."""
        return np.array([ends[0].data_ptr() if len(ends) == 2 else 0 for ends in self.offsets], np.int64)


class Packing:
    """Where the fields of a batch on the host go in one block, from byte `first` on. Units: bytes.

    Facts: dense fields without weights bring no offsets; they share those of their width.
    """

    def __init__(self, specs: Sequence[FieldSpec], placed: Placed, first: int) -> None:
        self.rows = placed.rows
        self._specs = specs
        table = placed.words[: len(specs)]
        self._pieces: list[tuple[int, int, int]] = []
        self._alive: list[Any] = [placed]
        self.words = np.zeros((len(specs), w.VALUE_WORDS), np.int64)
        self.words[:, w.COUNT], self.words[:, w.BAGS] = table[:, t.COUNT // 8], table[:, t.BAGS // 8]
        self._end = first
        self._values(table.tolist(), placed)
        self._offsets_at, self._offset_counts = self._offsets(table.tolist())
        self._weights_at, self._weight_counts = self._weights(table.tolist())
        self.num_bytes = -(-(self._end + TEXT_PADDING) // ALIGNMENT) * ALIGNMENT

    def _take(self, source: int, size: int, shift: int = 0) -> int:
        """Room for bytes that are copied: `shift` bytes behind a multiple of ALIGNMENT."""
        at = -(-self._end // ALIGNMENT) * ALIGNMENT + shift
        self._end = at + size
        if size:
            self._pieces.append((at, source, size))
        return at

    def _values(self, table: list[list[int]], placed: Placed) -> None:
        for k, (spec, row) in enumerate(zip(self._specs, table, strict=True)):
            source, count = row[t.DATA // 8], row[t.COUNT // 8]
            if spec.dtype == "string":
                strings = placed.fields[k].values
                first, last = int(strings.offsets[0]), int(strings.offsets[-1])
                self.words[k, w.DATA] = self._take(source, 8 * (count + 1))
                # The bytes keep their places in a word, so that offsets stay as they are.
                text = self._take(row[t.TEXT // 8] + first, last - first, first % 8)
                self.words[k, w.TEXT] = text - first
                self._end += ALIGNMENT
                continue
            if spec.dtype in NARROW and row[t.LOAD // 8] != NARROW[spec.dtype]:
                narrow = np.asarray(placed.fields[k].values).astype(spec.dtype)
                self._alive.append(narrow)
                source = address_of(narrow)
            self.words[k, w.DATA] = self._take(source, count * ITEMS[spec.dtype])

    def _offsets(self, table: list[list[int]]) -> tuple[int, list[int]]:
        """All offsets, one after the other."""
        begin = self._take(0, 0)
        counts: list[int] = []
        for k, (spec, row) in enumerate(zip(self._specs, table, strict=True)):
            if not has_offsets(spec):
                continue
            ends = [(w.INNER, row[t.INNER // 8], row[t.BAGS // 8] + 1)]
            if spec.ragged == 2:
                ends.insert(0, (w.OUTER, row[t.OUTER // 8], self.rows + 1))
            for word, source, count in ends:
                self.words[k, word] = self._end
                self._pieces.append((self._end, source, 8 * count))
                self._end += 8 * count
                counts.append(count)
        return begin, counts

    def _weights(self, table: list[list[int]]) -> tuple[int, list[int]]:
        begin = self._take(0, 0)
        counts: list[int] = []
        for k, (spec, row) in enumerate(zip(self._specs, table, strict=True)):
            if spec.weighted:
                self.words[k, w.WEIGHTS] = self._end
                if row[t.COUNT // 8]:
                    self._pieces.append((self._end, row[t.WEIGHTS // 8], 4 * row[t.COUNT // 8]))
                self._end += 4 * row[t.COUNT // 8]
                counts.append(row[t.COUNT // 8])
        return begin, counts

    def write(self, host: torch.Tensor) -> None:
        """Copy all fields into a block on the host."""
        base = host.data_ptr()
        for at, source, size in self._pieces:
            ctypes.memmove(base + at, source, size)

    def held(self, block: torch.Tensor, ends: Mapping[int, torch.Tensor]) -> Held:
        """The fields in a block on the device. ends: offsets of dense fields by width."""
        base = block.data_ptr()
        for word in (w.DATA, w.TEXT, w.INNER, w.OUTER, w.WEIGHTS):
            self.words[:, word] += base
        offsets = iter(_cut(block, self._offsets_at, self._offset_counts, torch.int64))
        weights = iter(_cut(block, self._weights_at, self._weight_counts, torch.float32))
        found: list[tuple[torch.Tensor, ...]] = []
        for k, spec in enumerate(self._specs):
            if has_offsets(spec):
                found.append(tuple(next(offsets) for _ in range(spec.ragged or 1)))
            else:
                found.append((ends[spec.width],))
                self.words[k, w.INNER] = ends[spec.width].data_ptr()
        return Held(self.words, self.rows, found, [next(weights) if s.weighted else None for s in self._specs], [block])


def has_offsets(spec: FieldSpec) -> bool:
    """Whether a batch brings the offsets of a field."""
    return spec.ragged > 0 or spec.weighted


def _cut(block: torch.Tensor, begin: int, counts: list[int], dtype: torch.dtype) -> Sequence[torch.Tensor]:
    if not counts:
        return ()
    item = dtype.itemsize
    flat = block[begin : begin + item * sum(counts)].view(dtype)
    return torch.split_with_sizes(flat, counts)


def held_apart(batch: Mapping[str, Any], specs: Sequence[FieldSpec], device: torch.device, ends: Any) -> Held:
    """Fields whose tensors lie on the device, each by itself. ends(rows, width): offsets of dense fields.

    Errors: FeedError that lists every field that is missing or does not fit; values are not looked at.
    """
    words = np.zeros((len(specs), w.VALUE_WORDS), np.int64)
    fields: list[Ragged] = []
    wrong: list[str] = []
    for spec in specs:
        try:
            fields.append(_ragged(batch[spec.name], spec, device, ends))
        except KeyError:
            wrong.append(f"{spec.name!r} is missing")
        except _Unfit as fault:
            wrong.append(f"{spec.name!r} {fault}")
    rows = {x.rows for x in fields}
    if len(rows) > 1 and not wrong:
        usual = max(rows, key=[x.rows for x in fields].count)
        wrong += [
            f"{s.name!r} has {x.rows} rows, others {usual}"
            for s, x in zip(specs, fields, strict=True)
            if x.rows != usual
        ]
    if wrong:
        raise FeedError(f"{len(wrong)} fields do not fit their declaration", got=listed(wrong))
    for row, x in zip(words, fields, strict=True):
        is_text = isinstance(x.values, DeviceStrings)
        row[w.DATA] = (x.values.offsets if is_text else x.values).data_ptr()
        row[w.TEXT] = x.values.data.data_ptr() if is_text else 0
        row[w.COUNT], row[w.BAGS] = len(x.values), len(x.offsets[-1]) - 1
        row[w.INNER], row[w.OUTER] = x.offsets[-1].data_ptr(), x.offsets[0].data_ptr()
        row[w.WEIGHTS] = 0 if x.weights is None else x.weights.data_ptr()
    return Held(words, next(iter(rows), 0), [x.offsets for x in fields], [x.weights for x in fields], fields)


class _Unfit(ValueError):
    """A field that does not fit; its text says what is wrong."""


def _ragged(value: Any, spec: FieldSpec, device: torch.device, ends: Any) -> Ragged:
    if not isinstance(value, Ragged):
        if has_offsets(spec):
            raise _Unfit("is a plain tensor, want Ragged" + (" with weights" if spec.weighted else ""))
        return _dense(value, spec, device, ends)
    if not has_offsets(spec):
        raise _Unfit("is Ragged, want a plain tensor")
    levels = spec.ragged or 1
    if len(value.offsets) != levels:
        raise _Unfit(f"has {len(value.offsets)} levels of offsets, want {levels}")
    for offsets in value.offsets:
        _check(offsets, torch.int64, device, "offsets")
        if len(offsets) == 0:
            raise _Unfit("has offsets of no entry, want int64[B + 1]")
    _check_values(value.values, spec, device)
    if (value.weights is not None) != spec.weighted:
        raise _Unfit("has no weights" if value.weights is None else "has weights, which are not declared")
    if value.weights is not None:
        _check(value.weights, torch.float32, device, "weights")
        if len(value.weights) != len(value.values):
            raise _Unfit(f"has {len(value.weights)} weights, want {len(value.values)}")
    return value


def _dense(value: Any, spec: FieldSpec, device: torch.device, ends: Any) -> Ragged:
    shape = (len(value),) if isinstance(value, DeviceStrings) else tuple(getattr(value, "shape", ()))
    flat = value
    if isinstance(value, torch.Tensor) and value.ndim == 2 and value.shape[1] == spec.width:
        flat = value.reshape(-1)
    elif len(shape) != 1 or (spec.width != 1 and not isinstance(value, DeviceStrings)):
        raise _Unfit(f"is of shape {list(shape)}, want [B, {spec.width}]")
    _check_values(flat, spec, device)
    if len(flat) % spec.width:
        raise _Unfit(f"is of shape {list(shape)}, want [B, {spec.width}]")
    return Ragged(flat, (ends(len(flat) // spec.width, spec.width),))


def _check_values(values: Any, spec: FieldSpec, device: torch.device) -> None:
    if spec.dtype == "string":
        if not isinstance(values, DeviceStrings):
            raise _Unfit("holds no DeviceStrings")
        _check(values.offsets, torch.int64, device, "string offsets")
        _check(values.data, torch.uint8, device, "bytes")
        if values.data.data_ptr() % 8 or len(values.offsets) == 0:
            raise _Unfit("has bytes that do not begin at a multiple of 8, or no offsets")
        return
    if not isinstance(values, torch.Tensor):
        raise _Unfit(f"is {type(values).__name__}, want a tensor on {device}")
    _check(values, TORCH[spec.dtype], device, "values")


def _check(x: torch.Tensor, dtype: torch.dtype, device: torch.device, what: str) -> None:
    if x.dtype != dtype or x.ndim != 1 or not x.is_contiguous() or x.device != device or not is_stored(x):
        raise _Unfit(f"has {what} {x.dtype}{list(x.shape)} on {x.device}, want contiguous {dtype}[N] on {device}")
