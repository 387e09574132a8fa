from __future__ import annotations

import ctypes
import gc
import pickle
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from colonnade.core.objects import STRING_BYTES, gather_arrays, gather_strings, laid_out_as_expected, locate_strings

DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()  # noqa: SIM905
TEXTS = st.one_of(st.binary(max_size=2 * STRING_BYTES), st.text(max_size=STRING_BYTES))


def objects(values: list[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape)


@given(
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
    st.integers(0, 5),
    st.integers(0, 2**32 - 1),
)
def test_arrays_side_by_side(dtype: str, dims: list[int], count: int, seed: int) -> None:
    shape = tuple(dims)
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    limit = 2 if dtype == "bool" else 256
    values = [rng.integers(0, limit, size, dtype=np.uint8).view(dtype).reshape(shape) for _ in range(count)]
    target = np.zeros((count, *shape), dtype)
    assert gather_arrays(tuple(values), shape, target)
    assert target.tobytes() == b"".join(v.tobytes() for v in values)


class Subclass(np.ndarray[Any, Any]):
    pass


FIT = np.arange(6, dtype=np.float32).reshape(2, 3)
FIT_STRINGS = objects([b"a", "b", b"", "", b"\0", "\0"], (2, 3))


def unfit(fit: np.ndarray[Any, Any]) -> list[Any]:
    strided = np.repeat(fit, 2, 1)[:, ::2]
    values = [fit[:, :2].copy(), fit[:1], fit.reshape(-1), fit.reshape(2, 3, 1), np.asfortranarray(fit), strided]
    return [*values, fit[::-1], fit.view(Subclass), np.ma.array(fit), fit.tolist(), None, 1, "text", b"123456"]


@pytest.mark.parametrize(
    "value",
    [
        *unfit(FIT),
        *(FIT.astype(d) for d in ("float64", "int32", "float16", ">f4", "c8", "S4", "U1", "O", "f4,f4", "M8[s]")),
        torch.zeros(2, 3),
        memoryview(FIT),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_arrays_that_do_not_fit(value: object, place: int) -> None:
    values: list[Any] = [FIT, FIT, FIT]
    assert gather_arrays(tuple(values), (2, 3), np.zeros((3, 2, 3), np.float32))
    values[place] = value
    assert not gather_arrays(tuple(values), (2, 3), np.zeros((3, 2, 3), np.float32))


def test_dtypes_without_a_letter_are_left_alone() -> None:
    values = (np.zeros(2, complex),)
    assert not gather_arrays(values, (2,), np.zeros(2, complex))


@given(st.integers(0, 4), st.integers(0, 3), st.data())
def test_strings_end_to_end(count: int, each: int, data: st.DataObject) -> None:
    texts = data.draw(st.lists(TEXTS, min_size=count * each, max_size=count * each))
    values = tuple(objects(texts[k * each : (k + 1) * each], (each, 1)) for k in range(count))
    found = gather_strings(values, (each, 1))
    assert found is not None
    wanted = [t.encode() if isinstance(t, str) else t for t in texts]
    assert found[0].tobytes() == b"".join(wanted)
    assert found[1].tolist() == [0, *np.cumsum([len(t) for t in wanted], dtype=int).tolist()]


@pytest.mark.parametrize("value", [*unfit(FIT_STRINGS), FIT_STRINGS.astype("S"), FIT_STRINGS.astype("U"), FIT])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_string_arrays_that_do_not_fit(value: object, place: int) -> None:
    values: list[Any] = [FIT_STRINGS] * 3
    assert gather_strings(tuple(values), (2, 3)) is not None
    values[place] = value
    assert gather_strings(tuple(values), (2, 3)) is None


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 200])
@pytest.mark.parametrize("kind", [bytes, str])
def test_nothing_is_written_behind_the_strings(size: int, kind: type) -> None:
    texts = [kind(bytes([97 + k]) * size, *(["ascii"] if kind is str else [])) for k in range(5)]
    room = np.full(5 * max(size, STRING_BYTES) + 64, 7, np.uint8)

    def empty(count: int, dtype: Any) -> np.ndarray[Any, Any]:
        return room[:count] if dtype is np.uint8 else np.empty(count, dtype)

    found = gather_strings((objects(texts, (5,)),), (5,), empty)
    assert found is not None
    assert found[0].tobytes() == b"".join(bytes([97 + k]) * size for k in range(5))
    assert (room[5 * max(size, STRING_BYTES) :] == 7).all()


SIZES = st.one_of(st.sampled_from((0, 1, 15, 16, 17, 31, 32, 33)), st.integers(0, 80))


@given(st.lists(st.tuples(SIZES, st.booleans()), max_size=12), st.integers(-1, 33))
@example([(200, False), (0, False), (15, False)], 0)
def test_nothing_is_written_behind_the_room(parts: list[tuple[int, bool]], spare: int) -> None:
    """Strings of mixed sizes in room for just so many bytes as they have, some more, or one less."""
    texts = [chr(97 + k) * size if is_str else bytes([97 + k]) * size for k, (size, is_str) in enumerate(parts)]
    wanted = b"".join(t.encode() if isinstance(t, str) else t for t in texts)
    capacity = max(0, len(wanted) + spare)
    rooms: list[np.ndarray[Any, Any]] = []

    def empty(count: int, dtype: Any) -> np.ndarray[Any, Any]:
        if dtype is not np.uint8:
            return np.empty(count, dtype)
        count = count if rooms else capacity  # the first try is the one with little room
        rooms.append(np.full(count + 64, 7, np.uint8))
        return rooms[-1][:count]

    found = gather_strings((objects(texts, (len(texts),)),), (len(texts),), empty)
    assert found is not None
    assert found[0].tobytes() == wanted
    assert (rooms[0][capacity:] == 7).all()
    assert all((room[len(wanted) :] == 7).all() for room in rooms[1:])


def test_a_copy_of_a_dtype_is_the_same() -> None:
    value = FIT.view(pickle.loads(pickle.dumps(FIT.dtype)))
    assert value.dtype is not FIT.dtype
    target = np.zeros((2, 2, 3), np.float32)
    assert gather_arrays((FIT, value), (2, 3), target)
    assert np.array_equal(target, [FIT, FIT])


def test_the_layout_of_objects_is_the_expected_one() -> None:
    assert laid_out_as_expected()


BAD = [None, 1, 1.5, float("nan"), "\ud800", bytearray(b"a"), memoryview(b"a"), np.bytes_(b"a"), np.str_("a"), [b"a"]]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", [0, 3, 5])
def test_what_is_no_plain_string(bad: object, place: int) -> None:
    value = FIT_STRINGS.copy()
    value.reshape(-1)[place] = bad
    assert gather_strings((FIT_STRINGS, value), (2, 3)) is None


def test_no_reference_is_kept_or_lost() -> None:
    text, number = b"some text", np.ones((1, 1), np.float32)
    strings = objects([text], (1, 1))
    odd = objects([None], (1, 1))
    watched = (text, number, strings, odd, np.ndarray, bytes, str, number.dtype)
    target = np.zeros((2, 1), np.float32)

    def use() -> None:
        assert gather_arrays((number, number), (1, 1), target)
        assert not gather_arrays((number, strings), (1, 1), target)
        assert not gather_arrays((number, None), (1, 1), target)
        assert gather_strings((strings, strings), (1, 1)) is not None
        assert gather_strings((strings, odd), (1, 1)) is None
        assert gather_strings((strings, number), (1, 1)) is None

    use()
    gc.collect()
    before = [sys.getrefcount(item) for item in watched]
    for _ in range(100):
        use()
    gc.collect()
    after = [sys.getrefcount(item) for item in watched]
    assert [b - a for a, b in zip(before, after, strict=True) if abs(b - a) >= 100] == []


@given(st.lists(TEXTS, max_size=40))
def test_where_strings_lie(texts: list[Any]) -> None:
    places = np.empty((len(texts), 2), np.int64)
    values = objects(texts, (len(texts),))
    want = [t.encode() if isinstance(t, str) else t for t in texts]
    assert locate_strings(values, places) == sum(map(len, want))
    assert [ctypes.string_at(*place) for place in places.tolist()] == want


@pytest.mark.parametrize("odd", [5, None, np.bytes_(b"a"), "\ud800"])
def test_strings_that_have_no_place(odd: Any) -> None:
    assert locate_strings(objects([b"a", odd], (2,)), np.empty((2, 2), np.int64)) == -1
