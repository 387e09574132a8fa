"""The readers against TensorFlow: nodes, attributes, tensors, tables, variables and inlined functions are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf.message import Message
from tensorflow.core.framework import node_def_pb2, types_pb2
from tensorflow.core.protobuf import saved_model_pb2

from colonnade.errors import ImportFailure
from colonnade.frontends.tensorflow.bundle import Bundle
from colonnade.frontends.tensorflow.checkpoint import VARIABLES, stored_variables
from colonnade.frontends.tensorflow.functions import FlatGraph, inline
from colonnade.frontends.tensorflow.lookup_tables import read_lookup_tables, read_vocabulary
from colonnade.frontends.tensorflow.protos import FuncRef, MetaGraph, Node, Unbound, read_tensor
from colonnade.frontends.tensorflow.saved_model import open_variables, read

TAXI = Path(__file__).resolve().parents[3] / "shared/data/taxi/estimator_savedmodel/1646034756"
WORDS = ["red", "green", "blue", "ä", ""]


class Colours(tf.Module):
    """Two tables, nested functions, an assertion, variables of one name, one op with two outputs in a body."""

    def __init__(self, vocabulary: str) -> None:
        super().__init__()
        rng = np.random.default_rng(3)
        self.first = tf.Variable(rng.normal(size=(7, 3)).astype("f4"), name="weights")
        self.second = tf.Variable(rng.normal(size=(7, 3)).astype("f4"), name="weights")
        self.layers = [tf.Variable(tf.constant(2.5, tf.bfloat16), name="scale"), tf.Variable([b"x", b""], name="text")]
        keys = tf.constant(WORDS)
        pairs = tf.lookup.KeyValueTensorInitializer(keys, tf.range(5, dtype=tf.int64))
        self.constants = tf.lookup.StaticHashTable(pairs, -1)
        lines = tf.lookup.TextFileInitializer(
            vocabulary, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
        )
        self.file = tf.lookup.StaticHashTable(lines, 6)

    @tf.function
    def inner(self, ids: tf.Tensor, table: tf.Variable) -> tf.Tensor:
        unique, where = tf.unique(ids)
        left, right = tf.split(tf.gather(table, unique), [1, 2], axis=1)
        return tf.gather(tf.concat([right, left], 1), where)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="colour")])
    def serve(self, colour: tf.Tensor) -> dict[str, tf.Tensor]:
        tf.debugging.assert_greater(tf.size(colour), 0)
        first = self.inner(self.constants.lookup(colour) + 1, self.first)
        second = self.inner(self.file.lookup(colour), self.second)
        scaled = second * tf.cast(self.layers[0], tf.float32)
        return {"sum": first + scaled, "ids": self.file.lookup(colour)}


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("colours")
    vocabulary = folder / "words.txt"
    vocabulary.write_bytes(b"blue\nred\r\n\xc3\xa4 x\nlast")
    module = Colours(str(vocabulary))
    tf.saved_model.save(module, str(folder / "model"), signatures=module.serve)
    return folder / "model"


DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32",
          "int64", "uint64", "bool", "complex64", "complex128", "string"]  # fmt: skip


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TensorFlow 1 model: a partitioned reference variable, every dtype, a v1 table, an empty variable."""
    v1 = tf.compat.v1
    path = tmp_path_factory.mktemp("parts") / "model"
    with tf.Graph().as_default(), v1.Session() as session:
        table = v1.get_variable(
            "table", [10, 4], initializer=v1.random_uniform_initializer(seed=5), use_resource=False,
            partitioner=v1.fixed_size_partitioner(3),
        )  # fmt: skip
        v1.get_variable("empty", [0, 5], use_resource=True, initializer=v1.zeros_initializer())
        for name in DTYPES:
            value = tf.constant([b"", b"\0\xff", b"a" * 200]) if name == "string" else tf.cast([0, 1, 3], name)
            v1.get_variable(f"of_{name}", initializer=value, use_resource=name != "string")
        ids = v1.placeholder(tf.string, [None], name="ids")
        words = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["a", "b"], [4, 9], value_dtype=tf.int64), 0
        )
        out = tf.nn.embedding_lookup(table, words.lookup(ids))
        session.run(v1.global_variables_initializer())
        init = v1.tables_initializer()
        session.run(init)
        builder = v1.saved_model.Builder(str(path))
        signature = v1.saved_model.predict_signature_def({"ids": ids}, {"out": out})
        builder.add_meta_graph_and_variables(
            session, ["serve", "cpu"], {"serving_default": signature}, main_op=tf.group(init), strip_default_attrs=True
        )
        builder.add_meta_graph(["train"], {})
        builder.save()
    return path


def proto(path: Path, graph: int = 0) -> Any:
    model = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    return model.meta_graphs[graph]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    return bool(left == right)


def array(tensor: Any) -> np.ndarray[Any, Any]:
    made = tf.make_ndarray(tensor)
    if made.dtype == object:
        return made
    return made.view(np.uint16) if tensor.dtype == types_pb2.DT_BFLOAT16 else made


def value(attr: Any) -> Any:
    """TensorFlow's AttrValue in our spelling."""
    kind = attr.WhichOneof("value")
    if kind is None:
        return None
    if kind == "list":
        present = [f for f, _ in attr.list.ListFields()]
        return tuple(item(f.name, v) for f in present for v in getattr(attr.list, f.name))
    return item(kind, getattr(attr, kind))


def item(kind: str, raw: Any) -> Any:
    if kind == "type":
        return tf.dtypes.as_dtype(raw).base_dtype.name.replace("half", "float16") if raw else "invalid"
    if kind == "shape":
        return None if raw.unknown_rank else tuple(d.size if d.size >= 0 else None for d in raw.dim)
    if kind == "func":
        return FuncRef(raw.name, {k: value(v) for k, v in raw.attr.items()})
    if kind == "placeholder":
        return Unbound(raw)
    return array(raw) if kind == "tensor" else raw


def check_nodes(ours: tuple[Node, ...], theirs: Any) -> None:
    assert len(ours) == len(theirs)
    for node, want in zip(ours, theirs, strict=True):
        assert (node.name, node.op, node.inputs) == (want.name, want.op, tuple(want.input))
        assert set(node.attrs.explicit) == set(want.attr)  # type: ignore[attr-defined]
        for key, attr in want.attr.items():
            got = node.attrs[key]
            if attr.WhichOneof("value") == "tensor" and attr.tensor.dtype == types_pb2.DT_STRING:
                assert got.tolist() == array(attr.tensor).tolist()
            else:
                assert same(got, value(attr)), (node.name, key, got, attr)


def check_graph(path: Path, tags: list[str] | None = None, graph: int = 0) -> MetaGraph:
    meta = read(path, tags)
    want = proto(path, graph)
    check_nodes(meta.nodes, want.graph_def.node)
    assert list(meta.functions) == [f.signature.name for f in want.graph_def.library.function]
    for theirs in want.graph_def.library.function:
        ours = meta.functions[theirs.signature.name]
        check_nodes(ours.nodes, theirs.node_def)
        assert dict(ours.ret) == dict(theirs.ret)
        assert dict(ours.control_ret) == dict(theirs.control_ret)
        assert [a.name for a in ours.inputs] == [a.name for a in theirs.signature.input_arg]
        assert [a.name for a in ours.outputs] == [a.name for a in theirs.signature.output_arg]
    for key, signature in meta.signatures.items():
        theirs = want.signature_def[key]
        assert signature.method == theirs.method_name
        for ours_side, theirs_side in ((signature.inputs, theirs.inputs), (signature.outputs, theirs.outputs)):
            assert set(ours_side) == set(theirs_side)
            for name, info in ours_side.items():
                assert info.name == theirs_side[name].name
                assert info.dtype == item("type", theirs_side[name].dtype)
                assert info.shape == item("shape", theirs_side[name].tensor_shape)
    return meta


