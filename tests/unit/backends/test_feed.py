from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.backends.backend import layouts
from colonnade.backends.feed import FeedReader, PackedFeed, Request
from colonnade.core import dims
from colonnade.core.expr import Expr, Field
from colonnade.core.strings import Strings
from colonnade.errors import FeedError
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Program

B = dims.symbol("B")
INPUTS = (
    Input("f", "float32", (B, 1)),
    Input("g", "float32", (B,)),
    Input("s", "string", (B, 1)),
    Input("w", "float32", (B, 3)),
    Input("i", "int64", (B, 2)),
    Input("t", "string", (B, 2)),
    Input("h", "float32", (B, 1)),
    Input("d", "float32", (B, 4)),
)
DTYPES = ("float32", "string", "int64")
READ = ("f", "g", "s", "w", "i", "t", "h")
PROGRAM = Program(
    INPUTS,
    (),
    tuple(Column(n, Field(n), None, slots=(Slot("x", 0, 1),)) for n in READ),
    (Buffer("x", B, 1),),
    (),
    (),
)


def reader(program: Program = PROGRAM) -> FeedReader:
    return FeedReader(program, layouts(program), frozenset({"h"}))


def a_feed(rows: int, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    feed: dict[str, Any] = {}
    for item in INPUTS:
        shape = (rows, *(int(d) for d in item.shape[1:]))
        if item.dtype == "string":
            feed[item.name] = np.array([b"x%d" % v for v in rng.integers(0, 99, shape).reshape(-1)], object)
            feed[item.name] = feed[item.name].reshape(shape)
        else:
            feed[item.name] = (rng.standard_normal(shape) * 9).astype(item.dtype)
    return feed


def fields(request: Request, program: Program = PROGRAM) -> dict[str, Any]:
    """Every packed field, flat, read by the definition of the layout."""
    (packed,), (layout,) = request.packed, layouts(program)
    texts = Strings(packed.string_data, packed.string_offsets).to_objects()
    found = {}
    for name, place in layout.places.items():
        part = slice(packed.rows * place.start, packed.rows * (place.start + place.width))
        found[name] = (texts if place.dtype == "string" else packed.buffers[place.dtype])[part].tolist()
    return found


def check(request: Request, feed: dict[str, np.ndarray[Any, Any]]) -> None:
    assert request.packed[0].rows == len(feed["f"])
    assert fields(request) == {name: feed[name].reshape(-1).tolist() for name in READ}
    assert set(request.tensors) == {"h", "d"}
    for name, tensor in request.tensors.items():
        assert isinstance(tensor, torch.Tensor)
        assert np.array_equal(tensor.numpy(), feed[name])
    assert request.sizes == {"B": len(feed["f"])}


ROWS = pytest.mark.parametrize("rows", [0, 1, 2, 33])


@ROWS
def test_numpy(rows: int) -> None:
    feed = a_feed(rows)
    request = reader().read(feed)
    check(request, feed)
    assert not request.is_torch


@ROWS
def test_numpy_in_another_order_read_only_strided_and_big_endian(rows: int) -> None:
    feed = a_feed(rows)
    odd = dict(reversed(feed.items()))
    odd["f"] = np.asfortranarray(np.repeat(odd["f"], 2, 1))[:, ::2]
    odd["w"] = odd["w"][::-1].copy()[::-1]
    odd["d"] = odd["d"][::-1].copy()[::-1]
    odd["i"] = odd["i"].astype(">i8")
    odd["h"].flags.writeable = False
    check(reader().read(odd), feed)


@ROWS
def test_tensors(rows: int) -> None:
    feed = a_feed(rows)
    mixed: dict[str, Any] = {n: v if v.dtype == object else torch.from_numpy(v) for n, v in feed.items()}
    mixed["f"] = mixed["f"].clone().requires_grad_()
    mixed["d"] = mixed["d"].clone().requires_grad_()
    request = reader().read(mixed)
    check(request, feed)
    assert request.is_torch


@ROWS
def test_lists(rows: int) -> None:
    feed = a_feed(rows)
    check(reader().read({n: v.tolist() for n, v in feed.items()}), feed)


def test_empty_lists_have_the_dims_that_are_declared() -> None:
    feed = a_feed(0)
    check(reader().read({n: () for n in feed}), feed)
    check(reader().read(PackedFeed({t: [] for t in DTYPES})), feed)
    deep = Program((Input("x", "float32", (B, 2, 3)), Input("y", "string", (2, B, 3))), (), (), (), (), ())
    request = reader(deep).read({"x": [], "y": [[], []]})
    assert request.tensors["x"].shape == (0, 2, 3) and request.tensors["y"].shape == (2, 0, 3)
    with pytest.raises(FeedError, match=r"x: has the shape \[0\], want \[B, T, 3\]"):
        unknown = Input("x", "float32", (B, dims.symbol("T"), 3))
        reader(Program((unknown,), (), (), (), (), ())).read({"x": []})


def record_batch(feed: dict[str, np.ndarray[Any, Any]]) -> pa.RecordBatch:
    columns = {}
    for name, value in feed.items():
        flat = pa.array(value.reshape(-1), type=pa.string() if value.dtype == object else None)
        width = int(np.prod(value.shape[1:], dtype=int))
        columns[name] = flat if width == 1 else pa.FixedSizeListArray.from_arrays(flat, width)
    return pa.RecordBatch.from_pydict(columns)


@ROWS
def test_arrow(rows: int) -> None:
    feed = a_feed(rows)
    batch = record_batch(feed)
    check(reader().read(batch), feed)
    check(reader().read(pa.Table.from_batches([batch])), feed)
    check(reader().read(dict(zip(batch.schema.names, batch.columns, strict=True))), feed)
    twice = a_feed(2 * rows)
    whole = record_batch(twice)
    check(reader().read(pa.Table.from_batches([whole[:rows], whole[rows:]])), twice)
    check(reader().read(whole[rows:]), {n: v[rows:] for n, v in twice.items()})


@ROWS
def test_one_matrix_a_dtype(rows: int) -> None:
    feed = a_feed(rows)
    by_dtype = {t: np.concatenate([_flat(feed, i) for i in INPUTS if i.dtype == t], 1) for t in DTYPES}
    check(reader().read(PackedFeed(by_dtype)), feed)
    check(reader().read(by_dtype), feed)
    with pytest.raises(FeedError) as caught:
        reader().read({"float32": by_dtype["float32"][:, 1:], "int32": by_dtype["int64"], "string": by_dtype["string"]})
    assert set(caught.value.got.splitlines()) == {
        "int32: unexpected",
        "int64: missing",
        f"float32: has the shape [{rows}, 9], want [B, 10]",
    }


@pytest.mark.parametrize("kind", ["S5", "U5", "T"])
def test_numpy_strings(kind: str) -> None:
    feed = a_feed(5)
    dtype = np.dtypes.StringDType() if kind == "T" else kind
    as_kind = {n: v.astype(str).astype(dtype) if v.dtype == object else v for n, v in feed.items()}
    as_kind["s"] = np.array([[v[0].decode()] for v in feed["s"]]).astype(dtype)
    as_kind["t"] = np.array([[x.decode() for x in v] for v in feed["t"]]).astype(dtype)
    check(reader().read(as_kind), feed)


def test_every_bad_key_is_listed_at_once() -> None:
    feed: dict[str, Any] = a_feed(4)
    del feed["g"]
    feed["other"] = 3
    feed["f"] = feed["f"].astype(np.float64)
    feed["w"] = feed["w"][:, :2]
    feed["i"] = feed["i"].reshape(-1)
    feed["h"] = feed["h"][:3]
    feed["s"] = np.array([[b"a"], [None], [b"c"], [b"d"]], object)
    feed["d"] = [[0.5] * 4] * 3 + [[0.5] * 3]
    with pytest.raises(FeedError) as caught:
        reader().read(feed)
    assert set(caught.value.got.splitlines()) == {
        "g: missing",
        "other: unexpected",
        "f: is float64, want float32",
        "w: has the shape [4, 2], want [B, 3]",
        "i: has the shape [8], want [B, 2]",
        "h: has 3 rows, want B = 4 as others",
        "s: element [1, 0] is NoneType None, want bytes or str",
        "d: has rows of different lengths",
    }


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("i", [[1.0, 2.0]], "is a list of float, want int64"),
        ("i", [[True, False]], "is a list of bool, want int64"),
        ("i", [[2**63, 2**63]], "has integers that int64 cannot hold"),
        ("f", [["a"]], "is a list of str, want float32"),
        ("f", [[2**24 + 1]], "has integers that float32 cannot hold"),
        ("f", [[1e300]], "has numbers that float32 cannot hold"),
        ("f", [[None]], "is a list of mixed or missing values, want float32"),
        ("s", [[3]], "element [0, 0] is int 3, want bytes or str"),
        ("s", np.zeros((1, 1)), "is float64, want string"),
        ("f", np.array([[b"a"]], object), "is object, want float32"),
        ("f", np.ma.array([[1.0]], mask=[[True]], dtype=np.float32), "has masked values"),
        ("i", np.zeros((1, 2), np.int32), "is int32, want int64"),
        ("f", pa.array([1.0, None], pa.float32())[1:], "row 0 is null"),
        ("f", pa.array([1], pa.int32()), "is int32, want float32"),
        ("s", pa.array(["a", None])[1:], "row 0 is null"),
        ("f", pa.DictionaryArray.from_arrays([0], pa.array([None], pa.float32())), "row 0 is null"),
        ("i", pa.array([[1, None]], pa.list_(pa.int64(), 2)).values.dictionary_encode("encode"), "row 1 is null"),
        ("s", pa.DictionaryArray.from_arrays([0], pa.array([None], pa.string())), "row 0 is null"),
        ("s", pa.array([None], pa.string()).dictionary_encode(), "row 0 is null"),
        ("f", np.array([["a"]], np.dtypes.StringDType()), "is StringDType(), want float32"),
        ("f", torch.zeros(1, 1).to(torch.float8_e4m3fn), "is float8_e4m3fn"),
        ("f", torch.zeros(1, 1, dtype=torch.bfloat16), "is bfloat16"),
        ("f", torch.zeros(1, 1, dtype=torch.float64), "is float64, want float32"),
        ("f", torch.zeros(1, 1, device="meta"), "lies on meta, want cpu"),
        ("f", 1.0, "has the shape [], want [B, 1]"),
        ("w", [1.0, 2.0, 3.0], "has the shape [3], want [B, 3]"),
        ("w", [[]], "has the shape [1, 0], want [B, 3]"),
        ("w", np.zeros(0, np.float32), "has the shape [0], want [B, 3]"),
    ],
)
def test_one_bad_value(name: str, value: object, said: str) -> None:
    with pytest.raises(FeedError) as caught:
        reader().read({**a_feed(1), name: value})
    assert caught.value.got.splitlines() == [f"{name}: {said}"]


