"""Our safetensors files against the safetensors library, and damaged ones."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from colonnade.core.tensor_file import (
    ALIGNMENT,
    CHUNK,
    Array,
    Tensor,
    TensorFile,
    TensorFileError,
    chunks,
    header,
    size,
    tensor,
    with_strings,
)

DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
]


def write(path: Path, arrays: dict[str, Array | Tensor]) -> None:
    tensors, metadata = with_strings(arrays)
    data = b"".join(c.tobytes() for c in chunks(tensors, metadata))
    assert len(data) == size(tensors, metadata)
    path.write_bytes(data)


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 5), max_size=3))
    count = math.prod(shape)
    if dtype == "bool":
        return np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool).reshape(shape)
    width = np.dtype(dtype).itemsize * count
    return np.frombuffer(draw(st.binary(min_size=width, max_size=width)), dtype).reshape(shape)


@given(found=st.dictionaries(st.text(max_size=8).filter(lambda n: n != "__metadata__"), arrays(), max_size=5))
def test_the_library_reads_what_we_write_and_we_read_what_it_writes(
    found: dict[str, Array], tmp_path_factory: pytest.TempPathFactory
) -> None:
    ours, theirs = (tmp_path_factory.mktemp("tensors") / name for name in ("ours", "theirs"))
    write(ours, dict(found))
    save_file(found, theirs)
    for read in (load_file(ours), TensorFile(ours).arrays(), TensorFile(theirs).arrays()):
        assert read.keys() == found.keys()
        for name, array in found.items():
            assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape)
            assert read[name].tobytes() == array.tobytes()


@given(found=st.lists(st.binary(max_size=6), max_size=12), rows=st.sampled_from([1, 2, 3]))
def test_strings_come_back(found: list[bytes], rows: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("strings") / "x"
    kept = found[: len(found) // rows * rows]
    array = np.empty(len(kept), dtype=object)
    array[:] = kept
    write(path, {"a/b": array.reshape(rows, -1) if kept else array, "n": np.arange(3)})
    read = TensorFile(path).arrays()
    assert list(read) == ["a/b", "n"]
    assert read["a/b"].reshape(-1).tolist() == kept


def test_data_start_at_a_page_and_tensors_are_aligned(tmp_path: Path) -> None:
    write(tmp_path / "x", {"a": np.zeros(3, np.int8), "b": np.zeros(5, np.float64), "c": np.zeros((), np.float32)})
    file = TensorFile(tmp_path / "x")
    assert file.start == ALIGNMENT
    assert all(file.array(name).flags.aligned for name in file.names())
    assert file.array("c").shape == ()


def test_bfloat16_is_stored_as_such(tmp_path: Path) -> None:
    values = torch.tensor([[1.5, -2.0]], dtype=torch.bfloat16)
    write(tmp_path / "x", {"w": tensor(values.view(torch.uint16).numpy(), "bfloat16")})
    with safe_open(str(tmp_path / "x"), "pt") as file:
        assert torch.equal(file.get_tensor("w"), values)
    assert TensorFile(tmp_path / "x").dtype("w") == "bfloat16"


@pytest.mark.parametrize("array", [np.zeros(2, ">f4"), np.zeros(2, "S3"), np.zeros(2, complex)])
def test_other_dtypes_are_refused(array: Array) -> None:
    with pytest.raises(TensorFileError, match="no tensor of dtype"):
        with_strings({"x": array})


@pytest.mark.parametrize("step", [1, -1, 2])
def test_strided_and_unaligned_arrays_are_written_in_chunks(step: int, tmp_path: Path) -> None:
    raw = np.random.default_rng(0).integers(0, 255, 4 * 1000 * 1200 * 2 + 1).astype(np.uint8)
    array = raw[1:].view(np.float32).reshape(2000, 1200)[::step]
    assert not array.flags.aligned
    tensors, metadata = with_strings({"t": array})
    assert max(c.size for c in chunks(tensors, metadata)) <= CHUNK
    write(tmp_path / "x", {"t": array})
    assert TensorFile(tmp_path / "x").array("t").tobytes() == array.tobytes()


def test_a_write_to_a_view_does_not_reach_the_file(tmp_path: Path) -> None:
    write(tmp_path / "x", {"t": np.zeros(4, np.int64)})
    TensorFile(tmp_path / "x").array("t")[:] = 7
    assert not TensorFile(tmp_path / "x").array("t").any()


def test_a_view_keeps_no_file_open(tmp_path: Path) -> None:
    write(tmp_path / "x", {"t": np.arange(4)})
    kept = [TensorFile(tmp_path / "x").array("t") for _ in range(3)]
    opened = [p.resolve() for p in Path("/proc/self/fd").iterdir()] if Path("/proc/self/fd").exists() else []
    assert (tmp_path / "x").resolve() not in opened
    assert all(k.tolist() == [0, 1, 2, 3] for k in kept)


def _head(entries: object, data: int = 8) -> bytes:
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234567",
        (100).to_bytes(8, "little") + b"{}",
        (2**63 + 5).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{]",
        (2).to_bytes(8, "little") + b"\xff\xff",
        _head([1]),
        _head({}),
        _head({"t": 3}),
        _head({"t": {"dtype": "F32", "shape": [2]}}),
        _head({"t": {"dtype": "F31", "shape": [2], "data_offsets": [0, 8]}}),
        _head({"t": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}),
        _head({"t": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}),
        _head({"t": {"dtype": "F32", "shape": ["a"], "data_offsets": [0, 8]}}),
        _head({"t": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}),
        _head({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], "more": 1}}),
        _head({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, 7),
        _head({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, 9),
    ],
)
def test_a_damaged_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(TensorFileError):
        TensorFile(tmp_path / "x")


@pytest.mark.parametrize("strings", ["[", "[1]", '{"t": 3}', '{"u": [1]}', '{"t": [7]}'])
def test_damaged_strings_are_refused(strings: str, tmp_path: Path) -> None:
    parts = {"t": tensor(np.zeros(3, np.uint8)), "t (ends)": tensor(np.array([1, 3]))}
    (tmp_path / "x").write_bytes(b"".join(c.tobytes() for c in chunks(parts, {"strings": strings})))
    with pytest.raises(TensorFileError):
        TensorFile(tmp_path / "x").arrays()


def test_the_header_is_deterministic() -> None:
    a, b = tensor(np.zeros(2)), tensor(np.zeros(2))
    assert header({"a": a, "b": b}, {"x": "1", "w": "2"})[0] == header({"b": b, "a": a}, {"w": "2", "x": "1"})[0]
