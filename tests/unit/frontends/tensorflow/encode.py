"""Writes the protobuf and TensorBundle bytes that the tests of the readers need."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from colonnade.frontends.tensorflow.bundle import slice_key
from colonnade.frontends.tensorflow.crc32c import extend, masked


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block(field: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def shape(*sizes: int) -> bytes:
    return b"".join(block(2, number(1, size)) for size in sizes)


def pair(field: int, key: str, value: bytes | str) -> bytes:
    return block(field, block(1, key) + block(2, value))


def node(name: str, op: str, *inputs: str, attrs: Mapping[str, bytes] | None = None) -> bytes:
    refs = b"".join(block(3, ref) for ref in inputs)
    return block(1, name) + block(2, op) + refs + b"".join(pair(5, k, v) for k, v in (attrs or {}).items())


def op_def(name: str, outputs: Sequence[str], defaults: Mapping[str, bytes] | None = None) -> bytes:
    declared = b"".join(block(4, block(1, key) + block(3, value)) for key, value in (defaults or {}).items())
    return block(1, name) + b"".join(block(3, block(1, output) + number(3, 1)) for output in outputs) + declared


def function(
    name: str, inputs: Sequence[str], nodes: Sequence[bytes], ret: Mapping[str, str], control: Mapping[str, str]
) -> bytes:
    signature = block(1, name) + b"".join(block(2, block(1, i) + number(3, 1)) for i in inputs)
    signature += b"".join(block(3, block(1, o) + number(3, 1)) for o in ret)
    body = b"".join(block(3, n) for n in nodes)
    return (
        block(1, signature)
        + body
        + b"".join(pair(4, *r) for r in ret.items())
        + b"".join(pair(6, *c) for c in control.items())
    )


def tensor_info(name: str, *sizes: int) -> bytes:
    return block(1, name) + number(2, 1) + block(3, shape(*sizes))


def saved_model(
    nodes: Sequence[bytes], functions: Sequence[bytes] = (), ops: Sequence[bytes] = (), tags: Sequence[str] = ("serve",)
) -> bytes:
    info = block(2, b"".join(block(1, op) for op in ops)) + b"".join(block(4, t) for t in tags) + block(5, "2.0")
    graph = b"".join(block(1, n) for n in nodes) + block(2, b"".join(block(1, f) for f in functions))
    signature = pair(1, "x", tensor_info("x:0", -1, 2)) + pair(2, "y", tensor_info("y:0", -1)) + block(3, "predict")
    return number(1, 1) + block(2, block(1, info) + block(2, graph) + pair(5, "serving_default", signature))


def write_model(path: Path, data: bytes) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "saved_model.pb").write_bytes(data)
    return path


def _table_block(entries: Sequence[tuple[bytes, bytes]], compression: int = 0) -> bytes:
    """One block whose keys share prefixes, with one restart point, its type and its checksum."""
    out = bytearray()
    last = b""
    for key, value in entries:
        shared = next((i for i, (a, b) in enumerate(zip(last, key, strict=False)) if a != b), min(len(last), len(key)))
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    out += struct.pack("<II", 0, 1) + bytes([compression])
    return bytes(out) + struct.pack("<I", masked(extend(0, bytes(out))))


def index(entries: Mapping[bytes, bytes], compression: int = 0, per_block: int = 2) -> bytes:
    """A sorted table with `per_block` entries a data block."""
    items = sorted(entries.items())
    out = b""
    handles = []
    for start in range(0, len(items), per_block):
        data = _table_block(items[start : start + per_block], compression)
        handles.append((items[min(start + per_block, len(items)) - 1][0], varint(len(out)) + varint(len(data) - 5)))
        out += data
    meta = varint(len(out)) + varint(8)
    out += _table_block([])
    top = _table_block(handles)
    footer = meta + varint(len(out)) + varint(len(top) - 5)
    return out + top + footer.ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")


def entry(
    dtype: int, sizes: Sequence[int], offset: int, size: int, crc: int, shard: int = 0, extra: bytes = b""
) -> bytes:
    out = number(1, dtype) + block(2, shape(*sizes)) + number(3, shard) + number(4, offset) + number(5, size)
    return out + varint(6 << 3 | 5) + struct.pack("<I", crc) + extra


Part = tuple[tuple[tuple[int, int | None], ...], Sequence[int], bytes]
"""A part of a partitioned tensor: its (start, length) a dimension, its shape and its bytes."""


def write_bundle(
    folder: Path,
    tensors: Mapping[str, tuple[int, Sequence[int], bytes]],
    parted: Mapping[str, tuple[int, Sequence[int], Sequence[Part]]] | None = None,
) -> Path:
    """A bundle of (dtype number, shape, bytes) with one data file; gives its prefix.

    parted: tensors that are stored in parts, as (dtype number, shape, parts).
    """
    folder.mkdir(parents=True, exist_ok=True)
    data = b""
    entries = {b"": number(1, 1)}
    for key, (dtype, whole, parts) in (parted or {}).items():
        said = [
            b"".join(
                block(1, number(1, start) + (b"" if length is None else number(2, length))) for start, length in extents
            )
            for extents, _, _ in parts
        ]
        entries[key.encode()] = entry(dtype, whole, 0, 0, 0, extra=b"".join(block(7, extents) for extents in said))
        for extents, sizes, raw in parts:
            code = slice_key(key, extents)
            entries[code] = entry(dtype, sizes, len(data), len(raw), masked(extend(0, raw)))
            data += raw
    for key, (dtype, sizes, raw) in tensors.items():
        entries[key.encode()] = entry(dtype, sizes, len(data), len(raw), masked(extend(0, raw)))
        data += raw
    (folder / "variables.index").write_bytes(index(entries))
    (folder / "variables.data-00000-of-00001").write_bytes(data)
    return folder / "variables"
