"""The loops that read a batch of serialized Examples: find and check every feature, then copy the values out.

`core/examples.py` says what the bytes mean; here is the same, for all Examples in one call.

Legend: B Examples, F features, K distinct keys. A *place* is the begin of a list's body and its end in the joined
bytes; a begin of -1: the feature is absent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from colonnade.backends.memory import load_i32, load_i64, load_u8, store_i32, store_i64, store_u8
from colonnade.core.examples import ABSENT, COUNT, DTYPE, KIND, UNREADABLE

Array = npt.NDArray[Any]

TEXT, FLOAT, INTEGER = 1, 2, 3
DENSE, RAGGED, PADDED = 0, 1, 2
_ENTRY, _VALUE = 1 << 3 | 2, 2 << 3 | 2
_FLOAT, _INTEGER = 1 << 3 | 5, 1 << 3
SMALLEST = 6
"""Bytes of an entry."""


ENTRIES: dict[str, Any] = {}
"""The functions that Python calls."""


def _jit(function: Callable[..., Any]) -> Any:
    """Compiled for operands of each type when it is first called with these."""
    compiled: Any = numba.njit  # its declaration lacks the options for wrappers
    ENTRIES[function.__name__] = made = compiled(nogil=True, error_model="numpy")(function)
    return made


def _part(function: Callable[..., Any]) -> Any:
    """The same for a function that Python does not call: it needs no wrapper."""
    compiled: Any = numba.njit
    return compiled(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


@_part
def _varint(data: int, at: int, end: int) -> tuple[np.uint64, int]:
    """The value and the offset behind it; the offset -1: it does not parse."""
    value = np.uint64(0)
    shift = np.uint64(0)
    for k in range(10):
        if at + k >= end:
            return np.uint64(0), -1
        byte = np.uint64(load_u8(data + at + k))
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return value, at + k + 1
        shift += np.uint64(7)
    return np.uint64(0), -1


@_part
def _length(data: int, at: int, end: int) -> tuple[int, int]:
    if at < end and load_u8(data + at) < 0x80:
        return int(load_u8(data + at)), at + 1
    value, at = _varint(data, at, end)
    return int(value & np.uint64(0xFFFFFFFF)), at


@_part
def _span(data: int, at: int, end: int) -> tuple[int, int]:
    """Begin and end of the bytes behind a length; the end -1: they are not all there."""
    length, at = _length(data, at, end)
    if at < 0 or at + length > end:
        return 0, -1
    return at, at + length


@_part
def _skipped(data: int, at: int, end: int) -> int:
    tag, at = _varint(data, at, end)
    if at < 0:
        return -1
    wire = tag & np.uint64(7)
    if wire == 0:
        _, at = _varint(data, at, end)
        return at
    if wire == 2:
        length, at = _length(data, at, end)
        return min(end, at + length) if at >= 0 else -1
    width = 8 if wire == 1 else 4 if wire == 5 else 0
    return at + width if width and at + width <= end else -1


@_part
def _find(data: int, start: int, end: int, keys: int, key_ends: int, table: int, mask: int, guess: int) -> int:
    """The number of a key, -1: nobody asks for it.   guess: looked at first.   mask: places of the table less one."""
    if guess >= 0 and _same(data, start, end, keys, key_ends, guess):
        return guess
    h = np.uint64(14695981039346656037)
    for at in range(start, end):
        h = (h ^ np.uint64(load_u8(data + at))) * np.uint64(1099511628211)
    place = int(np.int64(h & np.uint64(mask)))
    while True:
        key = load_i64(table + 8 * place)
        if key < 0:
            return -1
        if _same(data, start, end, keys, key_ends, key):
            return key
        place = (place + 1) & mask


@_part
def _same(data: int, start: int, end: int, keys: int, key_ends: int, key: int) -> bool:
    first = load_i64(key_ends + 8 * key)
    if end - start != load_i64(key_ends + 8 * key + 8) - first:
        return False
    for k in range(end - start):  # noqa: SIM110  numba knows no `all`
        if load_u8(data + start + k) != load_u8(keys + first + k):
            return False
    return True


@_part
def _entry(data: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Begin and end of the key and of the value, and the offset behind the entry; -1: unreadable."""
    length, at = _length(data, at, end)
    if at < 0:
        return 0, 0, 0, 0, -1
    stop = min(end, at + length)
    key_start, key_end, value_start, value_end = at, at, at, at
    for _ in range(2):
        tag, at = _varint(data, at, stop)
        tag &= np.uint64(0xFFFFFFFF)
        if at >= 0 and tag == _ENTRY:
            key_start, key_end = _span(data, at, stop)
            at = key_end
        elif at >= 0 and tag == _VALUE:
            value_start, value_end = _span(data, at, stop)
            at = value_end
        else:
            at = -1
        if at < 0:
            return 0, 0, 0, 0, -1
    return key_start, key_end, value_start, value_end, at if at == stop else -1


