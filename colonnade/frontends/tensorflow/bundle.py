"""Reads a TensorBundle: a sorted table of keys (the index) and data files, whose tensors are memory-mapped."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.errors import ImportFailure, listed, told
from colonnade.frontends.tensorflow import wire
from colonnade.frontends.tensorflow.crc32c import extend, masked
from colonnade.frontends.tensorflow.protos import NUMPY, counted_strings, dtype_name, read_shape
from colonnade.frontends.tensorflow.wire import BYTES, FIXED32, VARINT, damaged

_FOOTER = 48
_MAGIC = bytes.fromhex("57fb808b247547db")
_TRAILER = 5  # a block's compression byte and checksum
_COMPRESSION = {1: "snappy", 2: "zstd"}

Extent = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one tensor lies.

    Facts: `slices` are the parts of a partitioned tensor, each a (start, length) a dimension; length None: all.
    Units: offset and size are bytes.
    """

    dtype: str
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc32c: int
    slices: tuple[tuple[Extent, ...], ...]


class Bundle:
    """The tensors saved under one prefix ('.../variables/variables').

    Facts: an array from `get` is a view of the private map of its data file: no copy, no alignment (an unaligned view
    is fine for numpy and torch), writable without changing the file. bfloat16 comes as uint16: see the entry's dtype.
    Errors: ImportFailure for a damaged index, missing data files, entries outside them; each lists all of its kind.
    Checksums of the index are compared, those of tensors by `check`: it reads every byte.
    """

    def __init__(self, prefix: Path) -> None:
        self._prefix = Path(prefix)
        self._maps: dict[int, mmap.mmap | bytes] = {}
        self._entries: dict[bytes, Entry] = {}
        self._num_shards = 0
        index = Path(f"{prefix}.index")
        if not index.is_file():
            raise ImportFailure("the index of the variables is missing", where=str(index), help="copy the whole model")
        try:
            self._read_index(index.read_bytes())
        except ImportFailure as error:
            where = str(index) + (f", {error.where}" if error.where else "")
            raise ImportFailure(error.message, where=where, got=error.got, want=error.want, help=error.help) from None
        self._check_shards()

    @classmethod
    def empty(cls, prefix: Path) -> Bundle:
        """A bundle without tensors."""
        made = cls.__new__(cls)
        made._prefix = prefix
        made._maps, made._entries, made._num_shards = {}, {}, 0
        return made

    def _read_index(self, buf: bytes) -> None:
        table = dict(_table(buf))
        header = table.pop(b"", None)
        if header is None:
            raise damaged("the index has no header")
        self._num_shards = _read_header(header)
        self._entries = {key: _read_entry(value) for key, value in table.items()}

    def _shard(self, number: int) -> Path:
        return Path(f"{self._prefix}.data-{number:05d}-of-{self._num_shards:05d}")

    def _check_shards(self) -> None:
        """Every entry lies inside a data file that exists."""
        stored = {key: e for key, e in self._entries.items() if not e.slices}
        sizes: dict[int, int] = {}
        missing = []
        for number in sorted({entry.shard for entry in stored.values()}):
            file = self._shard(number)
            if file.is_file():
                sizes[number] = file.stat().st_size
            else:
                missing.append(file.name)
        if missing:
            raise ImportFailure(
                "data files of the variables are missing", where=str(self._prefix.parent), want=listed(missing)
            )
        cut = [
            f"{_shown(key)}: {max(0, sizes[e.shard] - e.offset)} of {e.size} bytes in {self._shard(e.shard).name}"
            for key, e in stored.items()
            if e.offset < 0 or e.size < 0 or e.offset + e.size > sizes[e.shard]
        ]
        if cut:
            want = f"{len(stored)} tensors inside their files"
            raise damaged("data files of the variables are truncated", str(self._prefix.parent), listed(cut), want)

    def keys(self) -> tuple[str, ...]:
        """The names of all tensors, sorted as in the index; parts of partitioned tensors are not listed."""
        return tuple(key.decode("utf-8", "replace") for key in self._entries if not key.startswith(b"\0"))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key.encode() in self._entries

    def entry(self, key: str) -> Entry:
        """Where tensor `key` lies."""
        found = self._entries.get(key.encode())
        if found is None:
            near = [k for k in self.keys() if key in k or k in key] or list(self.keys())
            where = f"{self._prefix}.index"
            raise ImportFailure("no such tensor among the variables", where=where, got=key, want=listed(near, 10))
        return found

    def get(self, key: str) -> np.ndarray[Any, Any]:
        """Tensor `key`: a view of the file; a partitioned tensor is assembled, strings are an object array of bytes."""
        entry = self.entry(key)
        return self._assembled(key, entry) if entry.slices else self._stored(key.encode(), entry)

    def get_slice(self, key: str, extents: tuple[Extent, ...]) -> np.ndarray[Any, Any]:
        """One stored part of a partitioned tensor (`extents` as in `entry(key).slices`), or a part of a whole one."""
        entry = self.entry(key)
        if not entry.slices:
            return self.get(key)[_index(entry.shape, extents)]
        return self._stored(slice_key(key, extents), self._part(key, entry, extents))

    def described(self, key: str, extents: tuple[Extent, ...] | None = None) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Dtype and shape of what `get`, or `get_slice`, gives: of a partitioned tensor nothing is read."""
        entry = self.entry(key)
        if extents is None and entry.slices:
            self._parts(key, entry)
            return _numpy_dtype(key.encode(), entry), entry.shape
        found = self.get(key) if extents is None else self.get_slice(key, extents)
        return found.dtype, found.shape

    def _parts(self, key: str, entry: Entry) -> list[tuple[tuple[slice, ...], bytes, Entry]]:
        """The parts of a partitioned tensor: where each goes, its key, where it lies. They are all of it."""
        parts = []
        for extents in entry.slices:
            index, code = _index(entry.shape, extents), slice_key(key, extents)
            part = self._part(key, entry, extents)
            goes = tuple(len(range(*place.indices(size))) for place, size in zip(index, entry.shape, strict=True))
            if (part.dtype, part.shape) != (entry.dtype, goes):
                got, want = f"{part.dtype}{list(part.shape)}", f"{entry.dtype}{list(goes)} at {index}"
                raise damaged("a part of a partitioned tensor has another dtype or shape", key, got, want)
            _check_size(code, part)
            parts.append((index, code, part))
        if sum(math.prod(part.shape) for _, _, part in parts) != math.prod(entry.shape):
            raise damaged("the parts of a partitioned tensor do not cover it", where=key, want=str(entry.shape))
        return parts

    def _part(self, key: str, entry: Entry, extents: tuple[Extent, ...]) -> Entry:
        part = self._entries.get(slice_key(key, extents))
        if part is None:
            have = [str(s) for s in entry.slices]
            raise ImportFailure("no such part of a partitioned tensor", where=key, got=str(extents), want=listed(have))
        return part

    def _assembled(self, key: str, entry: Entry) -> np.ndarray[Any, Any]:
        out = np.empty(entry.shape, _numpy_dtype(key.encode(), entry))
        for index, code, part in self._parts(key, entry):
            out[index] = self._stored(code, part)
        return out

    def _stored(self, key: bytes, entry: Entry) -> np.ndarray[Any, Any]:
        data = self._map(entry.shard)
        elements = math.prod(entry.shape)
        end = entry.offset + entry.size
        if entry.dtype == "string":
            items = counted_strings(data, entry.offset, end, elements, checksum=4)
            out = np.empty(elements, object)
            out[:] = items
            return out.reshape(entry.shape)
        kind = _numpy_dtype(key, entry)
        _check_size(key, entry)
        return np.frombuffer(data, kind, elements, entry.offset).reshape(entry.shape)

    def _map(self, number: int) -> mmap.mmap | bytes:
        """The data file, mapped once: private, so that it is writable (torch warns about read-only buffers)."""
        if number not in self._maps:
            file = self._shard(number)
            with told(ImportFailure, "the variables cannot be read", file), file.open("rb") as opened:
                size = file.stat().st_size
                self._maps[number] = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY) if size else b""
        return self._maps[number]

    def check(self, tensors: Iterable[tuple[str, tuple[Extent, ...] | None]]) -> None:
        """Compare the checksums of tensors, or of parts of them. Errors: ImportFailure that lists all that differ."""
        wanted: dict[bytes, Entry] = {}
        for key, extents in tensors:
            entry = self.entry(key)
            for part in (entry.slices if extents is None else (extents,)) if entry.slices else ():
                wanted[slice_key(key, part)] = self._part(key, entry, part)
            if not entry.slices:
                wanted[key.encode()] = entry
        bad = [_shown(key) for key, entry in wanted.items() if self._checksum(entry) != entry.crc32c]
        if bad:
            help = "copy the whole model again, or save it again"
            where, want = str(self._prefix.parent), f"{len(wanted)} tensors as they were saved"
            raise ImportFailure(
                "variables do not match their checksums", where=where, got=listed(bad), want=want, help=help
            )

    def _checksum(self, entry: Entry) -> int:
        data = self._map(entry.shard)
        end = entry.offset + entry.size
        if entry.dtype != "string":
            return masked(extend(0, memoryview(data)[entry.offset : end]))
        elements = math.prod(entry.shape)
        crc = 0
        i = entry.offset
        for _ in range(elements):  # lengths count as integers, not as the varints that are stored
            length, i = wire.varint(data, i, end)
            crc = extend(crc, length.to_bytes(4 if length < 1 << 32 else 8, "little"))
        return masked(extend(crc, memoryview(data)[i:end]))


def _numpy_dtype(key: bytes, entry: Entry) -> np.dtype[Any]:
    kind = np.dtype(object) if entry.dtype == "string" else NUMPY.get(entry.dtype)
    if kind is None:
        raise ImportFailure("a tensor has a dtype that has no values", where=_shown(key), got=entry.dtype)
    return kind


def _check_size(key: bytes, entry: Entry) -> None:
    if entry.dtype != "string" and entry.size != math.prod(entry.shape) * _numpy_dtype(key, entry).itemsize:
        want = f"{entry.dtype} {entry.shape}"
        raise damaged("a tensor's size does not fit its shape", _shown(key), f"{entry.size} bytes", want)


def _shown(key: bytes) -> str:
    return key.decode("utf-8", "backslashreplace")


def _index(shape: tuple[int, ...], extents: tuple[Extent, ...]) -> tuple[slice, ...]:
    if len(extents) != len(shape):
        raise damaged("a part of a partitioned tensor has another rank", got=str(extents), want=str(shape))
    return tuple(
        slice(start, size if length is None else start + length)
        for size, (start, length) in zip(shape, extents, strict=True)
    )


def _table(buf: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Every key and value of a sorted string table."""
    if len(buf) < _FOOTER or buf[-8:] != _MAGIC:
        got = f"{len(buf)} bytes ending in {buf[-8:].hex()}"
        raise damaged("not an index of variables", got=got, want=f"ending in {_MAGIC.hex()}")
    i = len(buf) - _FOOTER
    end = len(buf) - 8
    for _ in range(2):
        _, i = wire.varint(buf, i, end)
    offset, i = wire.varint(buf, i, end)
    size, i = wire.varint(buf, i, end)
    for _, handle in _block(buf, offset, size):
        a, j = wire.varint(handle, 0, len(handle))
        n, _ = wire.varint(handle, j, len(handle))
        yield from _block(buf, a, n)