@pytest.mark.parametrize("value", [[[1]], [[np.float32(1)]], [[np.float64(1)]], [np.ones(1, np.float32)], ((1,),)])
def test_exact_python_numbers(value: object) -> None:
    feed = a_feed(1)
    feed["f"] = np.ones((1, 1), np.float32)
    check(reader().read({**feed, "f": value}), feed)


def test_nothing_is_read_from_what_is_no_feed() -> None:
    with pytest.raises(FeedError, match="mapping"):
        reader().read([1, 2])  # type: ignore[arg-type]
    for nothing in (None, 3, [1.0]):
        with pytest.raises(FeedError, match="a packed request is a mapping"):
            reader().read(PackedFeed(nothing))  # type: ignore[arg-type]
    with pytest.raises(FeedError, match="columns of one name"):
        reader().read(pa.RecordBatch.from_arrays([pa.array([1.0])] * 2, names=["f", "f"]))


def test_symbols_of_the_dense_rest_agree() -> None:
    t = dims.symbol("T")
    inputs = (Input("a", "float32", (B, t)), Input("b", "float32", (t, dims.mul(2, t))), Input("n", "int32", ()))
    program = Program(inputs, (), (), (), (), ())
    read = FeedReader(program, (), frozenset()).read
    a, b, n = np.zeros((2, 3), np.float32), np.zeros((3, 6), np.float32), np.int32(4)
    assert read({"a": a, "b": b, "n": n}).sizes == {"B": 2, "T": 3}
    assert read({"a": a, "b": b, "n": 4}).tensors["n"] == 4
    with pytest.raises(FeedError) as caught:
        read({"a": a, "b": b[:, :5], "n": n})
    assert caught.value.got == "b: has 5 values in dim 1, want 2*T = 6"
    with pytest.raises(FeedError, match="T = "):
        read({"a": a, "b": np.zeros((4, 8), np.float32), "n": n})


