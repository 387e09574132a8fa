"""Ragged fields in requests: values and offsets in every form, and what is said of those that do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from colonnade.backends.backend import layouts
from colonnade.backends.feed import FeedReader, PackedFeed, Request
from colonnade.core import dims
from colonnade.core.batch import RaggedPlace
from colonnade.core.expr import Field
from colonnade.core.strings import Strings
from colonnade.errors import FeedError
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Program

B, N, M, K = (dims.symbol(s) for s in "BNMK")
ENDS = dims.add(B, 1)
INPUTS = (
    Input("x", "float32", (B, 1)),
    Input("i", "int64", (N,), offsets="io"),
    Input("w", "float32", (N,), offsets="io"),
    Input("io", "int32", (ENDS,)),
    Input("s", "string", (M,), offsets="so"),
    Input("so", "int64", (ENDS,)),
)
ALONE = (Input("i", "int64", (N,), offsets="io"), Input("io", "int64", (ENDS,)), Input("so", "int64", (ENDS,)))


def program(inputs: Sequence[Input] = INPUTS) -> Program:
    offsets = {i.offsets for i in inputs}
    read = [i.name for i in inputs if i.name not in offsets]
    columns = tuple(Column(n, Field(n), None, slots=(Slot("o", 0, 1),)) for n in read)
    return Program(tuple(inputs), (), columns, (Buffer("o", B, 1),), (), ())


def reader(inputs: Sequence[Input] = INPUTS) -> FeedReader:
    return FeedReader(program(inputs), layouts(program(inputs)), frozenset({"w"}))


def objects(*values: bytes) -> np.ndarray[Any, Any]:
    out = np.empty(len(values), object)
    out[:] = values
    return out


def a_feed(lengths: Sequence[int] = (2, 0, 3), texts: Sequence[int] = (0, 1, 1)) -> dict[str, Any]:
    n, m = sum(lengths), sum(texts)
    return {
        "x": np.arange(len(lengths), dtype=np.float32)[:, None],
        "i": np.arange(n) * 7,
        "w": np.arange(n, dtype=np.float32) / 2,
        "io": np.cumsum([0, *lengths]).astype(np.int32),
        "s": objects(*[b"s%d" % k for k in range(m)]),
        "so": np.cumsum([0, *texts]),
    }


def check(request: Request, feed: dict[str, Any]) -> None:
    (packed,) = request.packed
    assert packed.rows == len(feed["x"])
    assert packed.buffers["float32"].tolist() == feed["x"][:, 0].tolist()
    texts = packed.ragged["s"]
    assert isinstance(texts, Strings)
    assert texts.to_objects().tolist() == feed["s"].tolist()
    for name in ("i", "w"):
        values = packed.ragged[name]
        assert isinstance(values, np.ndarray)
        assert values.dtype == feed[name].dtype
        assert values.tolist() == feed[name].tolist()
    for name in ("io", "so"):
        assert packed.offsets[name].dtype == np.int64
        assert packed.offsets[name].tolist() == feed[name].tolist()
    assert request.sizes == {"B": packed.rows, "N": len(feed["i"]), "M": len(feed["s"])}
    assert request.tensors.keys() == {"w"}
    assert torch.as_tensor(request.tensors["w"]).tolist() == feed["w"].tolist()


LENGTHS = pytest.mark.parametrize(
    ("lengths", "texts"),
    [((2, 0, 3), (0, 1, 1)), ((), ()), ((0, 0), (0, 0)), ((0, 9, 0, 0), (1, 0, 0, 5)), ((4,), (0,))],
)


def test_the_layout_names_ragged_fields() -> None:
    (layout,) = layouts(program())
    assert layout.ragged == {
        k: RaggedPlace(*v) for k, v in {"i": ("int64", "io"), "w": ("float32", "io"), "s": ("string", "so")}.items()
    }
    assert layout.fields == {"x", "i", "w", "s"}
    assert (layout.rows, layout.widths) == (B, {"float32": 1})
    assert (layout.offsets_of("x"), layout.offsets_of("s"), layout.dtype_of("x"), layout.dtype_of("s")) == (
        None,
        "so",
        "float32",
        "string",
    )


@LENGTHS
def test_numpy(lengths: tuple[int, ...], texts: tuple[int, ...]) -> None:
    feed = a_feed(lengths, texts)
    request = reader().read(feed)
    check(request, feed)
    assert not request.is_torch
    values = request.packed[0].ragged["i"]
    assert isinstance(values, np.ndarray)
    assert np.shares_memory(values, feed["i"]) == bool(len(feed["i"]))
    assert not np.shares_memory(request.packed[0].offsets["so"], feed["so"])


@LENGTHS
def test_tensors_and_arrow_values(lengths: tuple[int, ...], texts: tuple[int, ...]) -> None:
    feed = a_feed(lengths, texts)
    mixed = {n: v if v.dtype == object else torch.from_numpy(v) for n, v in feed.items()}
    request = reader().read(mixed)
    check(request, feed)
    assert request.is_torch
    check(reader().read({**feed, "s": pa.array(feed["s"], pa.large_binary()), "i": pa.array(feed["i"])}), feed)
    check(reader().read({**feed, "s": pa.array(feed["s"], pa.string()), "so": pa.array(feed["so"])}), feed)


@LENGTHS
def test_lists_and_odd_arrays(lengths: tuple[int, ...], texts: tuple[int, ...]) -> None:
    feed = a_feed(lengths, texts)
    check(reader().read({n: v.tolist() if n != "x" else v for n, v in feed.items()}), feed)
    odd = {**feed, "i": np.repeat(feed["i"], 2)[::2], "io": feed["io"].astype(">i4"), "w": feed["w"].astype(">f4")}
    check(reader().read(odd), feed)


@LENGTHS
@pytest.mark.parametrize("as_table", [False, True])
def test_columns_of_lists(lengths: tuple[int, ...], texts: tuple[int, ...], as_table: bool) -> None:
    feed = a_feed(lengths, texts)

    def lists(values: pa.Array, offsets: str, kind: Any = pa.ListArray) -> pa.Array:
        return kind.from_arrays(pa.array(feed[offsets].astype(np.int32 if kind is pa.ListArray else np.int64)), values)

    columns = {
        "x": pa.array(feed["x"][:, 0]),
        "i": lists(pa.array(feed["i"]), "io"),
        "w": lists(pa.array(feed["w"]), "io", pa.LargeListArray),
        "s": lists(pa.array(feed["s"], pa.binary()), "so"),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    check(reader().read(pa.Table.from_batches([batch]) if as_table else batch), feed)
    if as_table:
        check(
            reader().read(
                pa.concat_tables([pa.Table.from_batches([batch.slice(0, 1)]), pa.Table.from_batches([batch.slice(1)])])
            ),
            feed,
        )
    else:
        rest = batch.slice(1)
        check(reader().read(rest), a_feed(lengths[1:], texts[1:]) | cut(feed, lengths, texts))


def cut(feed: dict[str, Any], lengths: tuple[int, ...], texts: tuple[int, ...]) -> dict[str, Any]:
    """The values of a feed without its first row."""
    first, text = sum(lengths[:1]), sum(texts[:1])
    return {"x": feed["x"][1:], "i": feed["i"][first:], "w": feed["w"][first:], "s": feed["s"][text:]}


def test_only_ragged_fields_bind_the_batch() -> None:
    feed = {"i": np.arange(3), "io": np.array([0, 1, 3]), "so": np.zeros(3, np.int64)}
    request = reader(ALONE).read(feed)
    assert request.sizes == {"B": 2, "N": 3}
    assert reader(ALONE).read({"i": [], "io": [0], "so": [0]}).packed[0].rows == 0
    with pytest.raises(FeedError, match="in 1 places") as caught:
        reader(ALONE).read({**feed, "so": np.zeros(7, np.int64)})
    assert "so: has 7 values in dim 0, want B + 1 = 3" in caught.value.got


@pytest.mark.parametrize(
    ("change", "got"),
    [
        ({"io": np.array([1, 2, 2, 5], np.int32)}, "io: [0] is 1, want 0"),
        ({"io": np.array([0, 3, 2, 5], np.int32)}, "io: [2] is 2, less than 3 before it"),
        ({"io": np.array([0, 2, 2, 4], np.int32)}, "i: has 5 values, but the offsets 'io' end at 4"),
        ({"io": np.array([0, 2, 2, 6], np.int32)}, "w: has 5 values, but the offsets 'io' end at 6"),
        ({"io": np.array([0, 2, 2, -5], np.int32)}, "io: [3] is -5, less than 2 before it"),
        ({"io": np.array([0, 2, 5], np.int32)}, "io: has 3 values in dim 0, want B + 1 = 4"),
        ({"io": np.array([], np.int32)}, "io: is empty, want B + 1 offsets"),
        ({"io": np.array([0, 2, 2, 5])}, "io: is int64, want int32"),
        ({"io": np.array([[0, 2, 2, 5]], np.int32)}, "io: has the shape [1, 4], want [B + 1]"),
        ({"i": np.arange(5, dtype=np.int32)}, "i: is int32, want int64"),
        ({"i": np.arange(5)[:, None]}, "i: has the shape [5, 1], want [N]"),
        ({"w": np.zeros(4, np.float32)}, "w: has 4 values, but the offsets 'io' end at 5"),
        ({"s": objects(b"a", 5)}, "s: element [1] is int 5, want bytes or str"),  # type: ignore[arg-type]
        ({"x": np.zeros((7, 1), np.float32)}, "x: has 7 rows, want B = 3 as others"),
    ],
)
def test_bad_offsets_and_values(change: dict[str, Any], got: str) -> None:
    with pytest.raises(FeedError) as caught:
        reader().read({**a_feed(), **change})
    assert got in caught.value.got, caught.value.got
    torches = {n: v if v.dtype == object else torch.from_numpy(v) for n, v in {**a_feed(), **change}.items()}
    with pytest.raises(FeedError):
        reader().read(torches)


def test_lists_that_are_missing_or_differ() -> None:
    inputs = (Input("x", "float32", (B, 1)), *INPUTS[1:4])
    batch = {
        "x": pa.array([1.0, 2.0], pa.float32()),
        "i": pa.array([[1], [2, 3]]),
        "w": pa.array([[1.0, 2.0], [3.0]], pa.list_(pa.float32())),
    }
    with pytest.raises(FeedError, match="1 columns of lists do not share their offsets") as caught:
        reader(inputs).read(pa.RecordBatch.from_pydict(batch))
    assert "w: its lists differ in length from those of 'i'" in caught.value.got
    with pytest.raises(FeedError) as caught:
        reader(inputs[:2] + inputs[3:]).read(pa.RecordBatch.from_pydict({"x": batch["x"], "i": pa.array([[1], None])}))
    assert "i: row 1 is null" in caught.value.got


def test_no_matrix_holds_ragged_fields() -> None:
    with pytest.raises(FeedError, match="packed request") as caught:
        reader().read(PackedFeed({"float32": np.zeros((2, 1), np.float32)}))
    assert "io: ragged values and their offsets have no fixed place in a row" in caught.value.got
