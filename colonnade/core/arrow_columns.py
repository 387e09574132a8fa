"""The columns of an Arrow record batch copied side by side by one loop over Arrow's C data interface.

Facts: a column as a Python object costs 1.4 us before anything is read of it, one export of a whole batch 0.25 us a
column. The loop trusts the sizes of buffers, which the interface does not tell (`RecordBatch.validate` holds them
against first and last offsets), and nothing else: it checks nulls, lengths and the order of offsets itself.
Source: docs/decisions/0013-feeds-read-in-one-loop.md
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_int64, c_void_p
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from colonnade.core.native import Native, compiled, made_once
from colonnade.core.objects import Array, Bytes, Empty, Offsets

STRUCT_BYTES = 80
CHILDREN_AT, STRUCT_OFFSET_AT = 48, 16
"""Places in the structure of an array: 5 int64 (length, nulls, offset, buffers, children), then 5 pointers."""

IR = """
; Arrow's ArrowArray: length, null_count, offset, n_buffers, n_children, buffers, children, dictionary, release, data
%Array = type { i64, i64, i64, i64, i64, ptr, ptr, ptr, ptr, ptr }

declare ptr @memcpy(ptr, ptr, i64)

; Whether an array has no nulls. A count of -1 is not known; then there are none where no bits say so.
define internal i1 @whole(ptr %array) alwaysinline {
entry:
  %nulls_at = getelementptr %Array, ptr %array, i64 0, i32 1
  %nulls = load i64, ptr %nulls_at
  %none = icmp eq i64 %nulls, 0
  br i1 %none, label %yes, label %some
some:
  %unknown = icmp eq i64 %nulls, -1
  br i1 %unknown, label %counted, label %no
counted:
  %num_at = getelementptr %Array, ptr %array, i64 0, i32 3
  %num = load i64, ptr %num_at
  %has_any = icmp sgt i64 %num, 0
  br i1 %has_any, label %look, label %no
look:
  %buffers_at = getelementptr %Array, ptr %array, i64 0, i32 5
  %buffers = load ptr, ptr %buffers_at
  %bits = load ptr, ptr %buffers
  %no_bits = icmp eq ptr %bits, null
  ret i1 %no_bits
yes:
  ret i1 true
no:
  ret i1 false
}

; The values of a column below %depth fixed-size lists, and where those of %rows rows begin; null where it has nulls.
define internal ptr @leaf(ptr %children, i64 %index, ptr %lists, i64 %depth, i64 %rows, ptr %start_at) {
entry:
  %column_at = getelementptr ptr, ptr %children, i64 %index
  %column = load ptr, ptr %column_at
  br label %next
next:
  %level = phi i64 [ 0, %entry ], [ %deeper, %down ]
  %array = phi ptr [ %column, %entry ], [ %child, %down ]
  %begin = phi i64 [ 0, %entry ], [ %inner, %down ]
  %count = phi i64 [ %rows, %entry ], [ %inner_count, %down ]
  %is_whole = call i1 @whole(ptr %array)
  br i1 %is_whole, label %sized, label %no
sized:
  %length = load i64, ptr %array
  %end = add i64 %begin, %count
  %fits = icmp sle i64 %end, %length
  br i1 %fits, label %placed, label %no
placed:
  %offset_at = getelementptr %Array, ptr %array, i64 0, i32 2
  %offset = load i64, ptr %offset_at
  %start = add i64 %begin, %offset
  %is_leaf = icmp eq i64 %level, %depth
  br i1 %is_leaf, label %done, label %down
down:
  %width_at = getelementptr i64, ptr %lists, i64 %level
  %width = load i64, ptr %width_at
  %inner = mul i64 %start, %width
  %inner_count = mul i64 %count, %width
  %inside_at = getelementptr %Array, ptr %array, i64 0, i32 6
  %inside = load ptr, ptr %inside_at
  %child = load ptr, ptr %inside
  %deeper = add i64 %level, 1
  br label %next
done:
  store i64 %start, ptr %start_at
  ret ptr %array
no:
  ret ptr null
}

define internal ptr @buffer(ptr %array, i64 %i) alwaysinline {
  %buffers_at = getelementptr %Array, ptr %array, i64 0, i32 5
  %buffers = load ptr, ptr %buffers_at
  %buffer_at = getelementptr ptr, ptr %buffers, i64 %i
  %found = load ptr, ptr %buffer_at
  ret ptr %found
}

