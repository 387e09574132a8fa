"""Many small Python objects read by one loop: arrays copied side by side, byte strings laid end to end.

Facts: a value costs numpy 150 to 300 ns and Arrow 30 to 60 ns a string, most of it for generality. The loops here ask
nothing: they read the fields that the macros of CPython's and numpy's C interfaces read in every extension module, and
ask for later values ahead, since most of a request's time is the wait for its objects. A call holds the GIL, so that no
object goes away while it is read. Where a Python or numpy lays objects out otherwise, nothing fits, and the usual
conversions do the work.
Source: docs/decisions/0013-feeds-read-in-one-loop.md
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from ctypes import c_int32, c_int64, c_void_p, py_object
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.core.native import Native, compiled, made_once

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Empty = Callable[[int, Any], Array]

OBJECT = np.dtype(object)
STRING_BYTES = 32
"""Bytes a string that a first try makes room for."""

IR = """
declare ptr @PyUnicode_AsUTF8AndSize(ptr, ptr)
declare void @PyErr_Clear()
declare ptr @memcpy(ptr, ptr, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

define internal void @fetch(ptr %place, i64 %more) alwaysinline {
  %line = getelementptr i8, ptr %place, i64 %more
  call void @llvm.prefetch.p0(ptr %line, i32 0, i32 3, i32 1)
  ret void
}

define internal ptr @word(ptr %object, i64 %offset) alwaysinline {
  %at = getelementptr i8, ptr %object, i64 %offset
  %value = load ptr, ptr %at
  ret ptr %value
}

; Item i of an array of objects, or its last.
define internal ptr @item(ptr %items, i64 %i, i64 %n) alwaysinline {
  %last = sub i64 %n, 1
  %within = call i64 @llvm.smin.i64(i64 %i, i64 %last)
  %at = getelementptr ptr, ptr %items, i64 %within
  %object = load ptr, ptr %at
  ret ptr %object
}

; Begin to read what the loop will need of the arrays after item i: first the objects, then where they point to.
define internal void @foresee(ptr %items, i64 %i, i64 %n, ptr %kind, i64 %bytes) alwaysinline {
entry:
  %far = add i64 %i, 16
  %far_object = call ptr @item(ptr %items, i64 %far, i64 %n)
  call void @fetch(ptr %far_object, i64 0)
  call void @fetch(ptr %far_object, i64 64)
  %near = add i64 %i, 6
  %object = call ptr @item(ptr %items, i64 %near, i64 %n)
  %type = call ptr @word(ptr %object, i64 8)
  %is_array = icmp eq ptr %type, %kind
  br i1 %is_array, label %array, label %done
array:
  %data = call ptr @word(ptr %object, i64 16)
  %shape = call ptr @word(ptr %object, i64 32)
  call void @fetch(ptr %shape, i64 0)
  %most = call i64 @llvm.smin.i64(i64 %bytes, i64 2048)
  br label %next
next:
  %k = phi i64 [ 0, %array ], [ %after, %next ]
  call void @fetch(ptr %data, i64 %k)
  %after = add i64 %k, 64
  %more = icmp slt i64 %after, %most
  br i1 %more, label %next, label %done
done:
  ret void
}

; Where the values of an array lie; null where it is not of the kind, dtype and shape, or not contiguous.
define internal ptr @values_of(ptr %array, ptr %kind, ptr %dtype, i32 %ndim, ptr %shape) alwaysinline {
entry:
  %type = call ptr @word(ptr %array, i64 8)
  %fits_kind = icmp eq ptr %type, %kind
  br i1 %fits_kind, label %check_dtype, label %no
check_dtype:
  %has_dtype = call ptr @word(ptr %array, i64 56)
  %one_dtype = icmp eq ptr %has_dtype, %dtype
  br i1 %one_dtype, label %check_flags, label %check_letter
check_letter: ; a copy of the dtype: the same letter and byte order
  %has_letter_at = getelementptr i8, ptr %has_dtype, i64 25
  %letter_at = getelementptr i8, ptr %dtype, i64 25
  %has_letter = load i16, ptr %has_letter_at, align 1
  %letter = load i16, ptr %letter_at, align 1
  %fits_letter = icmp eq i16 %has_letter, %letter
  br i1 %fits_letter, label %check_flags, label %no
check_flags:
  %flags_at = getelementptr i8, ptr %array, i64 64
  %flags = load i32, ptr %flags_at
  %contiguous = trunc i32 %flags to i1
  br i1 %contiguous, label %check_ndim, label %no
check_ndim:
  %ndim_at = getelementptr i8, ptr %array, i64 24
  %has_ndim = load i32, ptr %ndim_at
  %fits_ndim = icmp eq i32 %has_ndim, %ndim
  br i1 %fits_ndim, label %check_shape, label %no
check_shape:
  %dims = call ptr @word(ptr %array, i64 32)
  %rank = zext i32 %ndim to i64
  br label %next
next:
  %k = phi i64 [ 0, %check_shape ], [ %after, %check_dim ]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %check_dim, label %yes
check_dim:
  %has_at = getelementptr i64, ptr %dims, i64 %k
  %want_at = getelementptr i64, ptr %shape, i64 %k
  %has = load i64, ptr %has_at
  %want = load i64, ptr %want_at
  %after = add i64 %k, 1
  %fits_dim = icmp eq i64 %has, %want
  br i1 %fits_dim, label %next, label %no
yes:
  %values = call ptr @word(ptr %array, i64 16)
  ret ptr %values
no:
  ret ptr null
}

; Copy the items of a tuple to one place; gives how many fit before the first that does not.
define i64 @gather_arrays(ptr %tuple, i64 %n, ptr %kind, ptr %dtype, i32 %ndim, ptr %shape, i64 %bytes, ptr %target) {
entry:
  %items = getelementptr i8, ptr %tuple, i64 24
  %is_word = icmp eq i64 %bytes, 4
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %copied ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %read, label %done
read:
  call void @foresee(ptr %items, i64 %i, i64 %n, ptr %kind, i64 %bytes)
  %array = call ptr @item(ptr %items, i64 %i, i64 %n)
  %source = call ptr @values_of(ptr %array, ptr %kind, ptr %dtype, i32 %ndim, ptr %shape)
  %unfit = icmp eq ptr %source, null
  br i1 %unfit, label %done, label %fits
fits:
  %start = mul i64 %i, %bytes
  %place = getelementptr i8, ptr %target, i64 %start
  %after = add i64 %i, 1
  br i1 %is_word, label %copy_word, label %copy
copy_word:
  %bits = load i32, ptr %source, align 1
  store i32 %bits, ptr %place, align 1
  br label %copied
copy:
  call ptr @memcpy(ptr %place, ptr %source, i64 %bytes)
  br label %copied
copied:
  br label %next
done:
  ret i64 %i
}

; Copy %size bytes by 16, an empty string's too, where %slack bytes have room for that. An aligned read crosses no page.
define internal void @put(ptr %place, ptr %text, i64 %size, i64 %slack) alwaysinline {
entry:
  %address = ptrtoint ptr %text to i64
  %skew = and i64 %address, 15
  %aligned = icmp eq i64 %skew, 0
  %short = icmp sle i64 %size, 64
  %least = call i64 @llvm.smax.i64(i64 %size, i64 1)
  %padded = add i64 %least, 15
  %room = icmp sle i64 %padded, %slack
  %plain = and i1 %aligned, %short
  %fast = and i1 %plain, %room
  br i1 %fast, label %next, label %slow
next:
  %k = phi i64 [ 0, %entry ], [ %after, %next ]
  %from = getelementptr i8, ptr %text, i64 %k
  %to = getelementptr i8, ptr %place, i64 %k
  %part = load <2 x i64>, ptr %from, align 16
  store <2 x i64> %part, ptr %to, align 1
  %after = add i64 %k, 16
  %more = icmp slt i64 %after, %size
  br i1 %more, label %next, label %done
slow:
  call ptr @memcpy(ptr %place, ptr %text, i64 %size)
  br label %done
done:
  ret void
}

; The text of a bytes or str object, and its size; null of anything else.
define internal ptr @text_of(ptr %object, ptr %bytes_kind, ptr %str_kind, ptr %size_at) alwaysinline {
entry:
  %missing = icmp eq ptr %object, null
  br i1 %missing, label %none, label %typed
typed:
  %type = call ptr @word(ptr %object, i64 8)
  %is_bytes = icmp eq ptr %type, %bytes_kind
  br i1 %is_bytes, label %bytes, label %other
bytes:
  %text = getelementptr i8, ptr %object, i64 32
  %bytes_size_at = getelementptr i8, ptr %object, i64 16
  %bytes_size = load i64, ptr %bytes_size_at
  store i64 %bytes_size, ptr %size_at
  ret ptr %text
other:
  %is_str = icmp eq ptr %type, %str_kind
  br i1 %is_str, label %str, label %none
str:
  %utf8 = call ptr @PyUnicode_AsUTF8AndSize(ptr %object, ptr %size_at)
  %bad = icmp eq ptr %utf8, null
  br i1 %bad, label %error, label %good
good:
  ret ptr %utf8
error:
  call void @PyErr_Clear()
  br label %none
none:
  ret ptr null
}

; Lay %n strings end to end from %from on, as far as %capacity goes; gives the new total, or -1 at what is no string.
define internal i64 @lay(ptr %objects, i64 %n, ptr %bytes_kind, ptr %str_kind, i64 %from, ptr %offsets, ptr %data,
                         i64 %capacity) {
entry:
  %size_at = alloca i64
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %measured ]
  %total = phi i64 [ %from, %entry ], [ %end, %measured ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %read, label %done
read:
  %ahead = add i64 %i, 16
  %soon = call ptr @item(ptr %objects, i64 %ahead, i64 %n)
  call void @fetch(ptr %soon, i64 0)
  call void @fetch(ptr %soon, i64 32)
  %object = call ptr @item(ptr %objects, i64 %i, i64 %n)
  %text = call ptr @text_of(ptr %object, ptr %bytes_kind, ptr %str_kind, ptr %size_at)
  %missing = icmp eq ptr %text, null
  br i1 %missing, label %no, label %measure
measure:
  %size = load i64, ptr %size_at
  %end = add i64 %total, %size
  %slack = sub i64 %capacity, %total
  %has_room = icmp sle i64 %size, %slack
  br i1 %has_room, label %copy, label %measured
copy:
  %place = getelementptr i8, ptr %data, i64 %total
  call void @put(ptr %place, ptr %text, i64 %size, i64 %slack)
  br label %measured
measured:
  %after = add i64 %i, 1
  %end_at = getelementptr i64, ptr %offsets, i64 %after
  store i64 %end, ptr %end_at
  br label %next
done:
  ret i64 %total
no:
  ret i64 -1
}

; Begin to read the first strings of an array that comes soon; its own memory was asked for some items before.
define internal void @foresee_strings(ptr %items, i64 %i, i64 %n, ptr %kind, ptr %dtype, i32 %ndim, ptr %shape,
                                      i64 %each) alwaysinline {
entry:
  %soon = add i64 %i, 2
  %array = call ptr @item(ptr %items, i64 %soon, i64 %n)
  %objects = call ptr @values_of(ptr %array, ptr %kind, ptr %dtype, i32 %ndim, ptr %shape)
  %unfit = icmp eq ptr %objects, null
  %count = call i64 @llvm.smin.i64(i64 %each, i64 16)
  %none = icmp sle i64 %count, 0
  %skip = or i1 %unfit, %none
  br i1 %skip, label %done, label %next
next:
  %k = phi i64 [ 0, %entry ], [ %after, %next ]
  %object = call ptr @item(ptr %objects, i64 %k, i64 %count)
  call void @fetch(ptr %object, i64 0)
  call void @fetch(ptr %object, i64 32)
  %after = add i64 %k, 1
  %more = icmp slt i64 %after, %count
  br i1 %more, label %next, label %done
done:
  ret void
}

; The strings of a tuple of object arrays, `each` in every one; gives their bytes, or -1 where an item does not fit.
define i64 @gather_strings(ptr %tuple, i64 %n, ptr %kind, ptr %dtype, i32 %ndim, ptr %shape, i64 %each,
                           ptr %bytes_kind, ptr %str_kind, ptr %offsets, ptr %data, i64 %capacity) {
entry:
  %items = getelementptr i8, ptr %tuple, i64 24
  %bytes = shl i64 %each, 3
  store i64 0, ptr %offsets
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %lay ]
  %total = phi i64 [ 0, %entry ], [ %end, %lay ]
  %bad = icmp slt i64 %total, 0
  %more = icmp slt i64 %i, %n
  %stop = xor i1 %more, true
  %leave = or i1 %bad, %stop
  br i1 %leave, label %done, label %read
read:
  call void @foresee(ptr %items, i64 %i, i64 %n, ptr %kind, i64 %bytes)
  call void @foresee_strings(ptr %items, i64 %i, i64 %n, ptr %kind, ptr %dtype, i32 %ndim, ptr %shape, i64 %each)
  %array = call ptr @item(ptr %items, i64 %i, i64 %n)
  %objects = call ptr @values_of(ptr %array, ptr %kind, ptr %dtype, i32 %ndim, ptr %shape)
  %unfit = icmp eq ptr %objects, null
  br i1 %unfit, label %no, label %lay
lay:
  %start = mul i64 %i, %each
  %offsets_at = getelementptr i64, ptr %offsets, i64 %start
  %end = call i64 @lay(ptr %objects, i64 %each, ptr %bytes_kind, ptr %str_kind, i64 %total, ptr %offsets_at,
                       ptr %data, i64 %capacity)
  %after = add i64 %i, 1
  br label %next
done:
  ret i64 %total
no:
  ret i64 -1
}

