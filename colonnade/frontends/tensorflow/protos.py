"""Typed, frozen views of the parts of a MetaGraphDef that an import needs; attributes stay bytes until read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.errors import ImportFailure
from colonnade.frontends.tensorflow import wire
from colonnade.frontends.tensorflow.wire import BYTES, VARINT, Buffer, Span, damaged

Shape = tuple[int | None, ...] | None

_REF = 100
_FLOAT8 = {
    24: "float8_e5m2", 25: "float8_e4m3fn", 26: "float8_e4m3fnuz", 27: "float8_e4m3b11fnuz", 28: "float8_e5m2fnuz",
}  # fmt: skip
DTYPES: dict[int, str] = {
    0: "invalid", 1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string",
    8: "complex64", 9: "int64", 10: "bool", 11: "qint8", 12: "quint8", 13: "qint32", 14: "bfloat16", 15: "qint16",
    16: "quint16", 17: "uint16", 18: "complex128", 19: "float16", 20: "resource", 21: "variant", 22: "uint32",
    23: "uint64", **_FLOAT8, 29: "int4", 30: "uint4", 31: "int2", 32: "uint2", 33: "float4_e2m1fn",
}  # fmt: skip

# What numpy cannot name is kept as its bits: bfloat16 as uint16, an 8-bit float as uint8.
NUMPY: dict[str, np.dtype[Any]] = {
    name: np.dtype(code)
    for name, code in {
        "float32": "<f4", "float64": "<f8", "int32": "<i4", "uint8": "u1", "int16": "<i2", "int8": "i1",
        "complex64": "<c8", "int64": "<i8", "bool": "?", "qint8": "i1", "quint8": "u1", "qint32": "<i4",
        "bfloat16": "<u2", "qint16": "<i2", "quint16": "<u2", "uint16": "<u2", "complex128": "<c16",
        "float16": "<f2", "uint32": "<u4", "uint64": "<u8", "int4": "i1", "uint4": "u1", "int2": "i1", "uint2": "u1",
        "float4_e2m1fn": "u1", **dict.fromkeys(_FLOAT8.values(), "u1"),
    }.items()
}  # fmt: skip

_OPAQUE = {"string": 8, "resource": 14, "variant": 15}  # dtype -> the TensorProto field with one byte string an element
_FIXED = {"float32": (5, 4), "float64": (6, 8), "complex64": (9, 4), "complex128": (12, 8)}
_VARINT = {"int64": 10, "bool": 11, "uint32": 16, "uint64": 17, "float16": 13, "bfloat16": 13}
_INT_VAL = 7
_MAX_BYTES = 1 << 31
_COPY_BELOW = 1 << 16


def dtype_name(number: int) -> str:
    """The name of a DataType number, without its reference mark: 1 and 101 are both 'float32'."""
    base = number - _REF if number > _REF else number
    if base not in DTYPES:
        raise damaged("unknown dtype number", got=str(number))
    return DTYPES[base]


@dataclass(frozen=True, slots=True)
class FuncRef:
    """A function named by an attribute, with the attributes bound in the reference."""

    name: str
    attrs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unbound:
    """An attribute of a function body that the caller binds, by its name."""

    name: str


def read_shape(buf: Buffer, i: int, end: int) -> Shape:
    """A TensorShapeProto: None for an unknown rank, None in it for an unknown size."""
    dims: list[int | None] = []
    for field, kind, a, b in wire.fields(buf, i, end):
        if field == 2 and kind == BYTES:
            size = 0
            for inner, inner_kind, value, _ in wire.fields(buf, a, b):
                if inner == 1 and inner_kind == VARINT:
                    size = wire.signed(value)
            dims.append(size if size >= 0 else None)
        elif field == 3 and kind == VARINT and a:
            return None
    return tuple(dims)


def read_tensor(buf: Buffer, i: int, end: int) -> np.ndarray[Any, Any]:
    """A TensorProto as an array.

    Facts: strings, resources and variants are object arrays of bytes; bfloat16 comes as uint16, 8-bit floats as uint8;
    content of 64 KiB and more is a view of the file (unaligned), a large splat a read-only broadcast.
    """
    dtype = "invalid"
    shape: Shape = ()
    content: Span | None = None
    values: list[tuple[int, int, int, int]] = []
    for item in wire.fields(buf, i, end):
        field, kind, a, b = item
        if field == 1 and kind == VARINT:
            dtype = dtype_name(a)
        elif field == 2 and kind == BYTES:
            shape = read_shape(buf, a, b)
        elif field == 4 and kind == BYTES:
            content = (a, b)
        elif field > 4:
            values.append(item)
    if shape is None or None in shape:
        raise damaged("a constant has no full shape", got=str(shape))
    dims = tuple(d for d in shape if d is not None)
    if dtype in _OPAQUE:
        return _opaque(buf, dtype, dims, content, values)
    if dtype not in NUMPY:
        raise damaged("a constant has no dtype", got=dtype)
    return _numeric(buf, dtype, dims, content, values)


def _numeric(
    buf: Buffer, dtype: str, dims: tuple[int, ...], content: Span | None, values: list[tuple[int, int, int, int]]
) -> np.ndarray[Any, Any]:
    kind = NUMPY[dtype]
    elements = math.prod(dims)
    if elements * kind.itemsize > _MAX_BYTES:
        raise damaged("a constant is larger than a protobuf can be", got=f"{dtype} {dims}", want="at most 2 GiB")
    if content is not None and content[1] > content[0]:
        size = content[1] - content[0]
        if size != elements * kind.itemsize:
            raise damaged("a constant has too few or too many bytes", "", f"{size} bytes", f"{dtype} {dims}")
        if size < _COPY_BELOW:
            return np.frombuffer(buf[content[0] : content[1]], kind).copy().reshape(dims)
        return np.frombuffer(buf, kind, elements, content[0]).reshape(dims)
    return _filled(_listed(buf, dtype, kind, values), elements, dims)


def _listed(
    buf: Buffer, dtype: str, kind: np.dtype[Any], values: list[tuple[int, int, int, int]]
) -> np.ndarray[Any, Any]:
    """The values of the dtype's own list field."""
    if dtype in _FIXED:
        field, width = _FIXED[dtype]
        data = b"".join(wire.raw(buf, k, a, b, width) for f, k, a, b in values if f == field)
        return np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind)
    field = _VARINT.get(dtype, _INT_VAL)
    if dtype in _FLOAT8.values():
        return np.frombuffer(b"".join(buf[a:b] for f, k, a, b in values if f == 18 and k == BYTES), kind)
    numbers = [n for f, k, a, b in values if f == field for n in wire.integers(buf, k, a, b)]
    wide = np.array(numbers, np.uint64)
    if dtype in ("float16", "bfloat16"):
        return wide.astype(np.uint16).view(kind)
    return wide != 0 if dtype == "bool" else wide.astype(kind)