def _block(buf: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Every key and value of one block, whose keys share prefixes with their predecessors."""
    stop = offset + size
    where = f"block at byte {offset}"
    if size < 4 or stop + _TRAILER > len(buf):
        got, want = f"{len(buf)} bytes", f"{stop + _TRAILER} bytes"
        raise damaged("a block of the index lies outside the file", where, got, want)
    if buf[stop]:
        kind = _COMPRESSION.get(buf[stop], f"type {buf[stop]}")
        hint = "save the model again with an uncompressed index (TensorFlow's default)"
        raise ImportFailure("a block of the index is compressed", where=where, got=kind, want="uncompressed", help=hint)
    if masked(extend(0, buf[offset : stop + 1])) != int.from_bytes(buf[stop + 1 : stop + 5], "little"):
        raise damaged("a block of the index does not match its checksum", where)
    end = stop - 4 - 4 * int.from_bytes(buf[stop - 4 : stop], "little")
    if end < offset:
        raise damaged("a block of the index has more restart points than bytes", where)
    i = offset
    key = b""
    while i < end:
        shared, i = wire.varint(buf, i, end)
        fresh, i = wire.varint(buf, i, end)
        length, i = wire.varint(buf, i, end)
        if shared > len(key) or i + fresh + length > end:
            raise damaged("an entry of the index runs over its block", where)
        key = key[:shared] + buf[i : i + fresh]
        i += fresh
        yield key, buf[i : i + length]
        i += length


def _read_header(buf: bytes) -> int:
    """The number of data files."""
    shards = 0
    for field, kind, a, _ in wire.fields(buf, 0, len(buf)):
        if field == 1 and kind == VARINT:
            shards = a
        elif field == 2 and kind == VARINT and a:
            raise ImportFailure("the variables are stored big-endian", want="little-endian")
    if not 0 <= shards < 100_000:
        raise damaged("the index names an impossible number of data files", got=str(shards))
    return shards


def _read_entry(buf: bytes) -> Entry:
    numbers = {1: 0, 3: 0, 4: 0, 5: 0}
    shape: tuple[int | None, ...] | None = ()
    crc = 0
    slices = []
    for field, kind, a, b in wire.fields(buf, 0, len(buf)):
        if field in numbers and kind == VARINT:
            numbers[field] = wire.signed(a)
        elif field == 2 and kind == BYTES:
            shape = read_shape(buf, a, b)
        elif field == 6 and kind == FIXED32:
            crc = int.from_bytes(buf[a:b], "little")
        elif field == 7 and kind == BYTES:
            slices.append(tuple(_read_extent(buf, c, d) for c, d in wire.spans(buf, a, b, 1)))
    if shape is None or None in shape:
        raise damaged("a tensor of the index has no full shape", got=str(shape))
    dims = tuple(d for d in shape if d is not None)
    return Entry(dtype_name(numbers[1]), dims, numbers[3], numbers[4], numbers[5], crc, tuple(slices))


def _read_extent(buf: bytes, start: int, end: int) -> Extent:
    begin = 0
    length: int | None = None
    for field, kind, a, _ in wire.fields(buf, start, end):
        if field == 1 and kind == VARINT:
            begin = wire.signed(a)
        elif field == 2 and kind == VARINT:
            length = wire.signed(a)
    return begin, length


def slice_key(name: str, extents: tuple[Extent, ...]) -> bytes:
    """The index key of one part of a partitioned tensor, in an encoding whose bytes sort like its values."""
    quoted = name.encode().replace(b"\xff", b"\xff\0").replace(b"\0", b"\0\xff")
    parts = [b"\0", quoted, b"\0\1", _unsigned(len(extents))]
    for start, length in extents:
        parts += [_signed(start), _signed(-1 if length is None else length)]
    return b"".join(parts)


def _unsigned(value: int) -> bytes:
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def _signed(value: int) -> bytes:
    """Sign-extended big-endian bytes, xored with a header of as many ones as there are bytes."""
    size = (value if value >= 0 else ~value).bit_length() // 7 + 1
    header = ((1 << size) - 1) << (16 - size)
    data = bytearray((value & ((1 << 8 * size) - 1)).to_bytes(size, "big"))
    data[0] ^= header >> 8
    if size > 1:
        data[1] ^= header & 0xFF
    return bytes(data)
