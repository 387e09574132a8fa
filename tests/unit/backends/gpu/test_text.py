"""The device's comparison and search of strings against those of Python's bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.backends.gpu.device_module import check_compiled, compiled, interpreted, strings_of, words_of

LANES = '''
@jit
def kernel(text, starts, lengths, lives, other, argument, out, count, BLOCK: tl.constexpr):
    """One string a lane."""
    lane = tl.arange(0, BLOCK)
    inside = lane < count
    start = tl.load(starts + lane, mask=inside, other=0)
    length = tl.load(lengths + lane, mask=inside, other=0)
    live = inside & (tl.load(lives + lane, mask=inside, other=0) != 0)
    argument = tl.load(argument)
    tl.store(out + lane, {result}, mask=live)
'''
EQUALS = LANES.format(result="text_equals(text, start, length, other, argument, live).to(tl.int64)")
BYTE = LANES.format(result="find_byte(text, start, start + length, argument.to(tl.int32), live)")
BYTES = LANES.format(result="find_bytes(text, start, start + length, other, argument, live)")
POINTERS = {"text": "*u64", "starts": "*i64", "lengths": "*i64", "lives": "*i8", "other": "*u64", "argument": "*i64"}
SIGNATURE = {**POINTERS, "out": "*i64", "count": "i32"}
POISON = -1234567
FEW = st.binary(max_size=40).map(lambda s: bytes(b"ab\x00\xff"[c & 3] for c in s))


def run(
    kernel: str, strings: Sequence[bytes], other: bytes, argument: int, folder: Path, gap: int, dead: Sequence[int]
) -> tuple[list[int], list[int]]:
    """(starts, results) of strings, of which the dead lie far outside the text."""
    text, starts, lengths = strings_of(strings, gap)
    lives = torch.ones(len(strings), dtype=torch.int8)
    real = starts.tolist()
    for lane in dead:
        lives[lane], starts[lane], lengths[lane] = 0, 1 << 45, len(other)
    out = torch.full((len(strings),), POISON)
    block = max(1 << (len(strings) - 1).bit_length(), 2)
    module = interpreted(["text"], kernel, folder)
    arguments = text, starts, lengths, lives, words_of(other), torch.tensor([argument]), out, len(strings)
    module.kernel[(1,)](*arguments, BLOCK=block)
    return real, out.tolist()


def check(
    kernel: str, strings: Sequence[bytes], other: bytes, folder: Path, gap: int = 0, dead: Sequence[int] = ()
) -> None:
    """Checks one function on all strings that are not dead."""
    starts, got = run(kernel, strings, other, other[0] if kernel == BYTE else len(other), folder, gap, dead)
    for lane, (string, start) in enumerate(zip(strings, starts, strict=True)):
        if kernel == EQUALS:
            want = int(string == other)
        else:
            at = string.find(other)
            want = start + (at if at >= 0 else len(string))
        assert got[lane] == (POISON if lane in dead else want), (string, start % 8, other)


def variants(other: bytes) -> list[bytes]:
    """The string, shorter and longer ones, and ones that differ in one byte."""
    changed = [other[:k] + bytes([other[k] ^ 1]) + other[k + 1 :] for k in range(len(other))]
    return [other, other[:-1], other + b"\0", b"", other * 2, *changed]


@pytest.mark.parametrize("length", [0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 64])
def test_equal_strings(length: int, tmp_path: Path) -> None:
    other = np.random.default_rng(length).bytes(length)
    for gap in (0, 3):
        check(EQUALS, variants(other) + [other] * 8, other, tmp_path, gap)


def test_equal_to_one_of_a_lane_each(tmp_path: Path) -> None:
    # Lane k compares with the words from k on.
    kernel = EQUALS.replace("length, other, argument", "length, other + lane, argument")
    others = [b"01234567", b"abcdefgh", b"ABCDEFGH", b"--------"]
    strings = [b"01234567abc", b"abcdefghABC", b"ABCDEFGH--!", b"--------"]
    _, got = run(kernel, strings, b"".join(others), 11, tmp_path, 1, ())
    assert got == [1, 1, 0, 0]


def test_a_byte_at_every_place(tmp_path: Path) -> None:
    # Neighbours that a borrow would mark wrongly: the byte itself xor 1, and all bits.
    strings = [bytes(c for c in (b, b ^ 1) * 10)[:n] for b in (0x2C, 0) for n in range(20)]
    strings += [b"x" * k + b"," + b"-," * 3 for k in range(20)] + [b"-" * k + b"," for k in range(20)]
    for gap in range(8):
        check(BYTE, strings, b",", tmp_path, gap)


@pytest.mark.parametrize("byte", [0, 1, 0x7F, 0x80, 0x81, 0xFE, 0xFF])
def test_any_byte(byte: int, tmp_path: Path) -> None:
    data = np.random.default_rng(byte)
    near = [byte, byte ^ 1, byte ^ 0x80, byte ^ 0xFF]
    strings = [bytes(data.choice(near[1:] if k % 2 else near, data.integers(0, 30)).tolist()) for k in range(60)]
    # Bytes outside a string are 255, and those between words of the last one arbitrary: none may be found.
    check(BYTE, strings, bytes([byte]), tmp_path, gap=5)


@pytest.mark.parametrize("separator", [b",", b"::", b"aab", b"aaaaaaaa", b"abababab\xff", b"-" * 17, b"a\x00"])
def test_separators(separator: bytes, tmp_path: Path) -> None:
    data = np.random.default_rng(len(separator))
    letters = sorted(set(separator))
    noise = [bytes(data.choice(letters, data.integers(0, 40)).tolist()) for _ in range(30)]
    cut = [noise[k] + separator[: k % (len(separator) + 1)] for k in range(10)]
    strings = [*noise, *cut, b"", separator, separator[:-1], b"x" + separator, separator * 2, separator[1:] + separator]
    check(BYTES, strings, separator, tmp_path, gap=1)
    # What follows a string is the rest of a separator.
    check(BYTES, [separator[:-1], separator[-1:] * 3, separator[:1], separator[1:]], separator, tmp_path)


def test_an_empty_separator_is_found_at_once(tmp_path: Path) -> None:
    check(BYTES, [b"", b"abc", b"x" * 20], b"", tmp_path)


@settings(max_examples=25, deadline=None)
@given(strings=st.lists(FEW, min_size=1, max_size=16), pick=st.binary(min_size=1, max_size=3), gap=st.integers(0, 7))
def test_any_strings(strings: list[bytes], pick: bytes, gap: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = bytes(b"ab\x00\xff"[c & 3] for c in pick)
    folder = tmp_path_factory.getbasetemp() / "text"
    check(EQUALS, [*strings, other], other, folder, gap)
    check(BYTE, strings, other[:1], folder, gap)
    check(BYTES, strings, other, folder, gap)


@pytest.mark.parametrize("kernel", [EQUALS, BYTE, BYTES], ids=["equals", "byte", "bytes"])
def test_dead_lanes_read_nothing(kernel: str, tmp_path: Path) -> None:
    strings = [b"abc,", b",", b"xxxxxxxxxxxxxx,", b"", b"a,b"]
    check(kernel, strings, b",", tmp_path, gap=2, dead=[1, 2])
    check(kernel, strings, b",", tmp_path, gap=2, dead=range(5))


@pytest.mark.parametrize("kernel", [EQUALS, BYTE, BYTES], ids=["equals", "byte", "bytes"])
def test_it_compiles_for_gpus(kernel: str, tmp_path: Path) -> None:
    check_compiled(compiled(["text"], kernel, SIGNATURE, tmp_path))
