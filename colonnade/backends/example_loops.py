"""The loops that read a batch of serialized Examples: find, check and count every feature, then copy the values out.

`core/examples.py` says what the bytes mean; here is the same in two passes over all Examples. The first notes where the
values of each feature begin and writes those whose place is known; the second, once all are counted, writes the others.
A loop only says which Examples are bad; what is wrong with them the reference reader says.

An Example most often has its keys in the order of the one before, and written the shortest way: that order is guessed,
and the guess compared with the bytes. Examples are cut into chunks, which any thread may run.

Legend: B Examples, F features, T features that are *noted*, K distinct keys, C chunks. Everything lies at addresses,
which the words of a *call* hold; words and fields below are in bytes from the start of what they are part of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from colonnade.backends.atomics import atomic_add
from colonnade.backends.memory import (
    load_i32,
    load_i64,
    load_u8,
    load_u64,
    lowest_bit,
    store_i32,
    store_i64,
    store_u8,
    store_u64,
)

TEXT, FLOAT, INTEGER = 1, 2, 3
DENSE, PADDED, RAGGED, STEPS = 0, 1, 2, 3
"""From RAGGED on, an Example has any number of values; of STEPS, of whole blocks."""

# A call.
ROWS = 0
TEXTS = 8  # [B, 2] address and size of each Example
KEYS = 16  # [K] keys (KEY_...)
FEATURES = 24  # [F] features (DTYPE...)
TABLE = 32  # places of an open table of key numbers, -1: free
MASK = 40  # its places less one
NUM_KEYS = 48
NUM_FEATURES = 56
CHUNKS = 64
CHUNK_ROWS = 72
NOTED = 80  # [T] noted features (NOTED_...)
NUM_NOTED = 88
NOTES = 96  # [B, T, 2] where the values begin; how many, and above 32 bits their bytes (numbers: whether unpacked)
BAD = 104  # [B] bytes: 1 for an Example that cannot be read, written
FAILED = 112  # [C] how many of each chunk, written
SCRATCH = 120  # [C] parts of SCRATCH_BYTES: stamps [F], guesses [K + 1], sums [T, 2]
SCRATCH_BYTES = 128
GUESSES = 136  # [K + 1] the key that came after each (after none: the first) in an earlier Example, -1: none did
TOTALS = 152  # [T, 4] of each noted feature: its first element in its block, how many; first byte, how many; written
FLOATS = 160  # elements of the blocks, written by `lay_out`; then their addresses, read by `write`
INTEGERS = 168
STRINGS = 176
DATA = 184
OFFSETS = 192  # [R, B + 1] of the ragged features
LOCATED = 200  # [L] what addresses a backend is told (LOCATED_...)
NUM_LOCATED = 208
ADDRESSES = 216  # [L] written
NEXT = 256  # the next chunk to be claimed; on a cache line of its own
PLACES = 320  # addresses of the blocks of dense numbers
# At WORK of jobs.py (144) lies the address of the pass.

# A key.
KEY_ENTRY = 0  # address of the bytes that an entry of it has between the entry's length and that of its value
KEY_SIZE = 8  # how many; the memory goes on to a multiple of 8
KEY_FIRST = 16  # its first feature
KEY_NAME = 24  # where the key lies in those bytes
KEY_LENGTH = 32
KEY_BYTES = 40

# A feature.
DTYPE = 0
KIND = 8
SIZE = 16  # values of an Example, or of a block of steps
FILL = 24  # address of what fills it up: numbers, or (strings) address of bytes and SIZE + 1 ends; 0: nothing does
PLACE = 32  # where in the call the address of its block lies; 0: it is noted, or only checked
START = 40  # elements a row before it in that block
NOTE = 48  # its number among noted features; -1: not noted
FOLLOWING = 56  # the next feature of its key, -1: none
USUAL = 64  # the four bytes in front of a list of so many floats; 0: it is not looked for
FEATURE_BYTES = 72

# A noted feature.
NOTED_FEATURE = 0
NOTED_END = 8  # elements that its block has after those of this feature: 1 where the ends of strings end
NOTED_RAGGED = 16  # its number among ragged features that become inputs, -1: none
NOTED_BYTES = 24

# An address that a backend is told.
LOCATED_KIND = 0  # OF_...
LOCATED_NUMBER = 8  # of the ragged or noted feature
LOCATED_BYTES = 16
OF_OFFSETS, OF_VALUES, OF_DATA = 0, 1, 2

_ENTRY, _VALUE = 1 << 3 | 2, 2 << 3 | 2
_FLOAT, _INTEGER = 1 << 3 | 5, 1 << 3
_LOW = 0xFFFFFFFF
_MARKS = np.uint64(0x8080808080808080)
HASH_START, HASH_FACTOR = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
LARGEST = 0x7FFFFFFF
"""Bytes of an Example, as of any message of protobuf's."""
HEADERS = 24
"""Bytes within which lie the tag, the length and the value's length of an entry, and those of its list."""


