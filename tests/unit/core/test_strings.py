from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.core.strings import Strings
from colonnade.errors import ShapeError


@given(st.lists(st.binary(max_size=40)))
def test_objects_and_arrow_and_back(values: list[bytes]) -> None:
    strings = Strings.from_objects(values)
    assert len(strings) == len(values)
    assert strings.to_objects().tolist() == values
    assert strings.to_arrow().to_pylist() == values
    assert Strings.from_arrow(strings.to_arrow()).to_objects().tolist() == values


@given(st.lists(st.text(max_size=9)))
def test_text_is_utf8(values: list[str]) -> None:
    assert Strings.from_objects(values).to_objects().tolist() == [v.encode() for v in values]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(), pa.binary_view()]
)
def test_every_arrow_type_and_slices(kind: pa.DataType) -> None:
    array = pa.array(["a", "", "bc", "d"], type=kind)
    assert Strings.from_arrow(array).to_objects().tolist() == [b"a", b"", b"bc", b"d"]
    assert Strings.from_arrow(array[1:3]).to_objects().tolist() == [b"", b"bc"]
    assert Strings.from_arrow(array[4:]).to_objects().tolist() == []


def test_large_binary_is_not_copied() -> None:
    array = pa.array([b"abc", b"d"], type=pa.large_binary())
    strings = Strings.from_arrow(array)
    assert strings.data.ctypes.data == array.buffers()[2].address
    assert strings.offsets.ctypes.data == array.buffers()[1].address


@pytest.mark.parametrize("bad", [None, 3, 1.5, float("nan"), ["x"], "\ud800", bytearray(b"x"), memoryview(b"x")])
def test_what_is_no_string(bad: object) -> None:
    with pytest.raises(ShapeError) as caught:
        Strings.from_objects(np.array([b"a", None], dtype=object) if bad is None else [b"a", bad])  # type: ignore[list-item]
    assert caught.value.want == "bytes, str"


def test_subclasses_of_bytes_and_str_and_strided_arrays() -> None:
    values = np.array([np.bytes_(b"a"), "skipped", np.str_("\u00e9"), None, b""], dtype=object)
    assert Strings.from_objects(values[::2]).to_objects().tolist() == [b"a", "\u00e9".encode(), b""]
    assert Strings.from_objects(tuple(values[::2])).to_objects().tolist() == [b"a", "\u00e9".encode(), b""]


@given(st.lists(st.lists(st.binary(max_size=5), max_size=4), min_size=1, max_size=5), st.integers(0, 3))
def test_joined_parts_are_all_strings_in_order(parts: list[list[bytes]], skip: int) -> None:
    made = [Strings.from_objects(np.array(p, object)) for p in parts]
    cut = [Strings(s.data, s.offsets[min(skip, len(s)) :]) for s in made]  # these begin after 0
    got = Strings.joined(cut)
    want = [t for p in parts for t in p[min(skip, len(p)) :]]
    assert list(got.to_objects()) == want
    assert got.offsets[0] == 0 and len(got) == len(want)
