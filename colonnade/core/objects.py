"""Many small Python objects read by one loop: arrays copied side by side, byte strings laid end to end.

Facts: a value costs numpy 150 to 300 ns and Arrow 30 to 60 ns a string, most of it for generality. The loops here ask
CPython's stable ABI alone (the buffer protocol, `PyBytes_AsStringAndSize`, `PyUnicode_AsUTF8AndSize`): 70 ns an array
and 12 a string. A call holds the GIL, so that no object goes away while it is read.
Source: docs/decisions/0013-feeds-read-in-one-loop.md
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from ctypes import c_int8, c_int32, c_int64, c_void_p, py_object
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.core.native import Native, compiled

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Empty = Callable[[int, Any], Array]

STRING_BYTES = 32
"""Bytes a string that a first try makes room for."""

IR = """
; PyObject_GetBuffer's Py_buffer: buf, obj, len, itemsize, readonly, ndim, format, shape, strides, suboffsets, internal
%Buffer = type { ptr, ptr, i64, i64, i32, i32, ptr, ptr, ptr, ptr, ptr }

declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyObject_Type(ptr)
declare void @Py_DecRef(ptr)
declare i32 @PyObject_GetBuffer(ptr, ptr, i32)
declare void @PyBuffer_Release(ptr)
declare i32 @PyBytes_AsStringAndSize(ptr, ptr, ptr)
declare ptr @PyUnicode_AsUTF8AndSize(ptr, ptr)
declare void @PyErr_Clear()
declare ptr @memcpy(ptr, ptr, i64)
declare i32 @memcmp(ptr, ptr, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

define internal i1 @is_a(ptr %object, ptr %kind) alwaysinline {
  %type = call ptr @PyObject_Type(ptr %object)
  call void @Py_DecRef(ptr %type)
  %same = icmp eq ptr %type, %kind
  ret i1 %same
}

; The buffer of item i of a tuple: true where it is of the kind, contiguous, and of this one-letter format and shape.
define internal i1 @open(ptr %values, i64 %i, ptr %kind, i8 %letter, i32 %ndim, ptr %shape, ptr %buffer) {
entry:
  %value = call ptr @PyTuple_GetItem(ptr %values, i64 %i)
  %missing = icmp eq ptr %value, null
  br i1 %missing, label %error, label %typed
typed:
  %fits_kind = call i1 @is_a(ptr %value, ptr %kind)
  br i1 %fits_kind, label %get, label %no
get:
  %rc = call i32 @PyObject_GetBuffer(ptr %value, ptr %buffer, i32 60) ; PyBUF_FORMAT | PyBUF_C_CONTIGUOUS
  %got = icmp eq i32 %rc, 0
  br i1 %got, label %check_format, label %error
check_format:
  %format_at = getelementptr %Buffer, ptr %buffer, i64 0, i32 6
  %format = load ptr, ptr %format_at
  %first = load i8, ptr %format
  %fits_letter = icmp eq i8 %first, %letter
  br i1 %fits_letter, label %check_end, label %close
check_end:
  %second_at = getelementptr i8, ptr %format, i64 1
  %second = load i8, ptr %second_at
  %ends = icmp eq i8 %second, 0
  br i1 %ends, label %check_ndim, label %close
check_ndim:
  %ndim_at = getelementptr %Buffer, ptr %buffer, i64 0, i32 5
  %has_ndim = load i32, ptr %ndim_at
  %fits_ndim = icmp eq i32 %has_ndim, %ndim
  br i1 %fits_ndim, label %check_shape, label %close
check_shape:
  %shape_at = getelementptr %Buffer, ptr %buffer, i64 0, i32 7
  %has_shape = load ptr, ptr %shape_at
  %dims = zext i32 %ndim to i64
  %bytes = shl i64 %dims, 3
  %compared = call i32 @memcmp(ptr %has_shape, ptr %shape, i64 %bytes)
  %fits_shape = icmp eq i32 %compared, 0
  br i1 %fits_shape, label %yes, label %close
yes:
  ret i1 true
close:
  call void @PyBuffer_Release(ptr %buffer)
  br label %no
error:
  call void @PyErr_Clear()
  br label %no
no:
  ret i1 false
}

; Copy the items of a tuple to one place; gives how many fit before the first that does not.
define i64 @gather_arrays(ptr %values, i64 %n, ptr %kind, i8 %letter, i32 %ndim, ptr %shape, i64 %bytes, ptr %target) {
entry:
  %buffer = alloca %Buffer
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %copy ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %read, label %done
read:
  %fits = call i1 @open(ptr %values, i64 %i, ptr %kind, i8 %letter, i32 %ndim, ptr %shape, ptr %buffer)
  br i1 %fits, label %copy, label %done
copy:
  %source = load ptr, ptr %buffer
  %start = mul i64 %i, %bytes
  %place = getelementptr i8, ptr %target, i64 %start
  call ptr @memcpy(ptr %place, ptr %source, i64 %bytes)
  call void @PyBuffer_Release(ptr %buffer)
  %after = add i64 %i, 1
  br label %next
done:
  ret i64 %i
}

; The bytes of one string: their place in %text, their number in %size; false where it is neither bytes nor str.
define internal i1 @string(ptr %object, ptr %bytes_kind, ptr %str_kind, ptr %text, ptr %size) alwaysinline {
entry:
  %type = call ptr @PyObject_Type(ptr %object)
  call void @Py_DecRef(ptr %type)
  %is_bytes = icmp eq ptr %type, %bytes_kind
  br i1 %is_bytes, label %bytes, label %other
bytes:
  %rc = call i32 @PyBytes_AsStringAndSize(ptr %object, ptr %text, ptr %size)
  ret i1 true
other:
  %is_str = icmp eq ptr %type, %str_kind
  br i1 %is_str, label %str, label %no
str:
  %utf8 = call ptr @PyUnicode_AsUTF8AndSize(ptr %object, ptr %size)
  store ptr %utf8, ptr %text
  %bad = icmp eq ptr %utf8, null
  br i1 %bad, label %error, label %yes
yes:
  ret i1 true
error:
  call void @PyErr_Clear()
  br label %no
no:
  ret i1 false
}

; Lay %n strings end to end from %total on, as far as %capacity goes; gives the new total, or -1 at what is no string.
define internal i64 @lay(ptr %objects, i64 %n, ptr %bytes_kind, ptr %str_kind, i64 %from, ptr %offsets, ptr %data,
                         i64 %capacity) {
entry:
  %text_at = alloca ptr
  %size_at = alloca i64
  %last = sub i64 %n, 1
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %measured ]
  %total = phi i64 [ %from, %entry ], [ %end, %measured ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %read, label %done
read:
  %ahead = add i64 %i, 12
  %within = icmp slt i64 %ahead, %last
  %soon = select i1 %within, i64 %ahead, i64 %last
  %soon_at = getelementptr ptr, ptr %objects, i64 %soon
  %soon_object = load ptr, ptr %soon_at
  call void @llvm.prefetch.p0(ptr %soon_object, i32 0, i32 3, i32 1)
  %object_at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %object_at
  %null = icmp eq ptr %object, null
  br i1 %null, label %no, label %typed
typed:
  %fits = call i1 @string(ptr %object, ptr %bytes_kind, ptr %str_kind, ptr %text_at, ptr %size_at)
  br i1 %fits, label %measure, label %no
measure:
  %size = load i64, ptr %size_at
  %end = add i64 %total, %size
  %has_room = icmp sle i64 %end, %capacity
  br i1 %has_room, label %copy, label %measured
copy:
  %text = load ptr, ptr %text_at
  %place = getelementptr i8, ptr %data, i64 %total
  call ptr @memcpy(ptr %place, ptr %text, i64 %size)
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

; The strings of a tuple of object arrays, `each` in every one; gives their bytes, or -1 where an item does not fit.
define i64 @gather_strings(ptr %values, i64 %n, ptr %kind, i32 %ndim, ptr %shape, i64 %each, ptr %bytes_kind,
                           ptr %str_kind, ptr %offsets, ptr %data, i64 %capacity) {
entry:
  %buffer = alloca %Buffer
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
  %fits = call i1 @open(ptr %values, i64 %i, ptr %kind, i8 79, i32 %ndim, ptr %shape, ptr %buffer) ; 'O'
  br i1 %fits, label %lay, label %no
lay:
  %objects = load ptr, ptr %buffer
  %start = mul i64 %i, %each
  %offsets_at = getelementptr i64, ptr %offsets, i64 %start
  %end = call i64 @lay(ptr %objects, i64 %each, ptr %bytes_kind, ptr %str_kind, i64 %total, ptr %offsets_at,
                       ptr %data, i64 %capacity)
  call void @PyBuffer_Release(ptr %buffer)
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


_LOCK = threading.Lock()


def _loops() -> _Loops:
    with _LOCK:  # two threads would compile twice, and the loser's code would go away under its caller
        return _compiled()


@functools.cache
def _compiled() -> _Loops:
    native = compiled(IR)
    whole, number, letter, place, value = c_int64, c_int32, c_int8, c_void_p, py_object
    return _Loops(
        native,
        native.function("gather_arrays", whole, value, whole, value, letter, number, place, whole, place),
        native.function(
            "gather_strings", whole, value, whole, value, number, place, whole, value, value, place, place, whole
        ),
    )


def prepare() -> None:
    """Compile the loops now, not at the first request."""
    _loops()


def gather_arrays(values: tuple[Any, ...], shape: tuple[int, ...], target: Array) -> bool:
    """Copy arrays side by side into `target`; gives whether every value was one that could be.

    Shapes: each value is `shape`; target holds all of them.
    Facts: a value fits if it is a C-contiguous `numpy.ndarray`, no subclass, of target's dtype and of the shape.
    """
    letter = target.data.format or ""
    if len(letter) != 1:
        return False
    dims = np.array(shape, np.int64)
    size = math.prod(shape) * target.itemsize
    assert target.flags.c_contiguous and target.nbytes == size * len(values)
    copied = _loops().arrays(
        values, len(values), np.ndarray, ord(letter), len(shape), dims.ctypes.data, size, target.ctypes.data
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
    dims = np.array(shape, np.int64)
    each = math.prod(shape)
    offsets = empty(each * len(values) + 1, np.int64)
    total = each * len(values) * STRING_BYTES
    while True:
        data = empty(total, np.uint8)
        places = (offsets.ctypes.data, data.ctypes.data)
        total = _loops().strings(
            values, len(values), np.ndarray, len(shape), dims.ctypes.data, each, bytes, str, *places, len(data)
        )
        if total <= len(data):
            return None if total < 0 else (data[:total], offsets)