@_part
def _entries(
    data: int, at: int, end: int, keys: int, key_ends: int, table: int, mask: int, after: int, found: int
) -> int:
    """Write (key, begin, end of its value) of every entry that is asked for; gives their number, -1: unreadable.

    after: [K + 1] the key that came after each in an earlier Example: it is likely to come again.
    """
    num, last = 0, 0
    while at < end:
        if load_u8(data + at) != _ENTRY:
            at = _skipped(data, at, end)
            if at < 0:
                return -1
            continue
        length, at = _length(data, at + 1, end)
        if at < 0:
            return -1
        stop = min(end, at + length)
        while at < stop:
            if load_u8(data + at) != _ENTRY:
                return -1
            key_start, key_end, value_start, value_end, at = _entry(data, at + 1, stop)
            if at < 0:
                return -1
            key = _find(data, key_start, key_end, keys, key_ends, table, mask, load_i64(after + 8 * last))
            if key >= 0:
                place = found + 24 * num
                store_i64(place, key)
                store_i64(place + 8, value_start)
                store_i64(place + 16, value_end)
                num += 1
                store_i64(after + 8 * last, key)
                last = key + 1
    return num


@_part
def _body(data: int, start: int, end: int) -> tuple[int, int]:
    """The body of a list, from the tag of its field; the end -1: its length does not parse."""
    length, at = _length(data, start + 1, end)
    if at < 0:
        return 0, -1
    return at, min(end, at + length)


@_part
def _packed(data: int, at: int, end: int) -> tuple[int, int, bool]:
    """The packed numbers of a list's body and true, or the body itself and false; the offset -1: unreadable."""
    if at < end and load_u8(data + at) == _ENTRY:
        length, at = _length(data, at + 1, end)
        return (at, length, True) if at >= 0 else (-1, 0, True)
    return at, end - at, False


@_part
def _count_texts(data: int, at: int, end: int) -> tuple[int, int]:
    """How many strings the body of a list has, and their bytes; -1: it does not parse."""
    num, size = 0, 0
    while at < end:
        if load_u8(data + at) != _ENTRY:
            return -1, 0
        first, at = _span(data, at + 1, end)
        if at < 0:
            return -1, 0
        size += at - first
        num += 1
    return num, size


@_part
def _count_floats(data: int, at: int, end: int) -> int:
    at, length, packed = _packed(data, at, end)
    if at < 0:
        return -1
    if packed:
        return length // 4 if at + length // 4 * 4 <= end else -1
    num = 0
    while at < end:
        if load_u8(data + at) != _FLOAT or at + 5 > end:
            return -1
        at += 5
        num += 1
    return num


@_part
def _count_integers(data: int, at: int, end: int) -> int:
    at, length, packed = _packed(data, at, end)
    if at < 0:
        return -1
    stop = min(end, at + length)
    num = 0
    while at < stop:
        if not packed:
            if load_u8(data + at) != _INTEGER:
                return -1
            at += 1
        _, at = _varint(data, at, stop)
        if at < 0:
            return -1
        num += 1
    return num


