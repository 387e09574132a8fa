from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.errors import ColonnadeError, ImportFailure
from colonnade.frontends.tensorflow.bundle import Bundle, Entry, slice_key
from colonnade.frontends.tensorflow.checkpoint import Stored
from colonnade.frontends.tensorflow.importer import VariableStore
from colonnade.frontends.tensorflow.saved_model import open_variables
from tests.unit.frontends.tensorflow import encode

FLOATS = np.arange(6, dtype="<f4")
TENSORS = {
    "aa": (6, (3,), b"abc"),  # three bytes, so that what follows is unaligned
    "ab/weights": (1, (2, 3), FLOATS.tobytes()),
    "b16": (14, (2,), struct.pack("<HH", 0x3F80, 0x4000)),
    "empty": (1, (0, 4), b""),
    "scalar": (9, (), struct.pack("<q", -5)),
}


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return encode.write_bundle(tmp_path / "m/variables", TENSORS)


def test_every_tensor(prefix: Path) -> None:
    bundle = Bundle(prefix)
    bundle.check((key, None) for key in TENSORS)
    assert bundle.keys() == tuple(TENSORS)
    assert bundle.get("ab/weights").tolist() == FLOATS.reshape(2, 3).tolist()
    assert bundle.get("b16").tolist() == [0x3F80, 0x4000] and bundle.entry("b16").dtype == "bfloat16"
    assert bundle.get("empty").shape == (0, 4) and bundle.get("scalar").item() == -5
    assert "aa" in bundle and "zz" not in bundle


def test_views_are_writable_unaligned_and_private(prefix: Path) -> None:
    bundle = Bundle(prefix)
    view = bundle.get("ab/weights")
    assert not view.flags.owndata and not view.flags.aligned
    tensor = torch.from_numpy(view)
    assert tensor.sum().item() == 15
    tensor += 1
    assert Bundle(prefix).get("ab/weights").sum() == 15


def test_unknown_key(prefix: Path) -> None:
    with pytest.raises(ImportFailure, match="ab/weights"):
        Bundle(prefix).get("weights")


def test_truncated_data_file_lists_every_tensor(prefix: Path) -> None:
    data = prefix.parent / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:10])
    with pytest.raises(ImportFailure, match="truncated") as caught:
        Bundle(prefix)
    text = str(caught.value)
    assert "ab/weights: 7 of 24 bytes in variables.data-00000-of-00001" in text and "scalar: 0 of 8" in text


def test_missing_files(prefix: Path) -> None:
    (prefix.parent / "variables.data-00000-of-00001").unlink()
    with pytest.raises(ImportFailure, match="data-00000-of-00001"):
        Bundle(prefix)
    with pytest.raises(ImportFailure, match=r"other\.index"):
        Bundle(prefix.parent / "other")


def test_a_model_without_variables(tmp_path: Path) -> None:
    assert open_variables(tmp_path).keys() == ()
    (tmp_path / "variables").mkdir()
    assert open_variables(tmp_path).keys() == ()


def test_checksums_find_changed_bytes(prefix: Path) -> None:
    data = prefix.parent / "variables.data-00000-of-00001"
    changed = bytearray(data.read_bytes())
    changed[5] ^= 1
    data.write_bytes(changed)
    bundle = Bundle(prefix)
    with pytest.raises(ImportFailure, match="checksums") as caught:
        bundle.check((key, None) for key in TENSORS)
    assert "ab/weights" in caught.value.got and "scalar" not in caught.value.got


def test_compressed_and_big_endian(tmp_path: Path) -> None:
    (tmp_path / "c.index").write_bytes(encode.index({b"": encode.number(1, 1)}, compression=1))
    with pytest.raises(ImportFailure, match="snappy"):
        Bundle(tmp_path / "c")
    (tmp_path / "b.index").write_bytes(encode.index({b"": encode.number(1, 1) + encode.number(2, 1)}))
    with pytest.raises(ImportFailure, match="big-endian"):
        Bundle(tmp_path / "b")
    (tmp_path / "n.index").write_bytes(b"not a table" * 10)
    with pytest.raises(ImportFailure, match="not an index"):
        Bundle(tmp_path / "n")


def test_size_that_does_not_fit_the_shape(tmp_path: Path) -> None:
    bundle = Bundle(encode.write_bundle(tmp_path, {"t": (1, (3,), b"12345678")}))
    with pytest.raises(ImportFailure, match="fit its shape"):
        bundle.get("t")


