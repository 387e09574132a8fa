"""Where a request lies on its way to the device: one block, laid out for a bucket of sizes.

    [a header a layout | numbers a layout and dtype | inputs of the dense rest | string offsets | string bytes]

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
from colonnade.backends.gpu.columns import HEADER_WORDS, TEXT_PADDING, Sources
from colonnade.backends.sizes import DimFunction, dim_function
from colonnade.core.batch import Layout, Packed
from colonnade.core.dims import symbols_of
from colonnade.ir.program import Input, Program
from colonnade.ops.op import torch_dtype

Array = npt.NDArray[Any]

ALIGNMENT = 256
HEADER_BYTES = 8 * HEADER_WORDS
LEAST_TEXT = 256


class Bucket(NamedTuple):
    """Rounded sizes of all symbols, and the room for the strings' bytes of each layout."""

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
    needed = num_bytes + TEXT_PADDING
    if needed <= LEAST_TEXT:
        return LEAST_TEXT
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
    """A bucket's block.

    rows: how many each layout has at most.   sizes: of every symbol.   numbers: by dtype, one mapping a layout.
    offsets, texts: of the strings of each layout, or None where it has none.   inputs: of the dense rest.
    """

    rows: tuple[int, ...]
    sizes: dict[str, int]
    numbers: tuple[Mapping[str, Region], ...]
    inputs: Mapping[str, Region]
    offsets: tuple[Region | None, ...]
    texts: tuple[Region | None, ...]
    num_bytes: int


class StagingPlan:
    """How to lay out any request of a program.

    inputs: those the dense rest reads on the device.   padded: symbols whose sizes are rounded up; others stay exact.
    """

    def __init__(
        self,
        program: Program,
        layouts: Sequence[Layout],
        inputs: Sequence[Input],
        padded: frozenset[str] = frozenset(),
    ) -> None:
        shapes = [d for i in program.inputs for d in i.shape]
        self.symbols = tuple(sorted({str(s) for d in shapes for s in symbols_of(d)}))
        self.padded = padded
        self.layouts = tuple(layouts)
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
        sizes, padded = request.sizes, self.padded
        texts = [
            0 if width is None else text_bucket(_num_bytes(packed))
            for packed, width in zip(request.packed, self._strings, strict=True)
        ]
        rounded = tuple(rows_bucket(sizes[s]) if s in padded else sizes[s] for s in self.symbols)
        return Bucket(rounded, tuple(texts))

    def regions(self, bucket: Bucket) -> Regions:
        """The layout of a bucket's block."""
        sizes = dict(zip(self.symbols, bucket.sizes, strict=True))
        rows = tuple(function(sizes) for function in self._rows)
        end = HEADER_BYTES * len(rows)
        numbers = []
        for k, num_rows in enumerate(rows):
            found = self._numbers_of(k, num_rows, end)
            end = max([end, *(region.end for region in found.values())])
            numbers.append(found)
        inputs = {}
        for name, dtype, shape in self._inputs:
            inputs[name] = region = Region(after(end), dtype, tuple(d(sizes) for d in shape))
            end = region.end
        offsets: list[Region | None] = []
        for num_rows, width in zip(rows, self._strings, strict=True):
            offsets.append(None if width is None else Region(after(end), torch.int64, (num_rows * width + 1,)))
            end = end if offsets[-1] is None else offsets[-1].end
        texts: list[Region | None] = []
        for room, width in zip(bucket.texts, self._strings, strict=True):
            texts.append(None if width is None else Region(after(end), torch.uint8, (room,)))
            end = end if texts[-1] is None else texts[-1].end
        return Regions(rows, sizes, tuple(numbers), inputs, tuple(offsets), tuple(texts), after(end))

    def first_rows(self, layout: Layout, rows: int) -> int | None:
        """The rounded rows of the first layout, whose numbers lie where these alone say; None of another layout."""
        if not self._first_is_plain or layout is not self.layouts[0]:
            return None
        return rows_bucket(rows) if self._first_rounds else rows

    def first(self, dtype: str, rows: int) -> Region:
        """Where the numbers of the first layout lie, whatever else the request holds; rows are rounded."""
        return self._numbers_of(0, rows, HEADER_BYTES * len(self.layouts))[dtype]

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


class Staged:
    """A bucket's views of a host block and of the device block that it is copied to.

    sources: of each layout, on the device.   inputs: of the dense rest, on the device.
    """

    def __init__(self, regions: Regions, host: torch.Tensor, device: torch.Tensor) -> None:
        self.regions = regions
        self.host = host[: regions.num_bytes]
        self.device = device[: regions.num_bytes]
        headers = [Region(HEADER_BYTES * k, torch.int64, (HEADER_WORDS,)) for k in range(len(regions.rows))]
        self._headers = [region.of(host).numpy() for region in headers]
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
                (texts or Region(header.start, torch.uint8, (HEADER_BYTES,))).of(device),
            )
            for header, numbers, offsets, texts in zip(
                headers, regions.numbers, regions.offsets, regions.texts, strict=True
            )
        )

    def write(self, request: Request) -> None:
        """Write a request of this bucket into the host block, but for what was packed there."""
        for k, packed in enumerate(request.packed):
            self._headers[k][0] = packed.rows
            for dtype, target, address in self._numbers[k]:
                source = packed.buffers.get(dtype)
                if source is not None and _address(source) != address:
                    target[: source.size] = source
            self._write_strings(k, packed)
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


def _num_bytes(packed: Packed) -> int:
    return int(packed.string_offsets[-1]) - int(packed.string_offsets[0])


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
