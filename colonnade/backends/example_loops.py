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
def _varint(data: Array, at: int, end: int) -> tuple[np.uint64, int]:
    """The value and the offset behind it; the offset -1: it does not parse."""
    value = np.uint64(0)
    shift = np.uint64(0)
    for k in range(10):
        if at + k >= end:
            return np.uint64(0), -1
        byte = np.uint64(data[at + k])
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return value, at + k + 1
        shift += np.uint64(7)
    return np.uint64(0), -1


@_part
def _length(data: Array, at: int, end: int) -> tuple[int, int]:
    if at < end and data[at] < 0x80:
        return int(data[at]), at + 1
    value, at = _varint(data, at, end)
    return int(value & np.uint64(0xFFFFFFFF)), at


@_part
def _span(data: Array, at: int, end: int) -> tuple[int, int]:
    """Begin and end of the bytes behind a length; the end -1: they are not all there."""
    length, at = _length(data, at, end)
    if at < 0 or at + length > end:
        return 0, -1
    return at, at + length


@_part
def _skipped(data: Array, at: int, end: int) -> int:
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
def _find(data: Array, start: int, end: int, keys: Array, key_ends: Array, table: Array, guess: int) -> int:
    """The number of a key, -1: nobody asks for it.   guess: looked at first."""
    if guess >= 0 and _same(data, start, end, keys, key_ends, guess):
        return guess
    h = np.uint64(14695981039346656037)
    for at in range(start, end):
        h = (h ^ np.uint64(data[at])) * np.uint64(1099511628211)
    mask = np.uint64(len(table) - 1)
    place = h & mask
    while table[place] >= 0:
        key = int(table[place])
        if _same(data, start, end, keys, key_ends, key):
            return key
        place = (place + np.uint64(1)) & mask
    return -1


@_part
def _same(data: Array, start: int, end: int, keys: Array, key_ends: Array, key: int) -> bool:
    first = key_ends[key]
    if end - start != key_ends[key + 1] - first:
        return False
    for k in range(end - start):  # noqa: SIM110  numba knows no `all`
        if data[start + k] != keys[first + k]:
            return False
    return True


@_part
def _entry(data: Array, at: int, end: int) -> tuple[int, int, int, int, int]:
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
    data: Array, at: int, end: int, keys: Array, key_ends: Array, table: Array, after: Array, found: Array
) -> int:
    """Write (key, begin, end of its value) of every entry that is asked for; gives their number, -1: unreadable.

    after: [K + 1] the key that came after each in an earlier Example: it is likely to come again.
    """
    num, last = 0, 0
    while at < end:
        if data[at] != _ENTRY:
            at = _skipped(data, at, end)
            if at < 0:
                return -1
            continue
        length, at = _length(data, at + 1, end)
        if at < 0:
            return -1
        stop = min(end, at + length)
        while at < stop:
            if data[at] != _ENTRY:
                return -1
            key_start, key_end, value_start, value_end, at = _entry(data, at + 1, stop)
            if at < 0:
                return -1
            key = _find(data, key_start, key_end, keys, key_ends, table, after[last])
            if key >= 0:
                found[num, 0], found[num, 1], found[num, 2] = key, value_start, value_end
                num += 1
                after[last] = key
                last = key + 1
    return num


@_part
def _body(data: Array, start: int, end: int) -> tuple[int, int]:
    """The body of a list, from the tag of its field; the end -1: its length does not parse."""
    length, at = _length(data, start + 1, end)
    if at < 0:
        return 0, -1
    return at, min(end, at + length)


@_part
def _packed(data: Array, at: int, end: int) -> tuple[int, int, bool]:
    """The packed numbers of a list's body and true, or the body itself and false; the offset -1: unreadable."""
    if at < end and data[at] == _ENTRY:
        length, at = _length(data, at + 1, end)
        return (at, length, True) if at >= 0 else (-1, 0, True)
    return at, end - at, False


@_part
def _count_texts(data: Array, at: int, end: int) -> tuple[int, int]:
    """How many strings the body of a list has, and their bytes; -1: it does not parse."""
    num, size = 0, 0
    while at < end:
        if data[at] != _ENTRY:
            return -1, 0
        first, at = _span(data, at + 1, end)
        if at < 0:
            return -1, 0
        size += at - first
        num += 1
    return num, size


@_part
def _count_floats(data: Array, at: int, end: int) -> int:
    at, length, packed = _packed(data, at, end)
    if at < 0:
        return -1
    if packed:
        return length // 4 if at + length // 4 * 4 <= end else -1
    num = 0
    while at < end:
        if data[at] != _FLOAT or at + 5 > end:
            return -1
        at += 5
        num += 1
    return num


