from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade.errors import ColonnadeError, ImportFailure, OptionError
from colonnade.frontends.tensorflow.functions import inline
from colonnade.frontends.tensorflow.importer import import_saved_model, open_source
from colonnade.frontends.tensorflow.protos import FuncRef, Unbound, read_attr, read_tensor
from colonnade.frontends.tensorflow.saved_model import read
from tests.unit.frontends.tensorflow import encode

ATTRS = {
    "T": encode.number(6, 1),
    "ref": encode.number(6, 101),
    "i": encode.number(3, -2),
    "f": b"\x25" + struct.pack("<f", 0.5),
    "b": encode.number(5, 0),
    "s": encode.block(2, b"\xff"),
    "shape": encode.block(7, encode.shape(-1, 3)),
    "unknown": encode.block(7, encode.number(3, 1)),
    "list": encode.block(1, encode.block(3, encode.varint(-1) + encode.varint(7)) + encode.number(3, 9)),
    "nothing": encode.block(1, b""),
    "floats": encode.block(1, encode.block(4, struct.pack("<2f", 1, 2)) + b"\x25" + struct.pack("<f", 3)),
    "types": encode.block(1, encode.block(6, bytes([9, 7]))),
    "func": encode.block(10, encode.block(1, "g") + encode.pair(2, "N", encode.number(3, 4))),
    "free": encode.block(9, "M"),
    "value": encode.block(8, encode.number(1, 3) + encode.block(2, encode.shape(3)) + encode.number(7, -4)),
    "x" * 200: encode.number(3, 1),
}
WANT: dict[str, Any] = {
    "T": "float32", "ref": "float32", "i": -2, "f": 0.5, "b": False, "s": b"\xff", "shape": (None, 3), "unknown": None,
    "list": (-1, 7, 9), "nothing": (), "floats": (1.0, 2.0, 3.0), "types": ("int64", "string"), "free": Unbound("M"),
    "func": FuncRef("g", {"N": 4}), "x" * 200: 1,
}  # fmt: skip
OPS = [encode.op_def("Const", ["output"]), encode.op_def("Two", ["a", "b"], {"i": encode.number(3, 8), "k": b""})]
NODES = [
    encode.node("x", "Placeholder", attrs=ATTRS),
    encode.node("y", "Two", "x", "x:1", "^x", attrs={"i": encode.number(3, 1)}),
    encode.node("z", "Two", "y:1"),
]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return encode.write_model(tmp_path / "m", encode.saved_model(NODES, ops=OPS))


def test_nodes_attributes_and_defaults(model: Path) -> None:
    meta = read(model)
    x, y, z = meta.nodes
    assert (y.name, y.op, y.inputs) == ("y", "Two", ("x", "x:1", "^x"))
    attrs: Any = x.attrs
    assert {k: attrs[k] for k in WANT} == WANT and {k: attrs[k] for k in WANT} == WANT
    assert attrs["value"].tolist() == [-4, -4, -4] and attrs["value"].dtype == np.int32
    assert attrs.is_ref("ref") and not attrs.is_ref("T") and not attrs.is_ref("absent")
    assert set(attrs) == set(ATTRS) == set(attrs.explicit) and len(attrs) == len(ATTRS)
    assert (y.attrs["i"], z.attrs["i"]) == (1, 8) and "i" in z.attrs and z.attrs.get("j", 3) == 3
    assert meta.tensorflow_version == "2.0" and meta.tags == ("serve",)
    signature = meta.signatures["serving_default"]
    assert signature.inputs["x"].shape == (None, 2) and signature.outputs["y"].name == "y:0"


def test_fields_in_any_order(tmp_path: Path) -> None:
    odd = encode.pair(5, "i", encode.number(3, 1)) + encode.block(3, "x") + encode.number(99, 5)
    odd += encode.block(2, "Two") + encode.block(1, "late") + encode.pair(5, "j", encode.number(3, 2))
    node = read(encode.write_model(tmp_path, encode.saved_model([NODES[0], odd]))).nodes[1]
    assert (node.name, node.op, node.inputs, node.attrs["i"], node.attrs["j"]) == ("late", "Two", ("x",), 1, 2)


def test_tags(tmp_path: Path) -> None:
    path = encode.write_model(tmp_path, encode.saved_model(NODES, tags=("serve", "gpu")))
    assert read(path, ["gpu", "serve"]).tags == ("serve", "gpu")
    with pytest.raises(ImportFailure, match="serve, gpu"):
        read(path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "empty directory"),
        (["saved_model.pbtxt"], "text protobufs"),
        (["saved_model.cpb"], "chunked"),
        (["one/saved_model.pb"], "give one of one"),
        (["other.txt"], "other.txt"),
    ],
)
def test_no_model(tmp_path: Path, files: list[str], message: str) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ImportFailure, match=message):
        read(tmp_path)


def test_not_a_directory(model: Path) -> None:
    with pytest.raises(ImportFailure, match="not a SavedModel directory"):
        read(model / "saved_model.pb")
    with pytest.raises(ImportFailure, match="nothing"):
        read(model / "absent")


@pytest.mark.parametrize("data", [b"", b"hello world", b"\x08\x01", b"\x00" * 50, b"{}"])
def test_not_a_protobuf(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(ImportFailure, match=r"saved_model\.pb"):
        read(encode.write_model(tmp_path, data))


def test_truncation_at_every_byte(tmp_path: Path, model: Path) -> None:
    data = (model / "saved_model.pb").read_bytes()
    for size in range(2, len(data), 7):
        with pytest.raises(ImportFailure):
            read(encode.write_model(tmp_path / "cut", data[:size]))


def test_damage_is_an_error_of_ours(tmp_path: Path) -> None:
    functions = [encode.function("g", ["a"], [encode.node("n", "Two", "a")], {"r": "n:b:0"}, {"c": "n"})]
    call = encode.node("call", "PartitionedCall", "y", attrs={"f": encode.block(10, encode.block(1, "g"))})
    good = encode.saved_model([*NODES, call, encode.node("g1", "g", "call")], functions, OPS)
    rng = np.random.default_rng(7)
    survived = 0
    for round_ in range(600):
        data = bytearray(good[: int(rng.integers(len(good)))] if round_ % 5 == 0 else good)
        for _ in range(int(rng.integers(1, 4))):
            if data:
                data[int(rng.integers(len(data)))] = int(rng.integers(256))
        try:
            meta = read(encode.write_model(tmp_path, bytes(data)))
            for node in meta.nodes:
                dict(node.attrs)
            inline(meta, ["g1"])
            survived += 1
        except ColonnadeError:
            pass
    assert 0 < survived < 600


def test_constant_errors() -> None:
    base = encode.number(1, 1) + encode.block(2, encode.shape(3))
    for data in (
        base + encode.block(4, b"12345"),
        encode.number(1, 1) + encode.block(2, encode.shape(2**40, 2**20)),
        encode.number(1, 1) + encode.block(2, encode.shape(-1)),
        encode.block(2, encode.shape(1)),
        encode.number(1, 77),
        base + b"\x2a\x03abc",
    ):
        with pytest.raises(ImportFailure):
            read_tensor(data, 0, len(data))


def test_a_large_splat_takes_no_memory() -> None:
    data = encode.number(1, 1) + encode.block(2, encode.shape(10**4, 10**4)) + b"\x2d" + struct.pack("<f", 2.5)
    made = read_tensor(data, 0, len(data))
    assert made.shape == (10**4, 10**4) and made.strides == (0, 0) and made[3, 4] == 2.5


def test_a_large_constant_is_a_view() -> None:
    content = np.arange(20_000, dtype="<i8")
    data = encode.number(1, 9) + encode.block(2, encode.shape(20_000)) + encode.block(4, content.tobytes())
    made = read_tensor(data, 0, len(data))
    assert not made.flags.owndata and np.array_equal(made, content)


def test_resources_are_kept_as_bytes() -> None:
    data = encode.number(1, 20) + encode.block(2, encode.shape()) + encode.block(14, b"handle")
    assert read_tensor(data, 0, len(data)).tolist() == b"handle"


def test_an_attribute_without_value_is_none() -> None:
    assert read_attr(b"", 0, 0) is None


def test_what_the_file_system_refuses_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImportFailure, match="File name too long"):
        open_source(tmp_path / ("x" * 300))

    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path / "saved_model.pb"))

    monkeypatch.setattr(Path, "is_dir", refused)
    with pytest.raises(ImportFailure, match="Permission denied") as caught:
        import_saved_model(tmp_path)
    assert caught.value.where == str(tmp_path / "saved_model.pb")


@pytest.mark.parametrize("options", [{"tags": 3}, {"tags": "serve"}, {"outputs": 3}, {"outputs": "y"}])
def test_names_are_a_list(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="are a list of names"):
        open_source(tmp_path, **options)