def check_bundle(path: Path) -> Bundle:
    bundle = Bundle(path / "variables/variables")
    bundle.check((key, None) for key in bundle.keys())  # noqa: SIM118
    reader = tf.train.load_checkpoint(str(path / "variables/variables"))
    assert set(bundle.keys()) == set(reader.get_variable_to_shape_map())
    for key in sorted(bundle.keys()):
        got, want = bundle.get(key), reader.get_tensor(key)
        if bundle.entry(key).dtype == "bfloat16":
            want = want.view(np.uint16)
        if got.dtype == object:
            want = np.array(want, object)
            assert got.shape == want.shape and got.tolist() == want.tolist(), key
        else:
            assert same(got, np.asarray(want)), key
    return bundle


def run_flat(flat: FlatGraph, meta: MetaGraph, path: Path, feeds: dict[str, Any], fetches: list[str]) -> list[Any]:
    """Runs a flat graph in TensorFlow: its variables restored, its tables initialised."""
    graph_def = tf.compat.v1.GraphDef()
    for node in flat.nodes:
        attrs: Any = node.attrs
        made = node_def_pb2.NodeDef()
        if hasattr(attrs, "_buf"):
            made = node_def_pb2.NodeDef.FromString(attrs._buf[attrs._start : attrs._end])
        made.name, made.op = node.name, node.op
        del made.input[:]
        made.input.extend(sorted(node.inputs, key=lambda ref: ref.startswith("^")))
        graph_def.node.add().CopyFrom(made)
    graph_def.versions.CopyFrom(proto(path).graph_def.versions)
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.import_graph_def(graph_def, name="")
        present = {node.name for node in flat.nodes}
        assets = {name: str(path / file) for name, file in meta.assets.items() if name.split(":")[0] in present}
        assert meta.saver is not None
        session.run(
            graph.get_operation_by_name(meta.saver.restore.split(":")[0]),
            {meta.saver.filename: str(path / "variables/variables")},
        )
        if meta.init_op:
            session.run(graph.get_operation_by_name(meta.init_op), assets)
        names = [flat.tensors[f] for f in fetches]
        return list(session.run([n if ":" in n else n + ":0" for n in names], feeds))


def flattened(meta: MetaGraph, fetches: list[str]) -> FlatGraph:
    assert meta.saver is not None
    controls = [f"^{meta.saver.restore.split(':')[0]}"] + ([f"^{meta.init_op}"] if meta.init_op else [])
    return inline(meta, [*fetches, *controls])


def test_graph_of_a_tf2_model(colours: Path) -> None:
    meta = check_graph(colours)
    assert list(meta.signatures) == ["serving_default"]
    assert meta.init_op and meta.functions


def test_bundle_of_a_tf2_model(colours: Path) -> None:
    check_bundle(colours)


def test_tables_of_a_tf2_model(colours: Path) -> None:
    found = read_lookup_tables(read(colours), colours)
    assert not found.unknown
    contents = sorted(
        (dict(zip(t.keys.tolist(), t.values.tolist(), strict=True)) for t in found.tables.values()), key=len
    )
    by_file = {b"blue": 0, b"red": 1, "ä x".encode(): 2, b"last": 3}
    assert contents == [by_file, {w.encode(): i for i, w in enumerate(WORDS)}]
    flat = inline(read(colours), ["StatefulPartitionedCall:0"])
    finds = [n for n in flat.nodes if n.op == "LookupTableFindV2"]
    assert len(finds) >= 2
    assert {n.inputs[0] for n in finds} <= set(found.tables)


def test_variables_of_a_tf2_model(colours: Path) -> None:
    meta = read(colours)
    bundle = open_variables(colours)
    stored = stored_variables(meta, bundle)
    handles = [n for n in meta.nodes if n.op in VARIABLES]
    assert {n.name for n in handles} == {*stored, "Variable"}  # the last one holds the path of the asset
    keys = {found.key for found in stored.values()}
    assert {f"{name}/.ATTRIBUTES/VARIABLE_VALUE" for name in ("first", "second", "layers/0", "layers/1")} <= keys