; Copy the numbers of some columns to one place, %bytes each; gives how many fit before the first that does not.
define i64 @numbers(ptr %children, ptr %indices, i64 %n, ptr %lists, i64 %depth, i64 %rows, i64 %itemsize, i64 %bytes,
                    ptr %target) {
entry:
  %start_at = alloca i64
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %copy ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %read, label %done
read:
  %index_at = getelementptr i64, ptr %indices, i64 %i
  %index = load i64, ptr %index_at
  %array = call ptr @leaf(ptr %children, i64 %index, ptr %lists, i64 %depth, i64 %rows, ptr %start_at)
  %missing = icmp eq ptr %array, null
  br i1 %missing, label %done, label %copy
copy:
  %values = call ptr @buffer(ptr %array, i64 1)
  %start = load i64, ptr %start_at
  %skipped = mul i64 %start, %itemsize
  %source = getelementptr i8, ptr %values, i64 %skipped
  %place = mul i64 %i, %bytes
  %to = getelementptr i8, ptr %target, i64 %place
  call ptr @memcpy(ptr %to, ptr %source, i64 %bytes)
  %after = add i64 %i, 1
  br label %next
done:
  ret i64 %i
}

; Offset %i of strings whose offsets have 8 bytes, or 4.
define internal i64 @offset(ptr %offsets, i64 %i, i1 %is_wide) alwaysinline {
  br i1 %is_wide, label %wide, label %narrow
wide:
  %at = getelementptr i64, ptr %offsets, i64 %i
  %found = load i64, ptr %at
  ret i64 %found
narrow:
  %near = getelementptr i32, ptr %offsets, i64 %i
  %short = load i32, ptr %near
  %long = sext i32 %short to i64
  ret i64 %long
}

; The offsets of the strings of some columns, %count each, laid end to end; gives their bytes, or -1 where they are bad.
define i64 @text_offsets(ptr %children, ptr %indices, i64 %n, ptr %lists, i64 %depth, i64 %rows, i64 %size, i64 %count,
                         ptr %out) {
entry:
  %start_at = alloca i64
  %is_wide = icmp eq i64 %size, 8
  %is_empty = icmp eq i64 %count, 0
  store i64 0, ptr %out
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %end ]
  %total = phi i64 [ 0, %entry ], [ %sum, %end ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %read, label %done
read:
  %index_at = getelementptr i64, ptr %indices, i64 %i
  %index = load i64, ptr %index_at
  %array = call ptr @leaf(ptr %children, i64 %index, ptr %lists, i64 %depth, i64 %rows, ptr %start_at)
  %missing = icmp eq ptr %array, null
  br i1 %missing, label %no, label %counted
counted:
  br i1 %is_empty, label %end, label %open
open:
  %offsets = call ptr @buffer(ptr %array, i64 1)
  %start = load i64, ptr %start_at
  %first = call i64 @offset(ptr %offsets, i64 %start, i1 %is_wide)
  %is_negative = icmp slt i64 %first, 0
  %begin = mul i64 %i, %count
  br i1 %is_negative, label %no, label %string
string:
  %k = phi i64 [ 0, %open ], [ %k_after, %laid ]
  %before = phi i64 [ %first, %open ], [ %stop, %laid ]
  %k_after = add i64 %k, 1
  %stop_at = add i64 %start, %k_after
  %stop = call i64 @offset(ptr %offsets, i64 %stop_at, i1 %is_wide)
  %falls = icmp slt i64 %stop, %before
  br i1 %falls, label %no, label %laid
laid:
  %length = sub i64 %stop, %first
  %ends = add i64 %total, %length
  %row = add i64 %begin, %k_after
  %to = getelementptr i64, ptr %out, i64 %row
  store i64 %ends, ptr %to
  %again = icmp slt i64 %k_after, %count
  br i1 %again, label %string, label %end
end:
  %sum = phi i64 [ %total, %counted ], [ %ends, %laid ]
  %after = add i64 %i, 1
  br label %next
done:
  ret i64 %total
no:
  ret i64 -1
}