def _filled(listed: np.ndarray[Any, Any], elements: int, dims: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The listed values, the last one repeated up to the shape; zeros where there is none."""
    if len(listed) >= elements:
        return listed[:elements].copy().reshape(dims)
    if len(listed) <= 1:
        value = listed[0] if len(listed) else listed.dtype.type(0)
        if elements * listed.dtype.itemsize > _COPY_BELOW:
            return np.broadcast_to(np.asarray(value, listed.dtype), dims)
        return np.full(dims, value, listed.dtype)
    out = np.empty(elements, listed.dtype)
    out[: len(listed)] = listed
    out[len(listed) :] = listed[-1]
    return out.reshape(dims)


def _opaque(
    buf: Buffer, dtype: str, dims: tuple[int, ...], content: Span | None, values: list[tuple[int, int, int, int]]
) -> np.ndarray[Any, Any]:
    elements = math.prod(dims)
    if elements * 8 > _MAX_BYTES:
        raise damaged("a constant is larger than a protobuf can be", got=f"{dtype} {dims}", want="at most 2 GiB")
    if content is not None and content[1] > content[0]:
        items = counted_strings(buf, content[0], content[1], elements, checksum=0)
    else:
        items = [bytes(buf[a:b]) for f, k, a, b in values if f == _OPAQUE[dtype] and k == BYTES][:elements]
    last = items[-1] if items else b""
    out = np.full(elements, last, object)
    out[: len(items)] = items
    return out.reshape(dims)


def counted_strings(buf: Buffer, i: int, end: int, count: int, checksum: int) -> list[bytes]:
    """`count` strings stored as all their lengths (varints), `checksum` bytes, then all their bytes."""
    if count > end - i:
        got, want = f"{end - i} bytes", f"{count} strings"
        raise damaged("a string tensor has fewer bytes than strings", f"byte {i}", got, want)
    lengths = []
    for _ in range(count):
        length, i = wire.varint(buf, i, end)
        lengths.append(length)
    i += checksum
    if i + sum(lengths) != end:
        got, want = f"{end - i} bytes", f"{sum(lengths)} bytes"
        raise damaged("a string tensor does not fill its bytes", f"byte {i}", got, want)
    out = []
    for length in lengths:
        out.append(bytes(buf[i : i + length]))
        i += length
    return out


def read_attr(buf: Buffer, i: int, end: int) -> Any:
    """An AttrValue as a Python value: bytes, int, float, bool, dtype name, shape, array, FuncRef, Unbound, tuple."""
    found: Any = None
    for field, kind, a, b in wire.fields(buf, i, end):
        if field == 1 and kind == BYTES:
            found = _read_list(buf, a, b)
        elif field == 9 and kind == BYTES:
            found = Unbound(wire.text(buf, a, b))
        elif field == 10 and kind == BYTES:
            found = _read_func(buf, a, b)
        elif field in _ITEMS:
            found = _ITEMS[field](buf, kind, a, b)
    return found


def _read_func(buf: Buffer, i: int, end: int) -> FuncRef:
    name = wire.span(buf, i, end, 1) or (end, end)
    attrs = {key: read_attr(buf, a, b) for key, (a, b) in (wire.entry(buf, *s) for s in wire.spans(buf, i, end, 2))}
    return FuncRef(wire.text(buf, *name), attrs)


def _read_list(buf: Buffer, i: int, end: int) -> tuple[Any, ...]:
    out: list[Any] = []
    for field, kind, a, b in wire.fields(buf, i, end):
        if field == 9 and kind == BYTES:
            out.append(_read_func(buf, a, b))
        elif field == 4:
            data = wire.raw(buf, kind, a, b, 4)
            out.extend(np.frombuffer(data, "<f4").tolist())
        elif field in (3, 5, 6):
            out.extend(_SCALARS[field](value) for value in wire.integers(buf, kind, a, b))
        elif field in _ITEMS and kind == BYTES:
            out.append(_ITEMS[field](buf, kind, a, b))
    return tuple(out)


def _scalar(field: int) -> Any:
    def read(buf: Buffer, kind: int, a: int, b: int) -> Any:
        if kind != VARINT:
            raise damaged("an attribute has another wire type than its kind", where=f"byte {a}")
        return _SCALARS[field](a)

    return read


def _message(read: Any) -> Any:
    def checked(buf: Buffer, kind: int, a: int, b: int) -> Any:
        if kind != BYTES:
            raise damaged("an attribute has another wire type than its kind", got=str(kind))
        return read(buf, a, b)

    return checked


_SCALARS: dict[int, Any] = {3: wire.signed, 5: bool, 6: dtype_name}
_ITEMS: dict[int, Any] = {
    2: _message(lambda buf, a, b: bytes(buf[a:b])),
    3: _scalar(3),
    4: wire.real,
    5: _scalar(5),
    6: _scalar(6),
    7: _message(read_shape),
    8: _message(read_tensor),
}

_SHORT = 40
_SHARED = (str, int, float, bytes)


class Attrs(Mapping[str, Any]):
    """The attributes of one node, decoded when they are read.

    Facts: a string attribute is bytes, a dtype its name as str, a shape a tuple (None: unknown rank), a list a tuple, a
    tensor an array, a function a FuncRef. What the node leaves out comes from the op's declared defaults, where the
    file has them; `explicit` are the names that the node itself has. Nothing but short values is kept.
    """

    __slots__ = ("_buf", "_cache", "_defaults", "_end", "_node", "_start")

    def __init__(
        self, buf: Buffer, start: int, end: int, defaults: Mapping[str, Any], cache: dict[bytes, Any], node: str
    ) -> None:
        self._buf = buf
        self._start = start
        self._end = end
        self._defaults = defaults
        self._cache = cache
        self._node = node

    def _entries(self) -> Iterator[tuple[str, Span]]:
        buf = self._buf
        for field, kind, a, b in wire.fields(buf, self._start, self._end):
            if field == 5 and kind == BYTES:
                yield wire.entry(buf, a, b)

    def _find(self, key: str) -> Span | None:
        """The byte range of an attribute's value: the common layout `0a key 12 value` is compared without decoding."""
        buf = self._buf
        want = key.encode()
        size = len(want)
        for field, kind, a, b in wire.fields(buf, self._start, self._end):
            if field != 5 or kind != BYTES:
                continue
            if size < 128 and buf[a] == 0x0A and b - a > size + 2:
                behind = a + 2 + size
                if buf[a + 1] != size or buf[a + 2 : behind] != want:
                    if buf[a + 1] < 128:
                        continue
                elif buf[behind] == 0x12:
                    length, i = wire.varint(buf, behind + 1, b)
                    if i + length == b:
                        return i, b
            name, value = wire.entry(buf, a, b)
            if name == key:
                return value
        return None

    def __getitem__(self, key: str) -> Any:
        found = self._find(key)
        if found is None:
            return self._defaults[key]
        a, b = found
        if b - a > _SHORT:
            return self._decode(key, a, b)
        data = bytes(self._buf[a:b])
        if data in self._cache:
            return self._cache[data]
        value = self._decode(key, a, b)
        if isinstance(value, _SHARED):
            self._cache[data] = value
        return value

    def raw(self) -> bytes:
        """The bytes of all attributes, to compare nodes by: a file lists them in any order."""
        buf = self._buf
        fields = wire.fields(buf, self._start, self._end)
        return b"".join(sorted(bytes(buf[a:b]) for field, kind, a, b in fields if field == 5 and kind == BYTES))

    def _decode(self, key: str, a: int, b: int) -> Any:
        try:
            return read_attr(self._buf, a, b)
        except ImportFailure as error:
            where = f"attribute '{key}' of node '{self._node}'" + (f", {error.where}" if error.where else "")
            raise damaged(error.message, where, error.got, error.want) from None

    def is_ref(self, key: str) -> bool:
        """Whether a dtype attribute carries the reference mark ('float32_ref')."""
        found = self._find(key)
        if found is None:
            return False
        return any(f == 6 and k == VARINT and a > _REF for f, k, a, _ in wire.fields(self._buf, *found))

    @property
    def explicit(self) -> tuple[str, ...]:
        """The names that the node itself has."""
        return tuple(dict.fromkeys(key for key, _ in self._entries()))

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self.explicit, *self._defaults)))

    def __len__(self) -> int:
        return len(set(self.explicit) | set(self._defaults))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and (self._find(key) is not None or key in self._defaults)


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a graph; inputs are as in the file: 'a', 'a:1', '^control'."""

    name: str
    op: str
    inputs: tuple[str, ...]
    attrs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Arg:
    """One declared input or output of an op or a function; a list where `number` or `dtypes` names an attribute."""

    name: str
    dtype: str
    dtype_attr: str = ""
    number_attr: str = ""
    list_attr: str = ""
    is_ref: bool = False

    def width(self, attrs: Mapping[str, Any]) -> int:
        """How many tensors the argument stands for, at a node with `attrs`."""
        if self.number_attr:
            return int(attrs[self.number_attr])
        return len(attrs[self.list_attr]) if self.list_attr else 1


@dataclass(frozen=True, slots=True)
class OpDef:
    """The declaration of an op or the signature of a function."""

    name: str
    inputs: tuple[Arg, ...]
    outputs: tuple[Arg, ...]
    control_outputs: tuple[str, ...]
    attrs: tuple[str, ...]
    defaults: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the library; `ret` maps an output to a body tensor, 'node:output:index' or an input's name."""

    name: str
    inputs: tuple[Arg, ...]
    outputs: tuple[Arg, ...]
    nodes: tuple[Node, ...]
    ret: Mapping[str, str]
    control_ret: Mapping[str, str]
    attr_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor of a signature.

    Facts: `name` is empty for a composite; a sparse tensor has `sparse` = (values, indices, dense shape) tensor names,
    a ragged or other composite tensor its `components` in order.
    """

    name: str
    dtype: str
    shape: Shape
    sparse: tuple[str, str, str] | None = None
    components: tuple[TensorInfo, ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        """Every tensor name that the entry stands for."""
        if self.sparse is not None:
            return self.sparse
        return tuple(name for part in self.components for name in part.tensors) or ((self.name,) if self.name else ())


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature: what a request names and what it gets."""

    key: str
    inputs: Mapping[str, TensorInfo]
    outputs: Mapping[str, TensorInfo]
    method: str