; Where %n strings lie and how long they are, as pairs; gives their bytes, or -1 at what is no string.
define i64 @locate_strings(ptr %objects, i64 %n, ptr %bytes_kind, ptr %str_kind, ptr %target) {
entry:
  %size_at = alloca i64
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %put ]
  %total = phi i64 [ 0, %entry ], [ %sum, %put ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %read, label %done
read:
  %ahead = add i64 %i, 16
  %soon = call ptr @item(ptr %objects, i64 %ahead, i64 %n)
  call void @fetch(ptr %soon, i64 0)
  %object = call ptr @item(ptr %objects, i64 %i, i64 %n)
  %text = call ptr @text_of(ptr %object, ptr %bytes_kind, ptr %str_kind, ptr %size_at)
  %missing = icmp eq ptr %text, null
  br i1 %missing, label %no, label %put
put:
  %size = load i64, ptr %size_at
  %pair = shl i64 %i, 1
  %address_at = getelementptr ptr, ptr %target, i64 %pair
  store ptr %text, ptr %address_at
  %length_at = getelementptr i64, ptr %address_at, i64 1
  store i64 %size, ptr %length_at
  %sum = add i64 %total, %size
  %after = add i64 %i, 1
  br label %next
done:
  ret i64 %total
no:
  ret i64 -1
}
"""


@dataclass(frozen=True)
class _Loops:
    """The compiled loops, and what owns their code."""

    native: Native
    arrays: Callable[..., int]
    strings: Callable[..., int]
    places: Callable[..., int]


@made_once
def _loops() -> _Loops:
    native = compiled(IR)
    whole, number, place, value = c_int64, c_int32, c_void_p, py_object
    return _Loops(
        native,
        native.function("gather_arrays", whole, value, whole, value, value, number, place, whole, place),
        native.function(
            "gather_strings", whole, value, whole, value, value, number, place, whole, value, value, place, place, whole
        ),
        native.function("locate_strings", whole, place, whole, value, value, place),
    )


@functools.cache
def laid_out_as_expected() -> bool:
    """Whether objects lie in memory as the loops read them, which a Python without a GIL, say, does not do."""
    if object.__basicsize__ != 16 or bytes.__basicsize__ != 33 or tuple.__basicsize__ != 24:
        return False
    text, array = b"some bytes", np.arange(12, dtype=np.int32).reshape(3, 4)
    turned, pair = array.T, (array, text)
    dtype = turned.dtype.newbyteorder()
    letters = (ord(dtype.char), ord(dtype.byteorder))
    return (
        [_word(x, 8) for x in (text, array, pair)] == [id(bytes), id(np.ndarray), id(tuple)]
        and _word(text, 16) == len(text)
        and ctypes.string_at(id(text) + 32, len(text)) == text
        and [_word(pair, 24), _word(pair, 32)] == [id(array), id(text)]
        and [_word(x, 16) for x in (array, turned)] == [x.ctypes.data for x in (array, turned)]
        and [_word(x, 24) & 0xFFFFFFFF for x in (array, turned[0])] == [2, 1]
        and ctypes.string_at(_word(turned, 32), 16) == np.array([4, 3], np.int64).tobytes()
        and [_word(x, 56) for x in (array, turned)] == [id(array.dtype), id(turned.dtype)]
        and [_word(x, 64) & 1 for x in (array, turned)] == [1, 0]
        and tuple(ctypes.string_at(id(dtype) + 25, 2)) == letters
    )


def _word(value: object, offset: int) -> int:
    return ctypes.c_uint64.from_address(id(value) + offset).value


def prepare() -> None:
    """Compile the loops now, not at the first request."""
    _loops()


def gather_arrays(values: tuple[Any, ...], shape: tuple[int, ...], target: Array) -> bool:
    """Copy arrays side by side into `target`; gives whether every value was one that could be.

    Shapes: each value is `shape`; target holds all of them.
    Facts: a value fits if it is a C-contiguous `numpy.ndarray`, no subclass, of target's dtype and of the shape.
    """
    if len(target.data.format or "") != 1 or not laid_out_as_expected():
        return False
    dims = np.array(shape, np.int64)
    size = math.prod(shape) * target.itemsize
    assert target.flags.c_contiguous and target.nbytes == size * len(values)
    copied = _loops().arrays(
        values, len(values), np.ndarray, target.dtype, len(shape), dims.ctypes.data, size, target.ctypes.data
    )
    return copied == len(values)


def gather_strings(
    values: tuple[Any, ...], shape: tuple[int, ...], empty: Empty = np.empty
) -> tuple[Bytes, Offsets] | None:
    """The bytes and offsets of all strings of some object arrays of one shape; None where any value does not fit.

    empty: makes the flat arrays of the result from a length and a dtype.
    Facts: a value fits if it is a C-contiguous object `numpy.ndarray`, no subclass, of the shape, and holds nothing but
    bytes and str (taken as UTF-8), no subclasses.
    """
    if not laid_out_as_expected():
        return None
    dims = np.array(shape, np.int64)
    each = math.prod(shape)
    offsets = empty(each * len(values) + 1, np.int64)
    total = each * len(values) * STRING_BYTES
    while True:
        data = empty(total, np.uint8)
        places = (offsets.ctypes.data, data.ctypes.data)
        total = _loops().strings(
            values, len(values), np.ndarray, OBJECT, len(shape), dims.ctypes.data, each, bytes, str, *places, len(data)
        )
        if total <= len(data):
            return None if total < 0 else (data[:total], offsets)


def locate_strings(values: Array, target: Array) -> int:
    """Write where each string of an object array lies, and its size, into `target`; gives the sum of sizes, -1 where
    any value does not fit.

    Shapes: values [B], contiguous; target int64 [B, 2].
    Facts: a value fits if it is bytes or str (taken as UTF-8), no subclass. It lies there as long as it lives.
    """
    if not laid_out_as_expected():
        return -1
    return _loops().places(values.ctypes.data, len(values), bytes, str, target.ctypes.data)
