"""Tensors in a safetensors file: header and data streamed out, tensors viewed in a memory map.

Facts: an 8-byte little-endian length, a JSON header padded with spaces so that the data start at a multiple of 4,096,
then the tensors without gaps, wide dtypes first, so that each is aligned to its dtype. Strings (object arrays of bytes)
are two tensors, `NAME` (all bytes) and `NAME (ends)` (where each ends), and their shapes stand in the metadata.
Source: the safetensors format, https://huggingface.co/docs/safetensors/index#format
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]

ALIGNMENT = 4096
CHUNK = 4 << 20
"""Bytes that are copied at a time, at most, unless one row is larger."""

CODES = {
    "bool": "BOOL",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
}
DTYPES = {code: dtype for dtype, code in CODES.items()}
# numpy has no bfloat16: its bits stand in a uint16.
CARRIERS = {"bfloat16": "uint16"}


ENDS = " (ends)"


class TensorFileError(ValueError):
    """A file that is not what the format says."""


@dataclass(frozen=True)
class Tensor:
    """An array and the dtype it stands for (`bfloat16`: its bits in a uint16 array)."""

    dtype: str
    array: Array

    @property
    def nbytes(self) -> int:
        """Units: bytes."""
        return self.array.size * self.array.dtype.itemsize


def tensor(array: Array, dtype: str = "") -> Tensor:
    """An array as it is stored. Errors: TensorFileError on a dtype that a file cannot hold."""
    dtype = dtype or array.dtype.name
    carrier = CARRIERS.get(dtype, dtype)
    if dtype not in CODES or array.dtype != np.dtype(carrier) or not array.dtype.isnative:
        raise TensorFileError(f"no tensor of dtype {dtype} from an array of dtype {array.dtype.str}")
    return Tensor(dtype, array)


def with_strings(arrays: Mapping[str, Array | Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata that hold arrays of which some hold strings."""
    tensors: dict[str, Tensor] = {}
    shapes: dict[str, list[int]] = {}
    for name, array in arrays.items():
        if isinstance(array, Tensor):
            tensors[name] = array
        elif array.dtype == object:
            items = [bytes(s) for s in array.reshape(-1)]
            tensors[name] = tensor(np.frombuffer(b"".join(items), np.uint8))
            tensors[f"{name}{ENDS}"] = tensor(np.cumsum([len(s) for s in items], dtype=np.int64))
            shapes[name] = list(array.shape)
        else:
            tensors[name] = tensor(array)
    return tensors, {"strings": json.dumps(shapes, sort_keys=True)} if shapes else {}


def header(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> tuple[bytes, list[Tensor]]:
    """The padded head of a file and its tensors in the order of their data."""
    order = sorted(tensors, key=lambda name: (-tensors[name].array.dtype.itemsize, name))
    entries: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    at = 0
    for name in order:
        item = tensors[name]
        entries[name] = {
            "dtype": CODES[item.dtype],
            "shape": list(item.array.shape),
            "data_offsets": [at, at + item.nbytes],
        }
        at += item.nbytes
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text, [tensors[name] for name in order]


def size(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> int:
    """The size of the file that `chunks` gives. Units: bytes."""
    return len(header(tensors, metadata)[0]) + sum(t.nbytes for t in tensors.values())


def chunks(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Iterator[Array]:
    """The file's bytes in pieces. Facts: no array is copied whole; unaligned and strided arrays are fine."""
    head, order = header(tensors, metadata)
    yield np.frombuffer(head, np.uint8)
    for item in order:
        yield from _array_chunks(item.array)


def _array_chunks(array: Array) -> Iterator[Array]:
    if array.size == 0:
        return
    if array.flags.c_contiguous:
        flat = array.reshape(-1).view(np.uint8)
        for at in range(0, flat.size, CHUNK):
            yield flat[at : at + CHUNK]
        return
    rows = max(1, CHUNK // (array.nbytes // len(array)))
    for at in range(0, len(array), rows):
        yield np.ascontiguousarray(array[at : at + rows]).reshape(-1).view(np.uint8)


class TensorFile:
    """The tensors of a file, viewed in a private memory map: processes share the pages until one writes.

    Errors: TensorFileError where the header and the file's size do not fit.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            total = file.seek(0, 2)
            if total < 8:
                raise TensorFileError("the file ends inside its header")
        # torch maps copy-on-write, as torch wants its buffers, and keeps no file open: a model may have thousands.
        self.data: Array = torch.from_file(str(path), shared=False, size=total, dtype=torch.uint8).numpy()
        length = int.from_bytes(self.data[:8].tobytes(), "little")
        if length > total - 8:
            raise TensorFileError("the file ends inside its header")
        self.start = 8 + length
        self.entries, self.metadata = _entries(self.data[8 : self.start].tobytes(), total - self.start)

    def names(self) -> list[str]:
        """The names of its tensors, in the order of the header."""
        return list(self.entries)

    def dtype(self, name: str) -> str:
        """The dtype of a tensor."""
        return self.entries[name][0]

    def array(self, name: str) -> Array:
        """A view of a tensor; bfloat16 as its bits in uint16."""
        dtype, shape, offset = self.entries[name]
        carrier = np.dtype(CARRIERS.get(dtype, dtype))
        start = self.start + offset
        found: Array = self.data[start : start + math.prod(shape) * carrier.itemsize].view(carrier).reshape(shape)
        return found

    def arrays(self) -> dict[str, Array]:
        """Every tensor, strings as object arrays of bytes."""
        try:
            shapes: dict[str, list[int]] = json.loads(self.metadata.get("strings", "{}"))
            strings = {name: self._strings(name, shape) for name, shape in shapes.items()}
        except (KeyError, TypeError, AttributeError, ValueError) as e:
            raise TensorFileError(f"its strings cannot be read: {e}") from e
        parts = {*strings, *(f"{name}{ENDS}" for name in strings)}
        return strings | {name: self.array(name) for name in self.entries if name not in parts}

    def _strings(self, name: str, shape: list[int]) -> Array:
        data, ends = self.array(name).tobytes(), self.array(f"{name}{ENDS}").tolist()
        found = np.empty(len(ends), dtype=object)
        found[:] = [data[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        return found.reshape(shape)


def _entry(dtype: str, shape: list[int], data_offsets: list[int]) -> tuple[str, tuple[int, ...], int, int]:
    start, stop = map(int, data_offsets)
    return DTYPES[dtype], tuple(map(int, shape)), start, stop


def _entries(text: bytes, data: int) -> tuple[dict[str, tuple[str, tuple[int, ...], int]], dict[str, str]]:
    """dtype, shape and offset by name, and the metadata, of a header in front of so many bytes of data."""
    try:
        raw = json.loads(text)
        metadata = raw.pop("__metadata__", {})
        found = {name: _entry(**entry) for name, entry in raw.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as e:
        raise TensorFileError(f"its header cannot be read: {e}") from e
    at = 0
    for name, (dtype, shape, start, stop) in sorted(found.items(), key=lambda item: item[1][2:]):
        width = np.dtype(CARRIERS.get(dtype, dtype)).itemsize
        if start != at or min(shape, default=0) < 0 or stop - start != math.prod(shape) * width:
            raise TensorFileError(f"the place of tensor {name!r} does not fit its shape")
        at = stop
    if at != data:
        raise TensorFileError(f"{data} bytes of data, {at} in the header")
    return {name: (dtype, shape, start) for name, (dtype, shape, start, _) in found.items()}, metadata
