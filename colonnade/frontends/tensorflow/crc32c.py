"""CRC-32C (Castagnoli), eight bytes a step: by an instruction where there is one, else by eight tables."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int64, c_void_p

import numpy as np
import numpy.typing as npt
from llvmlite.binding import get_host_cpu_features

from colonnade.core.native import Native, compiled, made_once

_POLYNOMIAL = 0x82F63B78
_STEP = 8
_SHORT = 1 << 10
"""Bytes up to which a loop in Python takes less time than to compile one."""


def _tables() -> npt.NDArray[np.uint32]:
    """[k, byte]: what the byte does to the state once k more bytes of zero have followed it."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    tables = [table]
    for _ in range(_STEP - 1):
        tables.append(table[tables[-1] & 0xFF] ^ (tables[-1] >> 8))
    return np.array(tables)


TABLES = _tables()
_LIST: list[int] = TABLES[0].tolist()


def _by_tables() -> str:
    """IR of the step: %new, the state %old after the eight bytes of %word."""
    lines = ["  %mixed = xor i64 %word, %old", "  %x_ = add i64 0, 0"]
    last = "%x_"
    for k in range(_STEP):
        lines += [
            f"  %s{k} = lshr i64 %mixed, {8 * k}",
            f"  %b{k} = and i64 %s{k}, 255",
            f"  %o{k} = add i64 %b{k}, {256 * (_STEP - 1 - k)}",
            f"  %a{k} = getelementptr i32, ptr %tables, i64 %o{k}",
            f"  %v{k} = load i32, ptr %a{k}",
            f"  %w{k} = zext i32 %v{k} to i64",
            f"  {'%new' if k == _STEP - 1 else f'%x{k}'} = xor i64 %w{k}, {last}",
        ]
        last = f"%x{k}"
    return "\n".join(lines)


_BY_INSTRUCTION = "  %new = call i64 @llvm.x86.sse42.crc32.64.64(i64 %old, i64 %word)"
"""The same by one instruction of x86."""
_INSTRUCTION_IS = "declare i64 @llvm.x86.sse42.crc32.64.64(i64, i64)"
_NEEDS = '"target-features"="+sse4.2,+crc32"'


def loop_of(has_instruction: bool) -> tuple[Native, Callable[..., int]]:
    """A function of the state, the address and number of bytes (a multiple of 8), and that of the tables."""
    declared, needs, step = (_INSTRUCTION_IS, _NEEDS, _BY_INSTRUCTION) if has_instruction else ("", "", _by_tables())
    native = compiled(f"""
{declared}
define i64 @crc(i64 %before, ptr %data, i64 %n, ptr %tables) {needs} {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %step ]
  %old = phi i64 [ %before, %entry ], [ %new, %step ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %step, label %done
step:
  %at = getelementptr i8, ptr %data, i64 %i
  %word = load i64, ptr %at, align 1
{step}
  %after = add i64 %i, {_STEP}
  br label %next
done:
  ret i64 %old
}}
""")
    return native, native.function("crc", c_int64, c_int64, c_void_p, c_int64, c_void_p)


@made_once
def _loop() -> tuple[Native, Callable[..., int]]:
    return loop_of(bool(get_host_cpu_features().get("sse4.2")))


def masked(crc: int) -> int:
    """The checksum as it is stored: rotated and shifted, so that a checksum of checksums stays strong."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def extend(crc: int, data: bytes | memoryview) -> int:
    """The checksum of what `crc` was of, followed by `data`."""
    state = crc ^ 0xFFFFFFFF
    if len(data) > _SHORT:
        whole = len(data) // _STEP * _STEP
        _, loop = _loop()
        state = loop(state, np.frombuffer(data, np.uint8).ctypes.data, whole, TABLES.ctypes.data)
        data = data[whole:]
    for byte in bytes(data):
        state = _LIST[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF
