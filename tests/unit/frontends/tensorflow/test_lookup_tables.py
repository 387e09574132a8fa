from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade.errors import ImportFailure
from colonnade.frontends.tensorflow.bundle import Bundle
from colonnade.frontends.tensorflow.checkpoint import parse_slice, stored_variables
from colonnade.frontends.tensorflow.lookup_tables import LookupTables, handle_of, read_lookup_tables
from colonnade.frontends.tensorflow.protos import MetaGraph, Node, Saver
from tests.unit.frontends.tensorflow import encode


def node(name: str, op: str, *inputs: str, **attrs: Any) -> Node:
    return Node(name, op, inputs, attrs)


def const(name: str, *values: Any) -> Node:
    array = np.array(values, object if isinstance(values[0], bytes) else np.int64)
    return node(name, "Const", value=array, dtype="string" if array.dtype == object else "int64")


def meta(*nodes: Node, assets: dict[str, str] | None = None, saver: Saver | None = None) -> MetaGraph:
    return MetaGraph(("serve",), nodes, {}, {}, assets or {}, "init", saver, {}, "2.0")


def handle(name: str, shared: bytes = b"") -> Node:
    return node(name, "HashTableV2", key_dtype="string", value_dtype="int64", shared_name=shared)


def from_values(keys: Node, values: Node, path: Path) -> LookupTables:
    load = node("load", "LookupTableImportV2", "t", keys.name, values.name)
    other = handle("same", b"s")
    return read_lookup_tables(meta(handle("t", b"s"), other, keys, values, load, node("init", "NoOp", "^load")), path)


def test_tables_of_one_shared_name_are_one(tmp_path: Path) -> None:
    found = from_values(const("k", b"a", b"b"), const("v", 4, 5), tmp_path)
    assert set(found.tables) == {"t", "same"} and found.tables["same"] is found.tables["t"]


def test_repeated_keys(tmp_path: Path) -> None:
    found = from_values(const("k", b"a", b"b", b"a"), const("v", 4, 5, 4), tmp_path)
    assert found.tables["t"].keys.tolist() == [b"a", b"b"] and found.tables["t"].values.tolist() == [4, 5]
    with pytest.raises(ImportFailure, match="two values"):
        from_values(const("k", b"a", b"a"), const("v", 4, 5), tmp_path)
    with pytest.raises(ImportFailure, match="2 keys, 1 values"):
        from_values(const("k", b"a", b"b"), const("v", 4), tmp_path)


def test_contents_that_are_not_constant_are_unknown(tmp_path: Path) -> None:
    found = from_values(node("k", "Placeholder"), const("v", 4), tmp_path)
    assert not found.tables and "Placeholder" in found.unknown["t"]


def test_tables_that_change_or_are_filled_twice_are_unknown(tmp_path: Path) -> None:
    nodes = [const("k", b"a"), const("v", 4), const("w", 5), node("init", "NoOp", "^one", "^two")]
    one, two = (node(n, "LookupTableImportV2", "t", "k", v) for n, v in (("one", "v"), ("two", "w")))
    found = read_lookup_tables(meta(handle("t", b"s"), handle("same", b"s"), *nodes, one, two), tmp_path)
    assert not found.tables and "twice" in found.unknown["t"]
    mutable = Node("t", "MutableHashTableV2", (), handle("t").attrs)
    found = read_lookup_tables(meta(mutable, *nodes, one, one.__class__("two", one.op, one.inputs, {})), tmp_path)
    assert not found.tables and "can change" in found.unknown["t"]


def test_the_table_of_an_operand(tmp_path: Path) -> None:
    found = from_values(const("k", b"a"), const("v", 4), tmp_path)
    nodes = {n.name: n for n in (handle("body/t", b"s"), node("i", "Identity", "body/t"), handle("other"))}
    assert found.of(nodes, "i") is found.tables["t"] and found.of(nodes, "other") is None


def from_file(path: Path, name: str, **attrs: Any) -> LookupTables:
    wanted = {"key_index": -2, "value_index": -1, "vocab_size": -1, "delimiter": b"\t", "offset": 0} | attrs
    load = node("load", "InitializeTableFromTextFileV2", "t", "file", **wanted)
    file = const("file", f"/elsewhere/{name}".encode())
    return read_lookup_tables(meta(handle("t"), file, load, node("init", "NoOp", "^load")), path)


def test_vocabulary_file_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets/words.txt").write_bytes(b"x\t7\ny\t-8\nz\ta\n")
    found = from_file(tmp_path, "words.txt", key_index=0, value_index=1, vocab_size=2, offset=1).tables["t"]
    assert (found.keys.tolist(), found.values.tolist(), found.source) == ([b"x", b"y"], [7, -8], "assets/words.txt")
    with pytest.raises(ImportFailure, match=r"words\.txt"):
        from_file(tmp_path, "other.txt")
    with pytest.raises(ImportFailure, match="not numbers"):
        from_file(tmp_path, "words.txt", key_index=0, value_index=1)
    with pytest.raises(ImportFailure, match="no field 2"):
        from_file(tmp_path, "words.txt", key_index=2)


def test_an_offset_counts_lines_and_skips_none(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets/words.txt").write_bytes(b"x\ny\nz\n")
    found = from_file(tmp_path, "words.txt", offset=3, vocab_size=2).tables["t"]
    assert (found.keys.tolist(), found.values.tolist()) == ([b"x", b"y"], [3, 4])


def test_assets_never_leave_the_model(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x\n")
    with pytest.raises(ImportFailure, match="missing"):
        from_file(tmp_path / "m", "..")


def test_handles_behind_identities() -> None:
    nodes = {n.name: n for n in (handle("t"), node("i", "Identity", "t"), node("j", "Identity", "i"), const("c", 1))}
    found = handle_of(nodes, "j")
    assert found is not None and found.name == "t" and handle_of(nodes, "c") is None and handle_of(nodes, "zz") is None


def test_the_restore_op_decides_which_tensor_a_variable_reads(tmp_path: Path) -> None:
    tensors = {"a": (1, (2,), b"\0" * 8), "b": (1, (2,), b"\1" * 8), "c": (1, (), b"\2" * 4)}
    bundle = Bundle(encode.write_bundle(tmp_path, tensors))
    nodes = [
        node("a", "VarHandleOp", shared_name=b"a"), node("b", "VarHandleOp", shared_name=b"b"), node("c", "VariableV2"),
        node("d", "VarHandleOp", shared_name=b"d"), const("names", b"b", b"a"), const("slices", b"", b"4 2,2"),
        node("file", "Placeholder"), node("read", "RestoreV2", "file", "names", "slices"),
        node("id", "Identity", "read:1"), node("one", "AssignVariableOp", "a", "read"),
        node("two", "AssignVariableOp", "b", "id"), node("all", "NoOp", "^one", "^two"),
    ]  # fmt: skip
    found = stored_variables(meta(*nodes, saver=Saver("file:0", "", "all")), bundle)
    assert {k: (v.key, v.extents) for k, v in found.items()} == {
        "a": ("b", None),
        "b": ("a", ((2, 2),)),
        "c": ("c", None),
    }
    assert found["a"].read(bundle).tobytes() == b"\1" * 8


def test_slices() -> None:
    assert parse_slice("") is None
    assert parse_slice("10 4 0,5:-") == ((0, 5), (0, None))
    with pytest.raises(ImportFailure, match="does not parse"):
        parse_slice("10 4 0:5")