@given(st.lists(st.sampled_from(["float32", "int32", "string"]), min_size=1, max_size=9), st.data())
def test_any_mix_of_widths(dtypes: list[str], data: st.DataObject) -> None:
    shapes = [data.draw(st.sampled_from([(), (1,), (2,), (2, 3), (0,)])) for _ in dtypes]
    inputs = tuple(Input(f"i{k}", t, (B, *s)) for k, (t, s) in enumerate(zip(dtypes, shapes, strict=True)))
    columns = tuple(Column(i.name, _field(i.name), None, slots=(Slot("x", 0, 1),)) for i in inputs)
    program = Program(inputs, (), columns, (Buffer("x", B, 1),), (), ())
    rows = data.draw(st.integers(0, 4))
    feed: dict[str, Any] = {}
    for k, (dtype, shape) in enumerate(zip(dtypes, shapes, strict=True)):
        values = np.arange(rows * int(np.prod(shape, dtype=int))).reshape(rows, *shape) + 100 * k
        feed[f"i{k}"] = values.astype(str).astype(object) if dtype == "string" else values.astype(dtype)
    want = {n: [x.encode() if isinstance(x, str) else x for x in v.reshape(-1).tolist()] for n, v in feed.items()}
    assert fields(reader(program).read(feed), program) == want
    assert fields(reader(program).read({n: np.asfortranarray(v) for n, v in feed.items()}), program) == want