@dataclass(frozen=True, slots=True)
class Saver:
    """The tensor and node names by which a graph saves and restores its variables."""

    filename: str
    save: str
    restore: str


@dataclass(frozen=True, slots=True)
class MetaGraph:
    """One graph of a SavedModel, with what it needs to run.

    Facts: `assets` maps a filename tensor ('Const:0') to its path below the model; `init_op` is the node that
    initialises tables, empty where there is none; `ops` are the op declarations stored in the file.
    """

    tags: tuple[str, ...]
    nodes: tuple[Node, ...]
    functions: Mapping[str, Function]
    signatures: Mapping[str, Signature]
    assets: Mapping[str, str]
    init_op: str
    saver: Saver | None
    ops: Mapping[str, OpDef]
    tensorflow_version: str


class NodeReader:
    """Parses NodeDefs of one buffer; names and short attributes are shared between nodes.

    Facts: `buf` is parsed, `kept` (the same bytes, for example file-backed) is what the attributes refer to.
    """

    def __init__(self, buf: bytes, kept: Buffer, ops: Mapping[str, OpDef]) -> None:
        self._buf = buf
        self._kept = kept
        self._defaults = {name: op.defaults for name, op in ops.items()}
        self._names: dict[bytes, str] = {}
        self._cache: dict[bytes, Any] = {}

    def _text(self, data: bytes, at: int) -> str:
        known = self._names.get(data)
        if known is None:
            known = wire.text(self._buf, at, at + len(data))
            self._names[data] = known
        return known

    def node(self, start: int, end: int) -> Node:
        """The NodeDef in `buf[start:end]`."""
        # One loop without calls for the layout that every writer uses: one-byte tags, length-delimited fields.
        buf = self._buf
        names = self._names
        name = op = ""
        inputs: list[str] = []
        first = end
        i = start
        while i < end:
            tag = buf[i]
            if tag & 0x87 != BYTES or i + 1 >= end:
                return self._slow_node(start, end)
            begin = i
            size = buf[i + 1]
            i += 2
            if size > 0x7F:
                if buf[i] < 0x80:
                    size += (buf[i] << 7) - 0x80
                    i += 1
                else:
                    size, i = wire.varint(buf, i - 1, end)
            stop = i + size
            if stop > end:
                raise damaged("a node runs over its end", f"byte {i}", f"{end - i} bytes", f"{size} bytes")
            if tag == 0x2A:
                if first == end:
                    first = begin
            elif tag <= 0x1A:
                data = buf[i:stop]
                value = names.get(data)
                if value is None:
                    value = self._text(data, i)
                if tag == 0x1A:
                    inputs.append(value)
                elif tag == 0x0A:
                    name = value
                else:
                    op = value
            i = stop
        return self._made(name, op, inputs, first, end)

    def _slow_node(self, start: int, end: int) -> Node:
        buf = self._buf
        name = op = ""
        inputs: list[str] = []
        for field, kind, a, b in wire.fields(buf, start, end):
            if kind == BYTES and field in (1, 2, 3):
                value = self._text(buf[a:b], a)
                if field == 3:
                    inputs.append(value)
                elif field == 1:
                    name = value
                else:
                    op = value
        return self._made(name, op, inputs, start, end)

    def _made(self, name: str, op: str, inputs: list[str], first: int, end: int) -> Node:
        if not name or not op:
            raise damaged("a node has no name or no op", where=f"byte {first}", got=f"name {name!r}, op {op!r}")
        attrs = Attrs(self._kept, first, end, self._defaults.get(op, {}), self._cache, name)
        return Node(name, op, tuple(inputs), attrs)

    def nodes(self, start: int, end: int, number: int) -> tuple[Node, ...]:
        """Every NodeDef in the repeated field `number` of a message."""
        node = self.node
        return tuple([node(a, b) for a, b in wire.spans(self._buf, start, end, number)])

    def function(self, start: int, end: int) -> Function:
        """The FunctionDef in `buf[start:end]`."""
        buf = self._buf
        signature = read_op_def(buf, *(wire.span(buf, start, end, 1) or (end, end)))
        return Function(
            signature.name,
            signature.inputs,
            signature.outputs,
            self.nodes(start, end, 3),
            _string_map(buf, start, end, 4),
            _string_map(buf, start, end, 6),
            signature.attrs,
        )


