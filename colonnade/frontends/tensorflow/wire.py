"""The protobuf wire format: varints, fields and packed lists over a buffer, by offsets and without copies."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator

from colonnade.errors import ImportFailure

Buffer = bytes | mmap.mmap
Span = tuple[int, int]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

_MAX_SHIFT = 63  # a varint has at most ten bytes


def damaged(message: str, where: str = "", got: str = "", want: str = "") -> ImportFailure:
    """The error for bytes that do not parse."""
    hint = "the file is truncated, damaged or of another kind: copy it again"
    return ImportFailure(message, where=where, got=got, want=want, help=hint)


def varint(buf: Buffer, i: int, end: int) -> tuple[int, int]:
    """The unsigned varint at `i` and the offset behind it."""
    value = 0
    shift = 0
    while i < end:
        byte = buf[i]
        i += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, i
        shift += 7
        if shift > _MAX_SHIFT:
            raise damaged("a varint is longer than ten bytes", where=f"byte {i}")
    raise damaged("a varint runs over the end of its message", where=f"byte {i}")


def signed(value: int) -> int:
    """The two's complement reading of a 64-bit varint (`int32` and `int64` fields)."""
    return value - (1 << 64) if value >> 63 else value


def fields(buf: Buffer, i: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Every field of the message in `buf[i:end]`: (number, wire type, a, b).

    Facts: a varint has its unsigned value in `a`; every other type has its bytes at `buf[a:b]`.
    """
    while i < end:
        field, kind, a, b, i = _field(buf, i, end)
        yield field, kind, a, b


def _field(buf: Buffer, i: int, end: int) -> tuple[int, int, int, int, int]:
    """The field at `i` as `fields` gives it, and the offset behind it."""
    if end - i > 1 and buf[i] < 0x80 and buf[i + 1] < 0x80:  # a tag and a number of one byte each, as nearly always
        tag = buf[i]
        number = buf[i + 1]
        kind = tag & 7
        if kind == BYTES and i + 2 + number <= end:
            return tag >> 3, kind, i + 2, i + 2 + number, i + 2 + number
        if kind == VARINT:
            return tag >> 3, kind, number, 0, i + 2
    tag, i = varint(buf, i, end)
    kind = tag & 7
    if kind == BYTES:
        size, i = varint(buf, i, end)
        stop = i + size
    elif kind == VARINT:
        value, i = varint(buf, i, end)
        return tag >> 3, kind, value, 0, i
    elif kind in (FIXED32, FIXED64):
        stop = i + (4 if kind == FIXED32 else 8)
    else:
        raise damaged(f"wire type {kind} is not one that is used here", where=f"byte {i}")
    if stop > end:
        got, want = f"{end - i} bytes", f"{stop - i} bytes"
        raise damaged("a field runs over the end of its message", f"byte {i}", got, want)
    return tag >> 3, kind, i, stop, stop


def spans(buf: Buffer, i: int, end: int, number: int) -> Iterator[Span]:
    """The byte ranges of every length-delimited field `number`."""
    wanted = number << 3 | BYTES
    while i < end:
        # The common case, a one-byte tag and a length of one or two bytes, without a call.
        if end - i > 3 and buf[i] == wanted and (buf[i + 1] < 0x80 or buf[i + 2] < 0x80):
            size = buf[i + 1]
            i += 2
            if size > 0x7F:
                size += (buf[i] << 7) - 0x80
                i += 1
            if i + size > end:
                raise damaged(
                    "a field runs over the end of its message", f"byte {i}", f"{end - i} bytes", f"{size} bytes"
                )
            yield i, i + size
            i += size
            continue
        field, kind, a, b, i = _field(buf, i, end)
        if field == number and kind == BYTES:
            yield a, b


def span(buf: Buffer, i: int, end: int, number: int) -> Span | None:
    """The byte range of the last length-delimited field `number`."""
    found = None
    for part in spans(buf, i, end, number):
        found = part
    return found


def text(buf: Buffer, a: int, b: int) -> str:
    """`buf[a:b]` as UTF-8."""
    try:
        return buf[a:b].decode("utf-8")
    except UnicodeDecodeError:
        raise damaged("a name is not UTF-8", where=f"byte {a}", got=repr(buf[a : min(b, a + 60)])) from None


def texts(buf: Buffer, i: int, end: int, number: int) -> tuple[str, ...]:
    """Every string field `number`."""
    return tuple(text(buf, a, b) for a, b in spans(buf, i, end, number))


def entry(buf: Buffer, i: int, end: int) -> tuple[str, Span]:
    """Key and byte range of the value of one map entry."""
    key = ""
    value = (end, end)
    for field, kind, a, b in fields(buf, i, end):
        if kind == BYTES and field == 1:
            key = text(buf, a, b)
        elif kind == BYTES and field == 2:
            value = (a, b)
    return key, value


def integers(buf: Buffer, kind: int, a: int, b: int) -> list[int]:
    """The unsigned values of one occurrence of a repeated varint field, packed or not."""
    if kind == VARINT:
        return [a]
    if kind != BYTES:
        raise damaged("a varint field has another wire type", where=f"byte {a}", got=str(kind))
    out = []
    while a < b:
        value, a = varint(buf, a, b)
        out.append(value)
    return out


def raw(buf: Buffer, kind: int, a: int, b: int, width: int) -> bytes:
    """The little-endian bytes of one occurrence of a repeated fixed-width field, packed or not."""
    if kind == VARINT or (b - a) % width:
        raise damaged("a fixed-width field has another wire type or a broken size", where=f"byte {a}")
    return buf[a:b]


def real(buf: Buffer, kind: int, a: int, b: int) -> float:
    """One `float` field."""
    if kind != FIXED32:
        raise damaged("a float field has another wire type", where=f"byte {a}", got=str(kind))
    value: float = struct.unpack("<f", buf[a:b])[0]
    return value