PARTS = [
    (((0, 2), (0, None)), (2, 3), np.arange(6, dtype="<f4").tobytes()),
    (((2, 1), (0, None)), (1, 3), np.arange(6, 9, dtype="<f4").tobytes()),
]


def test_a_partitioned_tensor_is_described_unread_and_put_together_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = Bundle(encode.write_bundle(tmp_path, TENSORS, {"p": (1, (3, 3), PARTS)}))
    store = VariableStore(bundle, {"v": Stored("p"), "second": Stored("p", PARTS[1][0]), "w": Stored("ab/weights")})
    read: list[bytes] = []
    stored = Bundle._stored

    def counted(self: Bundle, key: bytes, entry: Entry) -> Any:
        read.append(key)
        return stored(self, key, entry)

    monkeypatch.setattr(Bundle, "_stored", counted)
    assert store.described("v") == (np.float32, (3, 3)) and "v" in store and not read
    value = store["v"]
    assert value.tolist() == np.arange(9).reshape(3, 3).tolist() and len(read) == 2
    assert store["v"] is value and len(read) == 2
    del value
    assert store["v"][2, 2] == 8 and len(read) == 4  # nobody held it any more
    assert store["second"].tolist() == [[6, 7, 8]]
    assert store.described("second") == (np.float32, (1, 3)) and store.described("w") == (np.float32, (2, 3))


def test_checksums_of_parts_and_of_what_was_read(tmp_path: Path) -> None:
    prefix = encode.write_bundle(tmp_path, TENSORS, {"p": (1, (3, 3), PARTS)})
    data = tmp_path / "variables.data-00000-of-00001"
    changed = bytearray(data.read_bytes())
    changed[24] ^= 1  # in the second part
    data.write_bytes(changed)
    bundle = Bundle(prefix)
    bundle.check([("p", PARTS[0][0]), ("ab/weights", None)])
    for wanted in (("p", PARTS[1][0]), ("p", None)):
        with pytest.raises(ImportFailure, match="checksums"):
            bundle.check([wanted])
    store = VariableStore(bundle, {"v": Stored("p"), "w": Stored("ab/weights")})
    assert store["w"].shape == (2, 3) and store.described("v")
    store.check()
    assert store["v"].shape == (3, 3)
    with pytest.raises(ImportFailure, match="checksums"):
        store.check()


@pytest.mark.parametrize("at", [20, 90])
def test_an_index_that_does_not_match_its_checksums(at: int, prefix: Path) -> None:
    file = prefix.parent / "variables.index"
    changed = bytearray(file.read_bytes())
    changed[at] ^= 1
    file.write_bytes(changed)
    with pytest.raises(ImportFailure, match="does not match its checksum"):
        Bundle(prefix)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (PARTS[:1], "do not cover it"),
        ([PARTS[0], (PARTS[1][0], (3, 1), PARTS[1][2])], "another dtype or shape"),
        ([PARTS[0], (PARTS[1][0], (1, 3), b"1234")], "fit its shape"),
        ([PARTS[0], (((2, 1),), (1, 3), PARTS[1][2])], "another rank"),
    ],
)
def test_parts_that_do_not_fit(parts: list[encode.Part], message: str, tmp_path: Path) -> None:
    bundle = Bundle(encode.write_bundle(tmp_path, TENSORS, {"p": (1, (3, 3), parts)}))
    for look in (bundle.described, bundle.get):
        with pytest.raises(ImportFailure, match=message):
            look("p")


def test_slice_keys_sort_like_their_extents() -> None:
    starts = [0, 1, 63, 64, 65, 127, 128, 8191, 8192, 10**6, 2**31, 2**40]
    keys = [slice_key("t", ((start, 5), (0, None))) for start in starts]
    assert keys == sorted(keys) and len(set(keys)) == len(keys)
    assert slice_key("a\0\xff", ((0, None),)).startswith(b"\0a\0\xff")


def test_damaged_index_is_an_error_of_ours(prefix: Path) -> None:
    rng = np.random.default_rng(11)
    file = prefix.parent / "variables.index"
    good = file.read_bytes()
    for round_ in range(400):
        data = bytearray(good)
        if round_ % 2:
            data = data[: int(rng.integers(len(data)))]
        for _ in range(int(rng.integers(1, 4))):
            if data:
                data[int(rng.integers(len(data)))] = int(rng.integers(256))
        file.write_bytes(data)
        try:
            bundle = Bundle(prefix)
            bundle.check((key, None) for key in bundle.keys())  # noqa: SIM118
            for key in bundle.keys():  # noqa: SIM118
                bundle.get(key)
        except ColonnadeError:
            pass
