"""Where a request lies on its way to the device: one block, laid out for a bucket of sizes.

    [headers | numbers a dtype | inputs of the dense rest | string offsets | ragged fields | string bytes]

Everything before the strings' bytes lies where the sizes alone say, so that numbers can be packed straight into it.
A *bucket* stands for all requests whose sizes, once rounded up, are the same: they share one plan and one CUDA graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sympy
import torch

from colonnade.backends.feed import Request
from colonnade.backends.gpu.columns import TEXT_PADDING, Sources
from colonnade.backends.gpu.header import Header
from colonnade.backends.sizes import DimFunction, dim_function
from colonnade.core.batch import Layout, Packed
from colonnade.core.dims import symbols_of
from colonnade.core.strings import Strings
from colonnade.ir.program import Input, Program
from colonnade.ops.op import torch_dtype

Array = npt.NDArray[Any]

ALIGNMENT = 256
LEAST_TEXT = 256
LEAST_COUNT = 64


class Bucket(NamedTuple):
    """Rounded sizes of all symbols, and the room for the bytes of each set of strings."""

    sizes: tuple[int, ...]
    texts: tuple[int, ...]


def rows_bucket(rows: int) -> int:
    """The least of 0, 1, 2, 3, 4, 6, 8, 12, 16, ... that is not below: powers of two and one and a half times them."""
    if rows <= 2:
        return rows
    power = 1 << (rows - 1).bit_length() - 1
    return power + power // 2 if rows <= power + power // 2 else 2 * power


def text_bucket(num_bytes: int) -> int:
    """The least quarter of an octave that holds the bytes and what may be read past them."""
    return _quarter(num_bytes + TEXT_PADDING, LEAST_TEXT)


def count_bucket(count: int) -> int:
    """The least quarter of an octave that holds so many elements of a ragged field."""
    return _quarter(count, LEAST_COUNT)


def _quarter(needed: int, least: int) -> int:
    if needed <= least:
        return least
    step = 1 << (needed - 1).bit_length() - 3
    return -(-needed // step) * step


@dataclass(frozen=True, slots=True)
class Region:
    """Part of a block, as a tensor."""

    start: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        """The first byte after it."""
        size = self.dtype.itemsize
        for n in self.shape:
            size *= n
        return self.start + size

    def of(self, block: torch.Tensor) -> torch.Tensor:
        """The tensor that lies there."""
        return block[self.start : self.end].view(self.dtype).view(self.shape)


def after(end: int) -> int:
    """Where the next region begins."""
    return -(-end // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class Regions:
    """A bucket's block, by layout where nothing else is said.

    rows: how many there are at most.   tiles: how many are cut from elements at most.   sizes: of every symbol.
    numbers: by dtype.   inputs: of the dense rest, all layouts' together.   offsets, texts: of the strings of dense
    fields, or None where it has none.   ragged: values (or offsets and bytes) of each field, and each offsets input.
    """

    rows: tuple[int, ...]
    tiles: tuple[int, ...]
    sizes: dict[str, int]
    headers: tuple[Region, ...]
    numbers: tuple[Mapping[str, Region], ...]
    inputs: Mapping[str, Region]
    offsets: tuple[Region | None, ...]
    texts: tuple[Region | None, ...]
    ragged: tuple[Mapping[str, tuple[Region, ...]], ...]
    num_bytes: int


class StagingPlan:
    """How to lay out any request of a program.

    headers: of each layout.   inputs: those the dense rest reads on the device.   padded: batch symbols, rounded
    up.   counted: symbols of ragged fields that are; all others stay exact.   given: the layouts that requests are
    packed by, where the device gets less of a request.
    """

    def __init__(
        self,
        program: Program,
        layouts: Sequence[Layout],
        headers: Sequence[Header],
        inputs: Sequence[Input],
        padded: frozenset[str] = frozenset(),
        counted: frozenset[str] = frozenset(),
        given: Sequence[Layout] | None = None,
    ) -> None:
        shapes = [d for i in program.inputs for d in i.shape]
        self.symbols = tuple(sorted({str(s) for d in shapes for s in symbols_of(d)}))
        self.layouts = tuple(layouts)
        self._given = self.layouts if given is None else tuple(given)
        self._rounding = dict.fromkeys(padded, rows_bucket) | dict.fromkeys(counted, count_bucket)
        sent = {str(i.shape[0]) for i in program.inputs for x in layouts if i.name in x.ragged}
        self._rounding |= dict.fromkeys(counted - sent, lambda count: 0)  # nothing depends on what stays on the host
        self._headers = tuple(headers)
        counts = {i.name: dim_function(i.shape[0]) for i in program.inputs if i.offsets is not None}
        self._ragged = tuple(
            tuple((name, place.dtype, place.offsets, counts[name]) for name, place in x.ragged.items()) for x in layouts
        )
        self._rows: tuple[DimFunction, ...] = tuple(dim_function(x.rows) for x in layouts)
        self._numbers = tuple(
            tuple((dtype, torch_dtype(dtype), width) for dtype, width in sorted(x.widths.items()) if dtype != "string")
            for x in layouts
        )
        self._strings = tuple(x.widths.get("string") for x in layouts)
        self._inputs = tuple((i.name, torch_dtype(i.dtype), tuple(dim_function(d) for d in i.shape)) for i in inputs)
        first = layouts[0].rows if layouts else None
        self._first_is_plain = isinstance(first, int | sympy.Symbol)
        alone = (first.name,) if isinstance(first, sympy.Symbol) else ()
        self._rows_say_all = len(layouts) == 1 and self._first_is_plain and self.symbols == alone
        self._first_rounds = isinstance(first, sympy.Symbol) and first.name in padded

    def bucket(self, request: Request) -> Bucket:
        """The bucket of a request."""
        sizes, rounding = request.sizes, self._rounding
        texts = []
        for layout, packed, width in zip(self.layouts, request.packed, self._strings, strict=True):
            texts.append(0 if width is None else text_bucket(_num_bytes(packed.string_offsets)))
            ragged = (packed.ragged[name] for name in layout.ragged)
            texts += [text_bucket(_num_bytes(v.offsets)) for v in ragged if isinstance(v, Strings)]
        rounded = tuple([rounding[s](sizes[s]) if s in rounding else sizes[s] for s in self.symbols])
        return Bucket(rounded, tuple(texts))

    def regions(self, bucket: Bucket) -> Regions:
        """The layout of a bucket's block."""
        sizes = dict(zip(self.symbols, bucket.sizes, strict=True))
        rows = tuple(function(sizes) for function in self._rows)
        headers = self._header_regions()
        place = _Places(self._headers_end)
        numbers = []
        for k, num_rows in enumerate(rows):
            numbers.append(self._numbers_of(k, num_rows, place.end))
            place.end = max([place.end, *(region.end for region in numbers[-1].values())])
        inputs = {name: place.of(dtype, *(d(sizes) for d in shape)) for name, dtype, shape in self._inputs}
        offsets = tuple(
            None if width is None else place.of(torch.int64, num_rows * width + 1)
            for num_rows, width in zip(rows, self._strings, strict=True)
        )
        heads = [self._ragged_heads(k, num_rows, sizes, place) for k, num_rows in enumerate(rows)]
        sized = iter(bucket.texts)
        texts: list[Region | None] = []
        ragged = []
        for k, width in enumerate(self._strings):
            room = next(sized)
            texts.append(None if width is None else place.of(torch.uint8, room))
            tails = {f: place.of(torch.uint8, next(sized)) for f, dtype, *_ in self._ragged[k] if dtype == "string"}
            ragged.append({f: (head, tails[f]) if f in tails else (head,) for f, head in heads[k].items()})
        tiles = tuple(self._tiles(k, num_rows, sizes) for k, num_rows in enumerate(rows))
        return Regions(
            rows, tiles, sizes, headers, tuple(numbers), inputs, offsets, tuple(texts), tuple(ragged), after(place.end)
        )

    def _header_regions(self) -> tuple[Region, ...]:
        found: list[Region] = []
        for header in self._headers:
            found.append(Region(found[-1].end if found else 0, torch.int64, (header.num_words,)))
        return tuple(found)

    @property
    def _headers_end(self) -> int:
        return sum(8 * header.num_words for header in self._headers)

    def _ragged_heads(self, k: int, rows: int, sizes: Mapping[str, int], place: _Places) -> dict[str, Region]:
        """Values, or offsets of strings, of each ragged field, and the offsets inputs."""
        found = {}
        for name, dtype, offsets, count in self._ragged[k]:
            is_text = dtype == "string"
            found[name] = place.of(torch.int64 if is_text else torch_dtype(dtype), count(sizes) + is_text)
            if offsets not in found:
                found[offsets] = place.of(torch.int64, rows + 1)
        return found

    def _tiles(self, k: int, rows: int, sizes: Mapping[str, int]) -> int:
        """What `Header.write` counts at most."""
        total = 0
        for offsets, width, items in self._headers[k].units:
            counts = [count(sizes) for _, _, o, count in self._ragged[k] if o == offsets]
            elements = rows * width if offsets is None else max(counts)
            total += -(-(elements + rows) // items)
        return total

    def first_rows(self, layout: Layout, rows: int) -> int | None:
        """The rounded rows of the first given layout, whose numbers lie where these alone say; None of another."""
        if not self._first_is_plain or layout is not self._given[0]:
            return None
        return rows_bucket(rows) if self._first_rounds else rows

    def first(self, dtype: str, rows: int) -> Region:
        """Where the numbers of the first layout lie, whatever else the request holds; rows are rounded."""
        return self._numbers_of(0, rows, self._headers_end)[dtype]

    def first_strings(self, rows: int) -> tuple[Region, int] | None:
        """The offsets of the first layout's strings and the start of their bytes, where rounded rows alone say."""
        if not self._rows_say_all or self._strings[0] is None:
            return None
        regions = self.regions(Bucket((rows,) * len(self.symbols), (LEAST_TEXT,)))
        (offsets,), (text,) = regions.offsets, regions.texts
        assert offsets is not None and text is not None
        return offsets, text.start

    def _numbers_of(self, k: int, num_rows: int, end: int) -> dict[str, Region]:
        found = {}
        for name, dtype, width in self._numbers[k]:
            found[name] = region = Region(after(end), dtype, (num_rows * width,))
            end = region.end
        return found


class _Places:
    """Regions one after the other."""

    def __init__(self, end: int) -> None:
        self.end = end

    def of(self, dtype: torch.dtype, *shape: int) -> Region:
        """The next region."""
        region = Region(after(self.end), dtype, shape)
        self.end = region.end
        return region


class Staged:
    """A bucket's views of a host block and of the device block that it is copied to.

    headers, works: of each layout; a work is the memory that its kernel computes in and the one that it counts in.
    sources: of each layout, on the device.   inputs: of the dense rest, on the device.
    """

    def __init__(
        self,
        regions: Regions,
        host: torch.Tensor,
        device: torch.Tensor,
        headers: Sequence[Header],
        works: Sequence[tuple[torch.Tensor | None, torch.Tensor | None]],
    ) -> None:
        self.regions = regions
        self.host = host[: regions.num_bytes]
        self.device = device[: regions.num_bytes]
        self._headers = [(h, r.of(host).numpy()) for h, r in zip(headers, regions.headers, strict=True)]
        self._numbers = [_addressed(numbers, host) for numbers in regions.numbers]
        self._inputs = {name: region.of(host).numpy() for name, region in regions.inputs.items()}
        self._offsets = [None if r is None else r.of(host).numpy() for r in regions.offsets]
        self._texts = [None if r is None else r.of(host).numpy() for r in regions.texts]
        self._string_places = [
            (0 if offsets is None else _address(offsets), 0 if text is None else _address(text))
            for offsets, text in zip(self._offsets, self._texts, strict=True)
        ]
        self.inputs = {name: region.of(device) for name, region in regions.inputs.items()}
        self.sources = tuple(
            Sources(
                header.of(device),
                {t: r.of(device) for t, r in numbers.items()},
                (offsets or header).of(device),
                (texts or Region(header.start, torch.uint8, (header.end - header.start,))).of(device),
                *work,
            )
            for header, numbers, offsets, texts, work in zip(
                regions.headers, regions.numbers, regions.offsets, regions.texts, works, strict=True
            )
        )
        start = device.data_ptr()
        self._ragged = [{f: [r.of(host).numpy() for r in found] for f, found in x.items()} for x in regions.ragged]
        self._addresses = [{f: tuple(start + r.start for r in found) for f, found in x.items()} for x in regions.ragged]

    def write(self, request: Request) -> None:
        """Write a request of this bucket into the host block, but for what was packed there."""
        for k, packed in enumerate(request.packed):
            header, words = self._headers[k]
            tiles = header.write(words, packed, self._addresses[k])
            assert tiles <= self.regions.tiles[k]
            for dtype, target, address in self._numbers[k]:
                source = packed.buffers.get(dtype)
                if source is not None and _address(source) != address:
                    target[: source.size] = source
            self._write_strings(k, packed)
            for name, targets in self._ragged[k].items():
                _write_ragged(targets, packed.offsets[name] if name in packed.offsets else packed.ragged[name])
        for name, target in self._inputs.items():
            _write_padded(target, request.tensors[name])

    def _write_strings(self, k: int, packed: Packed) -> None:
        offsets, text = self._offsets[k], self._texts[k]
        if offsets is None or text is None:
            return
        first, last = int(packed.string_offsets[0]), int(packed.string_offsets[-1])
        offsets_address, text_address = self._string_places[k]
        if first or _address(packed.string_offsets) != offsets_address:
            np.subtract(packed.string_offsets, first, out=offsets[: packed.string_offsets.size])
        if first or _address(packed.string_data) != text_address:
            text[: last - first] = packed.string_data[first:last]


def _write_padded(target: Array, value: torch.Tensor | Array) -> None:
    """Write a value into the first places of each dim; zeros follow, for what lay there may be no such values."""
    source = value.numpy() if isinstance(value, torch.Tensor) else value
    if source.shape != target.shape:
        for axis, n in enumerate(source.shape):
            target[(*[slice(None)] * axis, slice(n, None))] = 0
        target = target[tuple(slice(n) for n in source.shape)]
    target[...] = source


def _addressed(numbers: Mapping[str, Region], host: torch.Tensor) -> list[tuple[str, Array, int]]:
    found = []
    for dtype, region in numbers.items():
        array = region.of(host).numpy()
        found.append((dtype, array, _address(array)))
    return found


def _write_ragged(targets: Sequence[Array], values: Array | Strings) -> None:
    """Write values, or offsets from 0 and bytes."""
    if not isinstance(values, Strings):
        targets[0][: values.size] = values
        return
    first, last = int(values.offsets[0]), int(values.offsets[-1])
    np.subtract(values.offsets, first, out=targets[0][: values.offsets.size])
    targets[1][: last - first] = values.data[first:last]


def _num_bytes(offsets: Array) -> int:
    return int(offsets[-1]) - int(offsets[0])


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