def test_inlined_tf2_model_runs_the_same(colours: Path) -> None:
    meta = read(colours)
    signature = meta.signatures["serving_default"]
    fetches = [signature.outputs[k].name for k in ("ids", "sum")]
    flat = flattened(meta, fetches)
    assert not [n for n in flat.nodes if n.op in ("PartitionedCall", "StatefulPartitionedCall")]
    assert any(n.op == "Assert" for n in flat.nodes) or any("Assert" in n.name for n in flat.nodes)
    colour = np.array(["red", "none", "last", "blue", ""], object)
    ids, total = run_flat(flat, meta, colours, {signature.inputs["colour"].name: colour}, fetches)
    want = tf.saved_model.load(str(colours)).signatures["serving_default"](colour=tf.constant(colour))
    assert same(ids, want["ids"].numpy()) and same(total, want["sum"].numpy())


def test_graph_of_a_tf1_model(parts: Path) -> None:
    meta = check_graph(parts, ["cpu", "serve"])
    assert check_graph(parts, ["train"], 1).signatures == {}
    with pytest.raises(ImportFailure, match="serve, cpu"):
        read(parts)
    gather = next(n for n in meta.nodes if n.op == "VariableV2")
    assert "container" not in gather.attrs.explicit  # type: ignore[attr-defined]
    assert gather.attrs["container"] == b""


def test_bundle_of_a_tf1_model(parts: Path) -> None:
    bundle = check_bundle(parts)
    entry = bundle.entry("table")
    assert len(entry.slices) == 3
    rows = np.concatenate([bundle.get_slice("table", s) for s in entry.slices])
    assert same(rows, bundle.get("table"))


def test_partitioned_variable_is_read_by_part(parts: Path) -> None:
    bundle = open_variables(parts)
    stored = stored_variables(read(parts, ["serve", "cpu"]), bundle)
    assert {len(found.extents or ()) for found in stored.values()} == {0, 2}
    rows = [stored[f"table/part_{i}"].read(bundle) for i in range(3)]
    assert same(np.concatenate(rows), bundle.get("table"))
    assert [len(r) for r in rows] == [4, 3, 3]
    assert stored["empty"].read(bundle).shape == (0, 5)


def test_tf1_tables_and_run(parts: Path) -> None:
    meta = read(parts, ["serve", "cpu"])
    (table,) = read_lookup_tables(meta, parts).tables.values()
    assert (table.keys.tolist(), table.values.tolist()) == ([b"a", b"b"], [4, 9])
    fetches = [meta.signatures["serving_default"].outputs["out"].name]
    (got,) = run_flat(flattened(meta, fetches), meta, parts, {"ids:0": np.array(["b", "x", "a"], object)}, fetches)
    rows = open_variables(parts).get("table")
    assert same(got, rows[[9, 0, 4]])