; The bytes of the same strings, once %ends holds the offsets that were made of them.
define i64 @text_bytes(ptr %children, ptr %indices, i64 %n, ptr %lists, i64 %depth, i64 %rows, i64 %size, i64 %count,
                       ptr %ends, ptr %data) {
entry:
  %start_at = alloca i64
  %is_wide = icmp eq i64 %size, 8
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %copied ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %read, label %done
read:
  %after = add i64 %i, 1
  %begin = mul i64 %i, %count
  %begin_at = getelementptr i64, ptr %ends, i64 %begin
  %from = load i64, ptr %begin_at
  %stop = add i64 %begin, %count
  %stop_at = getelementptr i64, ptr %ends, i64 %stop
  %to = load i64, ptr %stop_at
  %bytes = sub i64 %to, %from
  %is_empty = icmp eq i64 %bytes, 0
  br i1 %is_empty, label %copied, label %copy
copy:
  %index_at = getelementptr i64, ptr %indices, i64 %i
  %index = load i64, ptr %index_at
  %array = call ptr @leaf(ptr %children, i64 %index, ptr %lists, i64 %depth, i64 %rows, ptr %start_at)
  %offsets = call ptr @buffer(ptr %array, i64 1)
  %start = load i64, ptr %start_at
  %first = call i64 @offset(ptr %offsets, i64 %start, i1 %is_wide)
  %text = call ptr @buffer(ptr %array, i64 2)
  %source = getelementptr i8, ptr %text, i64 %first
  %target = getelementptr i8, ptr %data, i64 %from
  call ptr @memcpy(ptr %target, ptr %source, i64 %bytes)
  br label %copied
copied:
  br label %next
done:
  ret i64 %i
}

define void @release(ptr %array) {
entry:
  %release_at = getelementptr %Array, ptr %array, i64 0, i32 8
  %release = load ptr, ptr %release_at
  %is_released = icmp eq ptr %release, null
  br i1 %is_released, label %done, label %call
call:
  call void %release(ptr %array)
  br label %done
done:
  ret void
}
"""


@dataclass(frozen=True)
class _Loops:
    """The compiled loops, and what owns their code."""

    native: Native
    numbers: Callable[..., int]
    text_offsets: Callable[..., int]
    text_bytes: Callable[..., int]
    release: Callable[[int], None]


@made_once
def _loops() -> _Loops:
    native = compiled(IR)
    whole, place = c_int64, c_void_p
    columns = (place, place, whole, place, whole, whole, whole, whole, place)
    return _Loops(
        native,
        native.function("numbers", whole, *columns),
        native.function("text_offsets", whole, *columns),
        native.function("text_bytes", whole, *columns, place),
        native.function("release", None, place),
    )


@contextmanager
def exported(batch: pa.RecordBatch) -> Iterator[int]:
    """The address of the addresses of a batch's columns, while the context lasts.

    Errors: ArrowInvalid where a buffer is shorter than its column says.
    """
    batch.validate()
    struct = (ctypes.c_byte * STRUCT_BYTES)()
    address = ctypes.addressof(struct)
    batch._export_to_c(address)
    try:
        assert c_int64.from_address(address + STRUCT_OFFSET_AT).value == 0  # a slice of a batch is slices of columns
        yield c_void_p.from_address(address + CHILDREN_AT).value or 0
    finally:
        _loops().release(address)


@dataclass(frozen=True, eq=False)
class ColumnsOf:
    """Columns of a batch that have one type, in the order that they are to be copied in.

    indices: where they stand in the batch.   lists: the widths of fixed-size lists around each value, outermost first.
    size: bytes of a number, or of an offset of strings.
    """

    indices: npt.NDArray[np.int64]
    lists: npt.NDArray[np.int64]
    size: int
    _begin: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        begin = (self.indices.ctypes.data, len(self.indices), self.lists.ctypes.data, len(self.lists))
        object.__setattr__(self, "_begin", begin)

    def numbers(self, columns: int, rows: int, target: Array) -> bool:
        """Copy the values of all columns into `target`; gives whether none had nulls or too few.

        columns: from `exported`.
        """
        bytes_each = target.nbytes // max(1, len(self.indices))
        copied = _loops().numbers(columns, *self._begin, rows, self.size, bytes_each, target.ctypes.data)
        return copied == len(self.indices)

    def texts(self, columns: int, rows: int, width: int, empty: Empty) -> tuple[Bytes, Offsets] | None:
        """Bytes and offsets of the strings of all columns; None where one has nulls or offsets that go down.

        width: strings a row of each column.   empty: makes the flat arrays of the result from a length and a dtype.
        """
        each = rows * width
        offsets = empty(each * len(self.indices) + 1, np.int64)
        wanted = (columns, *self._begin, rows, self.size, each, offsets.ctypes.data)
        total = _loops().text_offsets(*wanted)
        if total < 0:
            return None
        data = empty(total, np.uint8)
        _loops().text_bytes(*wanted, data.ctypes.data)
        return data, offsets


def prepare() -> None:
    """Compile the loops now, not at the first request."""
    _loops()