def _field(name: str) -> Expr:
    return Field(name)


def _flat(feed: dict[str, np.ndarray[Any, Any]], item: Input) -> np.ndarray[Any, Any]:
    return feed[item.name].reshape(len(feed["f"]), int(dims.prod(item.shape[1:])))


def without_slow_path(monkeypatch: pytest.MonkeyPatch) -> FeedReader:
    def refused(*_: object) -> None:
        raise AssertionError("the slow path was entered")

    read = reader()
    monkeypatch.setattr(read, "_read_values", refused)
    return read


def _sliced(feed: dict[str, Any]) -> dict[str, Any]:
    """Every field a slice of a wider matrix."""
    return {n: np.repeat(v[..., None], 2, -1)[..., 0] for n, v in feed.items()}


def _texts(feed: dict[str, Any], kind: Any) -> dict[str, Any]:
    as_str = {n: np.vectorize(bytes.decode, otypes=[object])(v) if v.dtype == object else v for n, v in feed.items()}
    return {n: v.astype(str).astype(kind) if v.dtype == object else v for n, v in as_str.items()}


FAST_FORMS = {
    "numpy": lambda feed: feed,
    "another order": lambda feed: dict(reversed(feed.items())),
    "slices": _sliced,
    "fortran": lambda feed: {n: np.asfortranarray(v) for n, v in feed.items()},
    "tensors": lambda feed: {n: v if v.dtype == object else torch.from_numpy(v) for n, v in feed.items()},
    "str": lambda feed: _texts(feed, object),
    "numpy bytes": lambda feed: _texts(feed, "S5"),
    "numpy text": lambda feed: _texts(feed, "U5"),
    "numpy text of any length": lambda feed: _texts(feed, np.dtypes.StringDType()),
    "numpy scalars": lambda feed: {
        n: np.vectorize(np.bytes_, otypes=[object])(v) if v.dtype == object else v for n, v in feed.items()
    },
    "record batch": lambda feed: record_batch(feed),
    "table": lambda feed: pa.Table.from_batches([record_batch(feed)]),
    "matrices": lambda feed: PackedFeed(
        {t: np.concatenate([_flat(feed, i) for i in INPUTS if i.dtype == t], 1) for t in DTYPES}
    ),
}