def serialised(tensor: Message) -> np.ndarray[Any, Any]:
    data = tensor.SerializeToString()
    return read_tensor(data, 0, len(data))


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (5,), (2, 3), (64, 1000)])
def test_constants(name: str, shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    rng = np.random.default_rng(size)
    if name == "string":
        data: Any = np.array([rng.bytes(i % 7) for i in range(size)], object).reshape(shape)
    else:
        data = rng.integers(-100, 100, shape).astype(tf.dtypes.as_dtype(name).as_numpy_dtype)
    made = tf.make_tensor_proto(data, dtype=name, shape=shape)
    got, want = serialised(made), array(made)
    if name == "string":
        assert (got.shape, got.tolist()) == (want.shape, want.tolist())
    else:
        assert same(got, want)


FIELDS = {
    "float32": "float_val", "float64": "double_val", "int32": "int_val", "int8": "int_val", "uint16": "int_val",
    "int64": "int64_val", "bool": "bool_val", "string": "string_val", "float16": "half_val", "bfloat16": "half_val",
    "uint32": "uint32_val", "uint64": "uint64_val", "complex64": "scomplex_val",
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_constants_listed_with_too_few_values(name: str, count: int) -> None:
    made = tf.make_tensor_proto(np.zeros((2, 3), bool)).__class__()
    made.dtype = tf.dtypes.as_dtype(name).as_datatype_enum
    for size in (2, 3):
        made.tensor_shape.dim.add().size = size
    values: dict[str, list[Any]] = {"string": [b"a", b"", b"ccc"] * 2, "bool": [True, False, True] * 2}
    values["int8"] = values["int32"] = values["int64"] = [-1, 5, -100] * 2
    values["complex64"] = [1.5, -2.0] * 6
    listed = values.get(name, [1, 0, 7] * 2)[: count * (2 if name == "complex64" else 1)]
    getattr(made, FIELDS[name]).extend(listed)
    got = serialised(made)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # the op's own reading of the proto
        want = _constant(session, made)
    if name == "string":
        assert got.tolist() == want.tolist()
    else:
        assert same(got, want.view(np.uint16) if name == "bfloat16" else want)


def _constant(session: Any, made: Any) -> Any:
    node = tf.compat.v1.NodeDef(name="c", op="Const")
    node.attr["value"].tensor.CopyFrom(made)
    node.attr["dtype"].type = made.dtype
    tf.import_graph_def(tf.compat.v1.GraphDef(node=[node]), name="")
    return session.run("c:0")


VOCABULARIES = [
    b"a\nb\n",
    b"a\nb",
    b"a\r\nb\r\n",
    b"a b\n\tc\n",
    b"a\n\nb\n",
    b"",
    b"\n",
    b"a\rb\nc\n",
    b"a\r\r\nc\r",
    b"\r\n",
    b"a\t\n\tb\n",
    b"+5\n0x10\n",
    b"99999999999999999999\n",
    b"x\ty\nz\tw\n",
    b"1\n 2\n-3\n",
]


@pytest.mark.parametrize("data", VOCABULARIES)
@pytest.mark.parametrize("size", [-1, 2, 5])
@pytest.mark.parametrize("index", [-2, 0, 1])
@pytest.mark.parametrize("dtype", ["string", "int64"])
def test_vocabulary_files(tmp_path: Path, data: bytes, size: int, index: int, dtype: str) -> None:
    file = tmp_path / "words.txt"
    file.write_bytes(data)
    attrs = {"key_index": index, "value_index": -1, "vocab_size": size, "delimiter": b"\t", "offset": 0}
    try:
        keys, values = read_vocabulary(file, Node("init", "InitializeTableFromTextFileV2", (), attrs), dtype, "int64")
    except ImportFailure:
        keys = values = None
    try:
        found = _table(str(file), index, size, dtype)
    except tf.errors.OpError:
        found = None
    assert (keys is None) == (found is None)
    if keys is not None and values is not None:
        assert dict(zip(keys.tolist(), values.tolist(), strict=True)) == found


def _table(file: str, index: int, size: int, dtype: str) -> dict[Any, Any]:
    table = tf.raw_ops.HashTableV2(key_dtype=dtype, value_dtype="int64", shared_name=file)
    tf.raw_ops.InitializeTableFromTextFileV2(
        table_handle=table, filename=file, key_index=index, value_index=-1, vocab_size=size, delimiter="\t"
    )
    keys, values = tf.raw_ops.LookupTableExportV2(table_handle=table, Tkeys=dtype, Tvalues="int64")
    return dict(zip(keys.numpy().tolist(), values.numpy().tolist(), strict=True))


@pytest.mark.shared
def test_estimator_export() -> None:
    meta = check_graph(TAXI)
    bundle = check_bundle(TAXI)
    assert len(stored_variables(meta, bundle)) == sum(n.op in VARIABLES for n in meta.nodes) == 21
    tables = read_lookup_tables(meta, TAXI)
    assert sorted(len(t.keys) for t in tables.tables.values()) == [6, 53] and not tables.unknown
    outputs = [t for s in meta.signatures.values() for info in s.outputs.values() for t in info.tensors]
    flat = inline(meta, outputs)
    nodes = {n.name: n for n in flat.nodes}
    finds = [n for n in flat.nodes if n.op == "LookupTableFindV2"]
    assert finds and all(tables.of(nodes, n.inputs[0]) is not None for n in finds)