@_part
def _count_integers(data: Array, at: int, end: int) -> int:
    at, length, packed = _packed(data, at, end)
    if at < 0:
        return -1
    stop = min(end, at + length)
    num = 0
    while at < stop:
        if not packed:
            if data[at] != _INTEGER:
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
    bad = 0
    for e in range(len(ends) - 1):
        code, where, has = 0, -1, 0
        num = _entries(data, ends[e], ends[e + 1], keys, key_ends, table, after, found)
        if num < 0:
            code = UNREADABLE
        k = num - 1
        while k >= 0 and code == 0:
            f = first[found[k, 0]]
            while f >= 0 and code == 0:
                code, has = _feature(data, found[k, 1], found[k, 2], spec, f, e, places, counts, sizes)
                where = f
                f = following[f]
            k -= 1
        if code == 0:
            where = _absent(spec, places, e)
            code = ABSENT if where >= 0 else 0
        if code:
            troubles[bad, 0], troubles[bad, 1], troubles[bad, 2], troubles[bad, 3] = e, where, code, has
            bad += 1
    return bad


@_part
def _absent(spec: Array, places: Array, e: int) -> int:
    """The first dense feature that an Example lacks and that has no default; -1: none."""
    for f in range(len(spec)):
        if spec[f, 1] == DENSE and places[f, e, 0] < 0 and spec[f, 3] == 0:
            return f
    return -1


@_part
def _feature(
    data: Array, start: int, end: int, spec: Array, f: int, e: int, places: Array, counts: Array, sizes: Array
) -> tuple[int, int]:
    """Note one feature of an Example; gives what is wrong, and what it has."""
    field = 0
    if start < end:
        field = int(data[start] >> 3)
        if data[start] & 7 != 2 or field < 1 or field > 3:
            return KIND, 0
    if places[f, e, 0] >= 0:
        return 0, 0
    if start == end:
        if spec[f, 1] != DENSE:
            places[f, e, 0], places[f, e, 1] = start, start
        return 0, 0
    if field != spec[f, 0]:
        return DTYPE, field
    at, stop = _body(data, start, end)
    if stop < 0:
        return UNREADABLE, 0
    num, size = 0, 0
    if field == TEXT:
        num, size = _count_texts(data, at, stop)
    elif field == FLOAT:
        num = _count_floats(data, at, stop)
    else:
        num = _count_integers(data, at, stop)
    if num < 0:
        return UNREADABLE, 0
    if (spec[f, 1] == DENSE and num != spec[f, 2]) or (spec[f, 1] == PADDED and num > spec[f, 2]):
        return COUNT, num
    places[f, e, 0], places[f, e, 1] = at, stop
    counts[f, e] = num
    sizes[f, e] = size
    return 0, 0


@_part
def _write_floats(data: Array, start: int, end: int, out: Array, to: int) -> int:
    """The bits of the floats of one list; gives how many there are. out: uint32."""
    at, length, packed = _packed(data, start, end)
    step = 4 if packed else 5
    num = int(length // step)
    at += 0 if packed else 1
    for k in range(num):
        p = at + k * step
        low = np.uint32(data[p]) | np.uint32(data[p + 1]) << np.uint32(8)
        out[to + k] = low | np.uint32(data[p + 2]) << np.uint32(16) | np.uint32(data[p + 3]) << np.uint32(24)
    return num


@_part
def _write_integers(data: Array, start: int, end: int, out: Array, to: int) -> int:
    """The integers of one list; gives how many there are. out: int64."""
    at, length, packed = _packed(data, start, end)
    stop = min(end, at + length)
    k = to
    while at < stop:
        at += 0 if packed else 1
        value, at = _varint(data, at, stop)
        out[k] = np.int64(value)
        k += 1
    return int(k - to)


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
        size = 0 if spec[f, 1] == RAGGED else spec[f, 2]
        for e in range(ends.shape[1] - 1):
            start, to = places[f, e, 0], base + ends[f, e]
            num = 0
            if start >= 0:
                if is_float:
                    num = _write_floats(data, start, places[f, e, 1], floats, to)
                else:
                    num = _write_integers(data, start, places[f, e, 1], integers, to)
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
    out_ends[0] = 0
    for e in range(len(places)):
        at, end = places[e, 0], places[e, 1]
        num = 0
        while 0 <= at < end:
            first, at = _span(data, at + 1, end)
            for p in range(first, at):
                out[at_out] = data[p]
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