@_jit
def scan(
    data: Array,
    ends: Array,
    keys: Array,
    key_ends: Array,
    table: Array,
    first: Array,
    following: Array,
    spec: Array,
    after: Array,
    found: Array,
    places: Array,
    counts: Array,
    sizes: Array,
    troubles: Array,
) -> int:
    """Find and check every feature of every Example; gives how many Examples are bad.

    ends: [B + 1].   first, following: the features of a key, linked.   spec: [F, 4] dtype, kind, values, has a default.
    after: [K + 1] of -1, found: [longest Example / `SMALLEST` + 1, 3]: room.
    places: [F, B, 2] of -1, counts: [F, B] and sizes: [F, B], bytes of strings, of 0; written.
    troubles: [B, 4] Example, feature, code, what it has; written.
    """
    bad, num_rows, num_features = 0, len(ends) - 1, len(spec)
    text, names, name_ends = data.ctypes.data, keys.ctypes.data, key_ends.ctypes.data
    places_at, counts_at, sizes_at = places.ctypes.data, counts.ctypes.data, sizes.ctypes.data
    specs, listed, mask = spec.ctypes.data, found.ctypes.data, len(table) - 1
    for e in range(num_rows):
        code, where, has = 0, -1, 0
        num = _entries(
            text, ends[e], ends[e + 1], names, name_ends, table.ctypes.data, mask, after.ctypes.data, listed
        )  # fmt: skip
        if num < 0:
            code = UNREADABLE
        k = num - 1
        while k >= 0 and code == 0:
            entry = listed + 24 * k
            f = first[load_i64(entry)]
            while f >= 0 and code == 0:
                at = f * num_rows + e
                begin, stop = load_i64(entry + 8), load_i64(entry + 16)
                code, has = _feature(
                    text, begin, stop, specs + 32 * f, places_at + 16 * at, counts_at + 8 * at, sizes_at + 8 * at
                )
                where = f
                f = following[f]
            k -= 1
        if code == 0:
            where = _absent(specs, num_features, places_at + 16 * e, 16 * num_rows)
            code = ABSENT if where >= 0 else 0
        if code:
            troubles[bad, 0], troubles[bad, 1], troubles[bad, 2], troubles[bad, 3] = e, where, code, has
            bad += 1
    return bad


@_part
def _absent(spec: int, num: int, places: int, pitch: int) -> int:
    """The first dense feature that an Example lacks and that has no default; -1: none."""
    for f in range(num):
        one = spec + 32 * f
        if load_i64(one + 8) == DENSE and load_i64(places + pitch * f) < 0 and load_i64(one + 24) == 0:
            return f
    return -1


@_part
def _feature(data: int, start: int, end: int, spec: int, place: int, count: int, bytes_at: int) -> tuple[int, int]:
    """Note one feature of an Example; gives what is wrong, and what it has.

    spec, place, count, bytes_at: addresses of what is known of the feature, and of where its list is noted.
    """
    kind, size = load_i64(spec + 8), load_i64(spec + 16)
    field = 0
    if start < end:
        tag = int(load_u8(data + start))
        field = tag >> 3
        if tag & 7 != 2 or field < 1 or field > 3:
            return KIND, 0
    if load_i64(place) >= 0:
        return 0, 0
    if start == end:
        if kind != DENSE:
            store_i64(place, start)
            store_i64(place + 8, start)
        return 0, 0
    if field != load_i64(spec):
        return DTYPE, field
    at, stop = _body(data, start, end)
    if stop < 0:
        return UNREADABLE, 0
    num, num_bytes = 0, 0
    if field == TEXT:
        num, num_bytes = _count_texts(data, at, stop)
    elif field == FLOAT:
        num = _count_floats(data, at, stop)
    else:
        num = _count_integers(data, at, stop)
    if num < 0:
        return UNREADABLE, 0
    if (kind == DENSE and num != size) or (kind == PADDED and num > size):
        return COUNT, num
    store_i64(place, at)
    store_i64(place + 8, stop)
    store_i64(count, num)
    store_i64(bytes_at, num_bytes)
    return 0, 0