ENTRIES: dict[str, Any] = {}
"""The functions that Python calls, or a thread by its address: int64 f(int64)."""


def _jit(function: Callable[..., Any]) -> Any:
    compiled: Any = numba.njit  # its declaration lacks the options for wrappers
    ENTRIES[function.__name__] = made = compiled(nogil=True, error_model="numpy")(function)
    return made


def _part(function: Callable[..., Any]) -> Any:
    """A function that Python does not call: it needs no wrapper."""
    compiled: Any = numba.njit
    return compiled(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


def _hot(function: Callable[..., Any]) -> Any:
    """A part that becomes part of its callers."""
    compiled: Any = numba.njit
    options = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return compiled(forceinline=True, **options)(function)


# -- protobuf ----------------------------------------------------------------------------------------------------------
@_part
def _varint(at: int, end: int) -> tuple[np.uint64, int]:
    """The value and the place behind it; the place -1: it does not parse."""
    value = np.uint64(0)
    shift = np.uint64(0)
    for k in range(10):
        if at + k >= end:
            return np.uint64(0), -1
        byte = np.uint64(load_u8(at + k))
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return value, at + k + 1
        shift += np.uint64(7)
    return np.uint64(0), -1


@_hot
def _length(at: int, end: int) -> tuple[int, int]:
    """A length and the place behind it; the place -1: it does not parse."""
    if at + 1 < end:
        first, second = int(np.int64(load_u8(at))), int(np.int64(load_u8(at + 1)))
        if first < 0x80:
            return first, at + 1
        if second < 0x80:
            return (first & 0x7F) | second << 7, at + 2
    value, at = _varint(at, end)
    return int(np.int64(value & np.uint64(_LOW))), at


@_hot
def _span(at: int, end: int) -> tuple[int, int]:
    """Begin and end of the bytes behind a length; the end -1: they are not all there."""
    length, at = _length(at, end)
    if at < 0 or at + length > end:
        return 0, -1
    return at, at + length


@_part
def _skipped(at: int, end: int) -> int:
    """The place behind a field that no Example has; -1: it does not parse."""
    tag, at = _varint(at, end)
    if at < 0:
        return -1
    wire = tag & np.uint64(7)
    if wire == 0:
        _, at = _varint(at, end)
        return at
    if wire == 2:
        length, at = _length(at, end)
        return min(end, at + length) if at >= 0 else -1
    width = 8 if wire == 1 else 4 if wire == 5 else 0
    return at + width if width and at + width <= end else -1


@_part
def _entry(at: int, end: int) -> tuple[int, int, int, int, int]:
    """Begin and end of the key and of the value, and the place behind the entry; -1: unreadable."""
    length, at = _length(at, end)
    if at < 0:
        return 0, 0, 0, 0, -1
    stop = min(end, at + length)
    key_start, key_end, value_start, value_end = at, at, at, at
    for _ in range(2):
        tag, at = _varint(at, stop)
        tag &= np.uint64(_LOW)
        if at >= 0 and tag == _ENTRY:
            key_start, key_end = _span(at, stop)
            at = key_end
        elif at >= 0 and tag == _VALUE:
            value_start, value_end = _span(at, stop)
            at = value_end
        else:
            at = -1
        if at < 0:
            return 0, 0, 0, 0, -1
    return key_start, key_end, value_start, value_end, at if at == stop else -1


# -- keys --------------------------------------------------------------------------------------------------------------
@_part
def _same(a: int, b: int, size: int) -> bool:
    """Whether two texts are equal, the first of which may be followed by nothing."""
    k = 0
    while k + 8 <= size:
        if load_u64(a + k) != load_u64(b + k):
            return False
        k += 8
    while k < size:
        if load_u8(a + k) != load_u8(b + k):
            return False
        k += 1
    return True


@_hot
def _same_padded(a: int, b: int, size: int) -> bool:
    """The same where both may be read up to a multiple of 8."""
    k = 0
    while k + 8 <= size:
        if load_u64(a + k) != load_u64(b + k):
            return False
        k += 8
    rest = size - k
    if rest == 0:
        return True
    return bool((load_u64(a + k) ^ load_u64(b + k)) << np.uint64(64 - 8 * rest) == np.uint64(0))


@_part
def _hash(at: int, size: int) -> np.uint64:
    found = np.uint64(HASH_START) ^ np.uint64(size)
    k = 0
    while k < size:
        if k + 8 <= size:
            word = load_u64(at + k)
        else:
            word = np.uint64(0)
            for b in range(size - k):
                word |= np.uint64(load_u8(at + k + b)) << np.uint64(8 * b)
        found = (found ^ word) * np.uint64(HASH_FACTOR)
        found ^= found >> np.uint64(32)
        k += 8
    return found


@_part
def _find(call: int, start: int, size: int) -> int:
    """The number of a key, -1: nobody asks for it."""
    table, mask, keys = load_i64(call + TABLE), load_i64(call + MASK), load_i64(call + KEYS)
    place = int(np.int64(_hash(start, size) & np.uint64(mask)))
    while True:
        number = load_i64(table + 8 * place)
        if number < 0:
            return -1
        key = keys + KEY_BYTES * number
        if load_i64(key + KEY_LENGTH) == size and _same(start, load_i64(key + KEY_NAME), size):
            return number
        place = (place + 1) & mask


# -- lists -------------------------------------------------------------------------------------------------------------
@_hot
def _texts_in(at: int, end: int) -> tuple[int, int]:
    """How many strings a list has, and their bytes; -1: it does not parse."""
    num, size = 0, 0
    while at < end:
        if load_u8(at) != _ENTRY:
            return -1, 0
        first, at = _span(at + 1, end)
        if at < 0:
            return -1, 0
        size += at - first
        num += 1
    return num, size


@_hot
def _numbers_in(at: int, end: int, is_float: bool) -> tuple[int, int, int, bool]:
    """Begin and end of the numbers of a list, whether they are packed, and how many floats; begin -1: unreadable."""
    packed = at < end and load_u8(at) == _ENTRY
    if packed:
        length, at = _length(at + 1, end)
        if at < 0:
            return -1, 0, 0, True
        if not is_float:
            return at, min(end, at + length), 0, True
        num = length >> 2
        return (at if at + 4 * num <= end else -1), at + 4 * num, num, True
    num = 0
    if is_float:
        place = at
        while place < end:
            if load_u8(place) != _FLOAT or place + 5 > end:
                return -1, 0, 0, False
            place += 5
            num += 1
    return at, end, num, False


@_hot
def _copy_floats(at: int, num: int, packed: bool, out: int) -> None:
    if packed:
        for k in range(num):
            store_i32(out + 4 * k, np.int32(load_i32(at + 4 * k)))
    else:
        for k in range(num):
            store_i32(out + 4 * k, np.int32(load_i32(at + 5 * k + 1)))


@_hot
def _behind(at: int, end: int, safe: int) -> int:
    """The place behind an integer; -1: it does not parse.   safe: memory may be read up to there."""
    if at + 8 <= safe:
        marks = ~load_u64(at) & _MARKS
        if marks:
            at += (lowest_bit(int(np.int64(marks))) >> 3) + 1
            return at if at <= end else -1
    _, at = _varint(at, end)
    return at


@_part
def _count_integers(at: int, end: int, packed: bool, safe: int) -> int:
    """How many integers a list has; -1: it does not parse."""
    num = 0
    while at < end:
        if not packed:
            if load_u8(at) != _INTEGER:
                return -1
            at += 1
        at = _behind(at, end, safe)
        if at < 0:
            return -1
        num += 1
    return num


@_hot
def _integer(at: int, end: int, safe: int) -> tuple[np.uint64, int]:
    """`_varint`, by words where memory may be read so far."""
    if at + 8 <= safe:
        word = load_u64(at)
        if word & np.uint64(0x80) == np.uint64(0):
            return word & np.uint64(0x7F), at + 1 if at < end else -1
        marks = ~word & _MARKS
        if marks:
            last = lowest_bit(int(np.int64(marks)))
            at += (last >> 3) + 1
            word &= np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(63 - last)
            word = (word & np.uint64(0x007F007F007F007F)) | (word & np.uint64(0x7F007F007F007F00)) >> np.uint64(1)
            word = (word & np.uint64(0x00003FFF00003FFF)) | (word & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2)
            word = (word & np.uint64(0x000000000FFFFFFF)) | (word & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4)
            return np.uint64(word), at if at <= end else -1
    value, at = _varint(at, end)
    return value, at


@_part
def _copy_integers(at: int, end: int, packed: bool, safe: int, out: int, most: int) -> int:
    """Write the first integers of a list, `most` at most, and say how many it has; -1: it does not parse."""
    num = 0
    while at < end:
        if not packed:
            if load_u8(at) != _INTEGER:
                return -1
            at += 1
        value, at = _integer(at, end, safe)
        if at < 0:
            return -1
        if num < most:
            store_u64(out + 8 * num, value)
        num += 1
    return num


@_hot
def _copy_bytes(at: int, size: int, out: int) -> None:
    if size >= 8:
        k = 0
        while k + 8 <= size:
            store_u64(out + k, load_u64(at + k))
            k += 8
        store_u64(out + size - 8, load_u64(at + size - 8))
        return
    if size >= 4:
        first, last = load_i32(at), load_i32(at + size - 4)
        store_i32(out, np.int32(first))
        store_i32(out + size - 4, np.int32(last))
        return
    for k in range(size):
        store_u8(out + k, load_u8(at + k))


# -- the first pass ----------------------------------------------------------------------------------------------------
@_hot
def _place_of(call: int, feature: int, row: int) -> int:
    """Where the dense numbers of a row begin."""
    width = 4 if load_i64(feature + DTYPE) == FLOAT else 8
    before = load_i64(call + ROWS) * load_i64(feature + START) + row * load_i64(feature + SIZE)
    return load_i64(call + load_i64(feature + PLACE)) + width * before


@_part
def _fill(call: int, feature: int, row: int, num: int) -> None:
    """Write the numbers that a dense feature has beyond its first ones."""
    out, fill, size = _place_of(call, feature, row), load_i64(feature + FILL), load_i64(feature + SIZE)
    if load_i64(feature + DTYPE) == FLOAT:
        for k in range(num, size):
            store_i32(out + 4 * k, np.int32(load_i32(fill + 4 * k)))
    else:
        for k in range(num, size):
            store_i64(out + 8 * k, load_i64(fill + 8 * k))


@_hot
def _note(call: int, scratch: int, feature: int, row: int, at: int, num: int, more: int, again: bool) -> None:
    """Note where the values of an Example begin, and add them to the sums of its chunk.

    more: bytes of strings; of numbers whether they are unpacked.   again: the Example has been noted for the feature.
    """
    t = load_i64(feature + NOTE)
    note = load_i64(call + NOTES) + 16 * (row * load_i64(call + NUM_NOTED) + t)
    sums = scratch + 8 * (load_i64(call + NUM_FEATURES) + load_i64(call + NUM_KEYS) + 1) + 16 * t
    is_text = load_i64(feature + DTYPE) == TEXT
    if again:
        before = load_i64(note + 8)
        _add(sums, feature, is_text, before & _LOW, before >> 32, -1)
    store_i64(note, at)
    store_i64(note + 8, num | more << 32)
    _add(sums, feature, is_text, num, more, 1)


@_hot
def _add(sums: int, feature: int, is_text: bool, num: int, more: int, sign: int) -> None:
    elements = num
    if is_text:
        if load_i64(feature + KIND) < RAGGED:
            elements = load_i64(feature + SIZE)
            fill = load_i64(feature + FILL)
            if num < elements:
                more += load_i64(fill + 8 + 8 * elements) - load_i64(fill + 8 + 8 * num)
        store_i64(sums + 8, load_i64(sums + 8) + sign * more)
    store_i64(sums, load_i64(sums) + sign * elements)


@_hot
def _list(call: int, scratch: int, feature: int, row: int, start: int, end: int, safe: int, again: bool) -> bool:
    """Take one list, which begins with the tag of its dtype and is of no other; gives whether it can be read."""
    kind, size, dtype = load_i64(feature + KIND), load_i64(feature + SIZE), load_i64(feature + DTYPE)
    usual = load_i64(feature + USUAL)
    if usual and end - start == 4 * size + 4 and load_i32(start) == usual:
        _copy_floats(start + 4, size, True, _place_of(call, feature, row))
        return True
    length, at = _length(start + 1, end)
    if at < 0:
        return False
    stop = min(end, at + length)
    noted, dense = load_i64(feature + NOTE) >= 0, load_i64(feature + PLACE) != 0
    num, more = 0, 0
    if dtype == TEXT:
        num, more = _texts_in(at, stop)
    else:
        at, stop, num, packed = _numbers_in(at, stop, dtype == FLOAT)
        if at < 0:
            return False
        if dtype == INTEGER:
            if dense:
                num = _copy_integers(at, stop, packed, safe, _place_of(call, feature, row), size)
            else:
                num = _count_integers(at, stop, packed, safe)
        elif dense:
            _copy_floats(at, min(num, size), packed, _place_of(call, feature, row))
        more = 0 if packed else 1
    if num < 0 or (kind == DENSE and num != size) or (kind == PADDED and num > size):
        return False
    if kind == STEPS and num % size:
        return False
    if noted:
        _note(call, scratch, feature, row, at, num, more, again)
    elif dense and num < size:
        _fill(call, feature, row, num)
    return True


@_part
def _absent(call: int, scratch: int, row: int) -> bool:
    """Fill up what an Example has not; gives whether it may lack that."""
    for f in range(load_i64(call + NUM_FEATURES)):
        if load_i64(scratch + 8 * f) >> 2 == row + 1:
            continue
        feature = load_i64(call + FEATURES) + FEATURE_BYTES * f
        if load_i64(feature + KIND) == DENSE and load_i64(feature + FILL) == 0:
            return False
        if load_i64(feature + NOTE) >= 0:
            _note(call, scratch, feature, row, 0, 0, 0, False)
        elif load_i64(feature + PLACE):
            _fill(call, feature, row, 0)
    return True


@_hot
def _guessed(key: int, at: int, stop: int, end: int) -> tuple[int, int]:
    """Begin and end of the value of an entry that is written as one of this key most often is; the end -1: it is not.

    at: behind the entry's tag.   stop: where entries end.   end: memory may be read up to there.
    """
    size = load_i64(key + KEY_SIZE)
    if at + size + HEADERS > end:
        return 0, -1
    length, place = _length(at, end)
    behind = place + length
    if place < 0 or behind > stop or not _same_padded(place, load_i64(key + KEY_ENTRY), size):
        return 0, -1
    length, start = _length(place + size, end)
    return start, behind if start >= 0 and start + length == behind else -1


@_part
def _empty(call: int, scratch: int, feature: int, row: int, start: int, again: bool) -> None:
    """Take a list that is not there, of a feature that may have none."""
    if load_i64(feature + NOTE) >= 0:
        _note(call, scratch, feature, row, start, 0, 0, again)
    elif load_i64(feature + PLACE):
        _fill(call, feature, row, 0)


@_hot
def _take(call: int, scratch: int, number: int, row: int, start: int, end: int, safe: int) -> tuple[int, int]:
    """Take the value of an entry for each feature of its key.

    Gives how many features were found for the first time, -1: the value is no list; and how many more than before
    cannot be read. Of entries with one key the last counts, so that a later one may take an error back.
    """
    field, found, bad = 0, 0, 0
    if start < end:
        tag = int(np.int64(load_u8(start)))
        field = tag >> 3
        if tag & 7 != 2 or field < 1 or field > 3:
            return -1, 0
    f = load_i64(load_i64(call + KEYS) + KEY_BYTES * number + KEY_FIRST)
    while f >= 0:
        feature = load_i64(call + FEATURES) + FEATURE_BYTES * f
        kind = load_i64(feature + KIND)
        if field or (kind != DENSE and kind != STEPS):
            state = load_i64(scratch + 8 * f)
            if state >> 2 != row + 1:
                state = 0
            ok, again = True, state & 2 != 0
            if field == 0:
                _empty(call, scratch, feature, row, start, again)
            elif field != load_i64(feature + DTYPE):
                ok = False
            else:
                ok = _list(call, scratch, feature, row, start, end, safe, again)
            found += 1 if state == 0 else 0
            bad += (0 if ok else 1) - (state & 1)
            store_i64(scratch + 8 * f, 4 * (row + 1) + (2 if ok or again else 0) + (0 if ok else 1))
        f = load_i64(feature + FOLLOWING)
    return found, bad


@_part
def _entries(call: int, scratch: int, row: int, at: int, stop: int, end: int, last: int) -> tuple[int, int, int]:
    """Take all entries of a message.

    last: the key before the first, plus 1; 0: none.   end: of the Example.
    Gives how many features were found, -1: the message is unreadable; how many cannot be read; and the last key.
    """
    keys, guesses = load_i64(call + KEYS), scratch + 8 * load_i64(call + NUM_FEATURES)
    found, bad = 0, 0
    while at < stop:
        if load_u8(at) != _ENTRY:
            return -1, 0, 0
        number, start, behind = load_i64(guesses + 8 * last), 0, -1
        if number >= 0:
            start, behind = _guessed(keys + KEY_BYTES * number, at + 1, stop, end)
        value_end = behind
        if behind < 0:
            key_start, key_end, start, value_end, behind = _entry(at + 1, stop)
            if behind < 0:
                return -1, 0, 0
            number = _find(call, key_start, key_end - key_start)
            if number >= 0:
                store_i64(guesses + 8 * last, number)
        at = behind
        if number >= 0:
            last = number + 1
            more, worse = _take(call, scratch, number, row, start, value_end, end)
            if more < 0:
                return -1, 0, 0
            found += more
            bad += worse
    return found, bad, last


@_part
def _example(call: int, scratch: int, row: int) -> bool:
    """Find the features of one Example; gives whether it can be read.

    Facts: `scratch[f]` is less than 4 * (row + 1) before the feature is found in it, then that, 1 more: it cannot be
    read, 2 more: it is noted.
    """
    texts = load_i64(call + TEXTS) + 16 * row
    at = load_i64(texts)
    end = at + load_i64(texts + 8)
    if end - at > LARGEST:
        return False
    found, bad, last = 0, 0, 0
    while at < end:
        if load_u8(at) != _ENTRY:
            at = _skipped(at, end)
        else:
            length, at = _length(at + 1, end)
            if at >= 0:
                stop = min(end, at + length)
                more, worse, last = _entries(call, scratch, row, at, stop, end, last)
                found += more
                bad += worse
                at = stop if more >= 0 else -1
        if at < 0:
            return False
    return bad == 0 and (found == load_i64(call + NUM_FEATURES) or _absent(call, scratch, row))


@_part
def _scratch(call: int, chunk: int) -> int:
    return load_i64(call + SCRATCH) + chunk * load_i64(call + SCRATCH_BYTES)


@_part
def _sums(call: int, scratch: int) -> int:
    return scratch + 8 * (load_i64(call + NUM_FEATURES) + load_i64(call + NUM_KEYS) + 1)


@_part
def _scan_chunk(call: int, chunk: int) -> None:
    """Find the features of the Examples of a chunk."""
    scratch, num_features, num_keys = _scratch(call, chunk), load_i64(call + NUM_FEATURES), load_i64(call + NUM_KEYS)
    for f in range(num_features):
        store_i64(scratch + 8 * f, 0)
    guesses, known = scratch + 8 * num_features, load_i64(call + GUESSES)
    for k in range(num_keys + 1):
        store_i64(guesses + 8 * k, load_i64(known + 8 * k))
    sums = _sums(call, scratch)
    for k in range(2 * load_i64(call + NUM_NOTED)):
        store_i64(sums + 8 * k, 0)
    rows = load_i64(call + CHUNK_ROWS)
    failed = 0
    for row in range(chunk * rows, min(load_i64(call + ROWS), (chunk + 1) * rows)):
        ok = _example(call, scratch, row)
        if not ok:
            failed += 1
        store_u8(load_i64(call + BAD) + row, np.uint8(0 if ok else 1))
    store_i64(load_i64(call + FAILED) + 8 * chunk, failed)
    for k in range(num_keys + 1):
        if load_i64(known + 8 * k) != load_i64(guesses + 8 * k):
            store_i64(known + 8 * k, load_i64(guesses + 8 * k))


@_jit
def scan(call: int) -> int:
    """The first pass, by as many threads as call this; gives 0."""
    while True:
        chunk = atomic_add(call + NEXT, 1)
        if chunk >= load_i64(call + CHUNKS):
            return 0
        _scan_chunk(call, chunk)


# -- the second pass ---------------------------------------------------------------------------------------------------
@_jit
def lay_out(call: int) -> int:
    """Where the values of each noted feature go in their block, and how large the blocks are; gives how many Examples
    are bad.

    Facts: the sums of each chunk become the places where its values begin.
    """
    floats, integers, strings, data = 0, 0, 0, 0
    for t in range(load_i64(call + NUM_NOTED)):
        noted = load_i64(call + NOTED) + NOTED_BYTES * t
        dtype = load_i64(load_i64(call + FEATURES) + FEATURE_BYTES * load_i64(noted + NOTED_FEATURE) + DTYPE)
        first = strings if dtype == TEXT else floats if dtype == FLOAT else integers
        at, byte = first, data
        for chunk in range(load_i64(call + CHUNKS)):
            sums = _sums(call, _scratch(call, chunk)) + 16 * t
            num, size = load_i64(sums), load_i64(sums + 8)
            store_i64(sums, at)
            store_i64(sums + 8, byte)
            at += num
            byte += size
        total = load_i64(call + TOTALS) + 32 * t
        store_i64(total, first)
        store_i64(total + 8, at - first)
        store_i64(total + 16, data)
        store_i64(total + 24, byte - data)
        data = byte
        if dtype == TEXT:
            strings = at + load_i64(noted + NOTED_END)
        elif dtype == FLOAT:
            floats = at
        else:
            integers = at
    store_i64(call + FLOATS, floats)
    store_i64(call + INTEGERS, integers)
    store_i64(call + STRINGS, strings)
    store_i64(call + DATA, data)
    failed = 0
    for chunk in range(load_i64(call + CHUNKS)):
        failed += load_i64(load_i64(call + FAILED) + 8 * chunk)
    return failed


@_hot
def _write_texts(call: int, feature: int, note: int, safe: int, at: int, byte: int) -> tuple[int, int]:
    """The strings of one Example; gives the places behind them."""
    place, num = load_i64(note), load_i64(note + 8) & _LOW
    ends, data = load_i64(call + STRINGS) + 8, load_i64(call + DATA)
    for k in range(num):
        size, place = _length(place + 1, safe)
        _copy_bytes(place, size, data + byte)
        place += size
        byte += size
        store_i64(ends + 8 * (at + k), byte)
    at += num
    size = load_i64(feature + SIZE)
    if load_i64(feature + KIND) < RAGGED and num < size:
        fill = load_i64(feature + FILL)
        text, first = load_i64(fill), load_i64(fill + 8 + 8 * num)
        _copy_bytes(text + first, load_i64(fill + 8 + 8 * size) - first, data + byte)
        for k in range(num, size):
            store_i64(ends + 8 * at, byte + load_i64(fill + 16 + 8 * k) - first)
            at += 1
        byte += load_i64(fill + 8 + 8 * size) - first
    return at, byte


@_part
def _begin(call: int) -> None:
    """What is in front of the first Example: the offsets 0, and where the first string of each feature begins."""
    for t in range(load_i64(call + NUM_NOTED)):
        noted, total = load_i64(call + NOTED) + NOTED_BYTES * t, load_i64(call + TOTALS) + 32 * t
        feature = load_i64(call + FEATURES) + FEATURE_BYTES * load_i64(noted + NOTED_FEATURE)
        ragged = load_i64(noted + NOTED_RAGGED)
        if ragged >= 0:
            store_i64(load_i64(call + OFFSETS) + 8 * ragged * (load_i64(call + ROWS) + 1), 0)
        if load_i64(feature + DTYPE) == TEXT:
            store_i64(load_i64(call + STRINGS) + 8 * load_i64(total), load_i64(total + 16))


@_part
def _locate(call: int) -> None:
    """Write the addresses that a backend is told."""
    for k in range(load_i64(call + NUM_LOCATED)):
        wanted = load_i64(call + LOCATED) + LOCATED_BYTES * k
        kind, number = load_i64(wanted + LOCATED_KIND), load_i64(wanted + LOCATED_NUMBER)
        if kind == OF_OFFSETS:
            found = load_i64(call + OFFSETS) + 8 * number * (load_i64(call + ROWS) + 1)
        elif kind == OF_DATA:
            found = load_i64(call + DATA)
        else:
            f = load_i64(load_i64(call + NOTED) + NOTED_BYTES * number + NOTED_FEATURE)
            dtype = load_i64(load_i64(call + FEATURES) + FEATURE_BYTES * f + DTYPE)
            first = load_i64(load_i64(call + TOTALS) + 32 * number)
            if dtype == FLOAT:
                found = load_i64(call + FLOATS) + 4 * first
            else:
                found = load_i64(call + (STRINGS if dtype == TEXT else INTEGERS)) + 8 * first
        store_i64(load_i64(call + ADDRESSES) + 8 * k, found)


@_part
def _write_chunk(call: int, chunk: int) -> None:
    """Write what is noted of the Examples of a chunk."""
    if chunk == 0:
        _begin(call)
        _locate(call)
    num_rows, rows, num_noted = load_i64(call + ROWS), load_i64(call + CHUNK_ROWS), load_i64(call + NUM_NOTED)
    features, offsets = load_i64(call + FEATURES), load_i64(call + OFFSETS)
    floats, integers = load_i64(call + FLOATS), load_i64(call + INTEGERS)
    sums = _sums(call, _scratch(call, chunk))
    for row in range(chunk * rows, min(num_rows, (chunk + 1) * rows)):
        note = load_i64(call + NOTES) + 16 * row * num_noted
        texts = load_i64(call + TEXTS) + 16 * row
        safe = load_i64(texts) + load_i64(texts + 8)
        for t in range(num_noted):
            noted = load_i64(call + NOTED) + NOTED_BYTES * t
            feature = features + FEATURE_BYTES * load_i64(noted + NOTED_FEATURE)
            dtype, at = load_i64(feature + DTYPE), load_i64(sums + 16 * t)
            if dtype == TEXT:
                at, byte = _write_texts(call, feature, note, safe, at, load_i64(sums + 16 * t + 8))
                store_i64(sums + 16 * t + 8, byte)
            else:
                count = load_i64(note + 8)
                num = count & _LOW
                if dtype == FLOAT:
                    _copy_floats(load_i64(note), num, count >> 32 == 0, floats + 4 * at)
                else:
                    place, out = load_i64(note), integers + 8 * at
                    skip = count >> 32
                    for k in range(num):
                        value, place = _integer(place + skip, safe, safe)
                        store_u64(out + 8 * k, value)
                at += num
            store_i64(sums + 16 * t, at)
            ragged = load_i64(noted + NOTED_RAGGED)
            if ragged >= 0:
                first = load_i64(load_i64(call + TOTALS) + 32 * t)
                store_i64(offsets + 8 * (ragged * (num_rows + 1) + row + 1), at - first)
            note += 16


@_jit
def write(call: int) -> int:
    """The second pass, by as many threads as call this; gives 0."""
    while True:
        chunk = atomic_add(call + NEXT, 1)
        if chunk >= load_i64(call + CHUNKS):
            return 0
        _write_chunk(call, chunk)