def _string_map(buf: Buffer, start: int, end: int, number: int) -> dict[str, str]:
    entries = (wire.entry(buf, a, b) for a, b in wire.spans(buf, start, end, number))
    return {key: wire.text(buf, *value) for key, value in entries}


def _read_arg(buf: Buffer, start: int, end: int) -> Arg:
    words = {1: "", 4: "", 5: "", 6: ""}
    dtype, is_ref = "", False
    for field, kind, a, b in wire.fields(buf, start, end):
        if field in words and kind == BYTES:
            words[field] = wire.text(buf, a, b)
        elif field == 3 and kind == VARINT:
            dtype = dtype_name(a)
        elif field == 16 and kind == VARINT:
            is_ref = bool(a)
    return Arg(words[1], dtype, words[4], words[5], words[6], is_ref)


def read_op_def(buf: Buffer, start: int, end: int) -> OpDef:
    """An OpDef: names, arguments and attribute defaults."""
    name = ""
    inputs, outputs, controls, attrs = [], [], [], []
    defaults: dict[str, Any] = {}
    for field, kind, a, b in wire.fields(buf, start, end):
        if kind != BYTES:
            continue
        if field == 1:
            name = wire.text(buf, a, b)
        elif field == 2:
            inputs.append(_read_arg(buf, a, b))
        elif field == 3:
            outputs.append(_read_arg(buf, a, b))
        elif field == 20:
            controls.append(wire.text(buf, a, b))
        elif field == 4:
            key = wire.text(buf, *(wire.span(buf, a, b, 1) or (b, b)))
            attrs.append(key)
            default = wire.span(buf, a, b, 3)
            if default is not None:
                defaults[key] = read_attr(buf, *default)
    return OpDef(name, tuple(inputs), tuple(outputs), tuple(controls), tuple(attrs), defaults)


