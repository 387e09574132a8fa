from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite.binding import get_host_cpu_features

from colonnade.errors import ImportFailure
from colonnade.frontends.tensorflow import wire
from colonnade.frontends.tensorflow.crc32c import TABLES, extend, loop_of, masked
from tests.unit.frontends.tensorflow import encode


@given(st.integers(-(2**63), 2**63 - 1))
def test_varint_round_trip(value: int) -> None:
    data = encode.varint(value)
    got, end = wire.varint(data, 0, len(data))
    assert (wire.signed(got), end) == (value, len(data))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9, b"\xff" * 11])
def test_varint_that_does_not_end(data: bytes) -> None:
    with pytest.raises(ImportFailure, match="varint"):
        wire.varint(data, 0, len(data))


def test_fields_of_every_wire_type() -> None:
    data = encode.number(1, -1) + encode.block(200, b"x" * 300) + b"\x1d" + b"abcd" + b"\x21" + b"12345678"
    got = [(n, k, data[a:b] if k else wire.signed(a)) for n, k, a, b in wire.fields(data, 0, len(data))]
    assert got == [(1, 0, -1), (200, 2, b"x" * 300), (3, 5, b"abcd"), (4, 1, b"12345678")]


@pytest.mark.parametrize(
    "data", [b"\x0a\x05abc", b"\x0a", b"\x0d\x00", b"\x0b", b"\x0a\x85\x01abc", b"\x0a\xff\xff\xff"]
)
def test_fields_that_run_over(data: bytes) -> None:
    for read in (lambda: list(wire.fields(data, 0, len(data))), lambda: list(wire.spans(data, 0, len(data), 1))):
        with pytest.raises(ImportFailure):
            read()


@given(st.lists(st.binary(max_size=300), max_size=5), st.binary(max_size=20))
def test_spans_are_the_fields_of_one_number(parts: list[bytes], other: bytes) -> None:
    data = b"".join(encode.block(1, p) + encode.block(77, other) + encode.number(2, 5) for p in parts)
    assert [data[a:b] for a, b in wire.spans(data, 0, len(data), 1)] == parts
    assert [data[a:b] for a, b in wire.spans(data, 0, len(data), 77)] == [other] * len(parts)


def test_packed_and_unpacked_integers() -> None:
    packed = b"".join(map(encode.varint, (1, -1, 300)))
    assert [wire.signed(v) for v in wire.integers(packed, 2, 0, len(packed))] == [1, -1, 300]
    assert wire.integers(b"", 0, 7, 0) == [7]


def test_names_are_utf8() -> None:
    with pytest.raises(ImportFailure, match="UTF-8"):
        wire.text(b"\xff", 0, 1)


def test_crc32c_known_answers() -> None:
    assert extend(0, b"123456789") == 0xE3069283
    assert extend(0, b"\0" * 32) == 0x8A9136AA
    assert extend(0, b"") == 0
    assert masked(0) == 0xA282EAD8


def plainly(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.parametrize("size", [1, 7, 8, 1023, 1024, 1025, 1031, 1032, 5003])
def test_crc32c_by_its_definition(size: int) -> None:
    data = np.random.default_rng(size).bytes(size + 3)
    for begin in (0, 3):
        assert extend(0, memoryview(data)[begin : begin + size]) == plainly(data[begin : begin + size])
    assert extend(extend(0, data[: size // 2]), data[size // 2 :]) == plainly(data)


@pytest.mark.parametrize("has_instruction", [False, bool(get_host_cpu_features().get("sse4.2"))])
def test_crc32c_with_and_without_the_instruction(has_instruction: bool) -> None:
    native, loop = loop_of(has_instruction)
    assert native is not None
    data = np.random.default_rng(1).integers(0, 256, 4096, np.uint8)
    state = loop(0xFFFFFFFF, data.ctypes.data, len(data), TABLES.ctypes.data)
    assert state ^ 0xFFFFFFFF == plainly(data.tobytes())


def test_a_float_has_four_bytes() -> None:
    assert wire.real(struct.pack("<f", 1.5), 5, 0, 4) == 1.5
    with pytest.raises(ImportFailure):
        wire.real(b"", 0, 3, 0)