@pytest.mark.parametrize("rows", [1, 2, 33])
@pytest.mark.parametrize("form", FAST_FORMS)
def test_forms_that_need_no_slow_path(form: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = a_feed(rows)
    check(without_slow_path(monkeypatch).read(FAST_FORMS[form](feed)), feed)


STRANGE = st.sampled_from([b"", b"\0", b"a\0b\0", "", "\0", "\u00e9\U0001f600", b"\xff\xfe", b"long" * 99, "long" * 99])


@given(st.lists(STRANGE, min_size=3, max_size=12))
def test_strange_strings(texts: list[bytes | str]) -> None:
    rows = len(texts) // 3
    feed = a_feed(rows)
    values = np.empty(3 * rows, object)
    values[:] = texts[: 3 * rows]
    feed["s"], feed["t"] = values[:rows].reshape(rows, 1), values[rows:].reshape(rows, 2)
    wanted = {n: feed[n].reshape(-1).tolist() for n in "st"}
    found = fields(reader().read(feed))
    assert {n: found[n] for n in "st"} == {
        n: [v.encode() if isinstance(v, str) else v for v in values] for n, values in wanted.items()
    }


def _with(feed: dict[str, Any], name: str, place: tuple[int, ...], value: object) -> dict[str, Any]:
    changed = feed[name].copy()
    changed[place] = value
    return {**feed, name: changed}


@pytest.mark.parametrize(
    "changed",
    [
        *(lambda f, v=v: _with(f, "s", (1, 0), v) for v in (None, 1, 1.5, bytearray(b"a"), memoryview(b"a"), "\ud800")),
        lambda f: {**f, "s": f["s"][:, 0]},
        lambda f: {**f, "s": f["s"][:3]},
        lambda f: {**f, "s": f["s"].astype("S5"), "t": np.zeros((4, 2))},
        lambda f: {**f, "s": np.zeros((4, 1), "M8[s]")},
        lambda f: {**f, "f": f["f"][:3], "h": np.ones((5, 1), np.float32)},
        lambda f: {**f, "f": np.repeat(f["f"], 2, 1), "h": f["h"][:, :0]},
        lambda f: {**f, "f": f["f"].astype(np.int32)},
        lambda f: {**f, "i": f["i"].astype(np.uint64)},
        lambda f: {**f, "i": f["i"].view(np.float64)},
        lambda f: {**f, "w": np.ma.array(f["w"], mask=True)},
    ],
)
def test_no_illegal_feed_is_taken(changed: Any) -> None:
    with pytest.raises(FeedError):
        reader().read(changed(a_feed(4)))


def test_numbers_do_not_become_text() -> None:
    inputs = (Input("a", "string", (B, 1)), Input("b", "string", (B, 1)))
    columns = tuple(Column(n, Field(n), None, slots=(Slot("x", 0, 1),)) for n in "ab")
    program = Program(inputs, (), columns, (Buffer("x", B, 1),), (), ())
    for text in ("S1", "U1", object):
        with pytest.raises(FeedError, match="b: is float64, want string"):
            reader(program).read({"a": np.array([["a"]]).astype(text), "b": np.ones((1, 1))})


def test_large_requests_do_not_share_memory_while_they_live() -> None:
    read = reader().read
    feeds = [a_feed(20000, seed) for seed in range(3)]
    requests = [read(feed) for feed in feeds]
    for request, feed in zip(requests, feeds, strict=True):
        check(request, feed)
    del requests
    check(read(feeds[1]), feeds[1])