def read_tensor_info(buf: Buffer, start: int, end: int) -> TensorInfo:
    """A TensorInfo, with its sparse or composite encoding as data."""
    name, dtype = "", "invalid"
    shape: Shape = ()
    sparse: tuple[str, str, str] | None = None
    components: tuple[TensorInfo, ...] = ()
    for field, kind, a, b in wire.fields(buf, start, end):
        if field == 1 and kind == BYTES:
            name = wire.text(buf, a, b)
        elif field == 2 and kind == VARINT:
            dtype = dtype_name(a)
        elif field == 3 and kind == BYTES:
            shape = read_shape(buf, a, b)
        elif field == 4 and kind == BYTES:
            parts = [wire.text(buf, *(wire.span(buf, a, b, part) or (b, b))) for part in (1, 2, 3)]
            sparse = (parts[0], parts[1], parts[2])
        elif field == 5 and kind == BYTES:
            components = tuple(read_tensor_info(buf, c, d) for c, d in wire.spans(buf, a, b, 2))
    return TensorInfo(name, dtype, shape, sparse, components)


def read_signature(buf: Buffer, key: str, start: int, end: int) -> Signature:
    """A SignatureDef."""
    sides: list[dict[str, TensorInfo]] = []
    for number in (1, 2):
        entries = (wire.entry(buf, a, b) for a, b in wire.spans(buf, start, end, number))
        sides.append({name: read_tensor_info(buf, *value) for name, value in entries})
    method = wire.span(buf, start, end, 3) or (end, end)
    return Signature(key, sides[0], sides[1], wire.text(buf, *method))