@_part
def _write_floats(data: int, start: int, end: int, out: int) -> int:
    """The bits of the floats of one list, 4 bytes each; gives how many there are."""
    at, length, packed = _packed(data, start, end)
    step = 4 if packed else 5
    num = int(length // step)
    at += 0 if packed else 1
    for k in range(num):
        store_i32(out + 4 * k, np.int32(load_i32(data + at + k * step)))
    return num


@_part
def _write_integers(data: int, start: int, end: int, out: int) -> int:
    """The integers of one list, 8 bytes each; gives how many there are."""
    at, length, packed = _packed(data, start, end)
    stop = min(end, at + length)
    num = 0
    while at < stop:
        at += 0 if packed else 1
        value, at = _varint(data, at, stop)
        store_i64(out + 8 * num, int(np.int64(value)))
        num += 1
    return num


@_jit
def lay_out(spec: Array, counts: Array, ends: Array) -> None:
    """Where the values of each Example end among those of its feature. ends: [F, B + 1], written."""
    for f in range(len(spec)):
        ends[f, 0] = 0
        is_ragged = spec[f, 1] == RAGGED
        for e in range(counts.shape[1]):
            ends[f, e + 1] = ends[f, e] + (counts[f, e] if is_ragged else spec[f, 2])


@_jit
def copy_numbers(
    data: Array,
    places: Array,
    spec: Array,
    ends: Array,
    wanted: Array,
    fills: Array,
    floats: Array,
    integers: Array,
) -> None:
    """The numbers of all features that are wanted, feature by feature.

    wanted: [n, 3] feature, where its values begin in the array of their kind, where what fills it up begins in
    `fills` (the bits, one for each value of an Example).   floats: uint32.   integers: int64.
    """
    for w in range(len(wanted)):
        f, base, fill = wanted[w, 0], wanted[w, 1], wanted[w, 2]
        is_float = spec[f, 0] == FLOAT
        text = data.ctypes.data
        size = 0 if spec[f, 1] == RAGGED else spec[f, 2]
        for e in range(ends.shape[1] - 1):
            start, to = places[f, e, 0], base + ends[f, e]
            num = 0
            if start >= 0:
                if is_float:
                    num = _write_floats(text, start, places[f, e, 1], floats.ctypes.data + 4 * to)
                else:
                    num = _write_integers(text, start, places[f, e, 1], integers.ctypes.data + 8 * to)
            for k in range(num, size):
                if is_float:
                    floats[to + k] = np.uint32(fills[fill + k])
                else:
                    integers[to + k] = fills[fill + k]


@_jit
def copy_texts(
    data: Array, places: Array, width: int, spread: int, fill: Array, fill_ends: Array, out: Array, out_ends: Array
) -> None:
    """The strings of one feature, end to end; an Example with fewer than `width` is filled up.

    fill, fill_ends: strings to fill with; spread: 1 where each has its own place, 0 where one is for all places.
    """
    at_out, k = 0, 0
    text, target = data.ctypes.data, out.ctypes.data
    out_ends[0] = 0
    for e in range(len(places)):
        at, end = places[e, 0], places[e, 1]
        num = 0
        while 0 <= at < end:
            first, at = _span(text, at + 1, end)
            for p in range(first, at):
                store_u8(target + at_out, load_u8(text + p))
                at_out += 1
            k += 1
            num += 1
            out_ends[k] = at_out
        while num < width:
            for p in range(fill_ends[num * spread], fill_ends[num * spread + 1]):
                out[at_out] = fill[p]
                at_out += 1
            k += 1
            num += 1
            out_ends[k] = at_out
