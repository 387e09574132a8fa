"""Record batches read by one loop: of any exact types, cut and nested; and what is no valid Arrow array is refused."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.backends.feed import FeedReader
from colonnade.backends.feed_batch import plan_of
from colonnade.backends.feed_values import Unfit, sound
from colonnade.core import dims
from colonnade.core.arrow_columns import ColumnsOf, exported
from colonnade.errors import FeedError
from colonnade.ir.program import Input
from tests.unit.backends.test_feed import INPUTS, a_feed, check, reader, record_batch
from tests.unit.backends.test_feed_ragged import INPUTS as RAGGED
from tests.unit.backends.test_feed_ragged import reader as ragged_reader

TEXT = [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()]
B = dims.symbol("B")


def only_exported(read: FeedReader, monkeypatch: pytest.MonkeyPatch) -> FeedReader:
    """A reader that takes no other way."""

    def refused(*_: object) -> None:
        raise AssertionError("the columns were read one by one")

    monkeypatch.setattr(read._ragged, "unlisted", refused)
    return read


def nested(values: pa.Array, widths: list[int]) -> pa.Array:
    for width in reversed(widths):
        values = pa.FixedSizeListArray.from_arrays(values, width)
    return values


def a_batch(feed: dict[str, Any], kind: pa.DataType, order: list[int], first: int) -> pa.RecordBatch:
    """The feed from row `first` on, as the slice of a batch whose fields stand in any order."""
    columns = {}
    for k in order:
        item = INPUTS[k]
        value = feed[item.name]
        flat = pa.array(value.reshape(-1), type=kind if value.dtype == object else None)
        columns[item.name] = nested(flat, [int(d) for d in item.shape[1:] if d != 1])
    return pa.RecordBatch.from_pydict(columns)[first:]


@given(
    st.integers(0, 20), st.integers(0, 3), st.sampled_from(TEXT), st.permutations(range(len(INPUTS))), st.integers(0, 9)
)
def test_batches_equal_dicts(rows: int, first: int, kind: pa.DataType, order: list[int], seed: int) -> None:
    feed = a_feed(rows, seed)
    first = min(first, rows)
    with pytest.MonkeyPatch.context() as patch:
        read = only_exported(reader(), patch)
        check(read.read(a_batch(feed, kind, order, first)), {n: v[first:] for n, v in feed.items()})


def test_lists_of_lists_and_slices_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    values = pa.array(np.arange(120, dtype=np.float32))[12:]
    column = nested(values, [2, 3])[2:][1:]
    batch = pa.RecordBatch.from_arrays([column], names=["m"])
    found = ColumnsOf(np.zeros(1, np.int64), np.array([2, 3]), 4)
    target = np.full(len(batch) * 6, -1, np.float32)
    with exported(batch) as columns:
        assert found.numbers(columns, len(batch), target)
    np.testing.assert_array_equal(target, np.arange(12 + 3 * 6, 120))
    with exported(batch) as columns:
        assert not found.numbers(columns, len(batch) + 1, np.zeros(6 * len(batch) + 6, np.float32))


@pytest.mark.parametrize("at", ["value", "list"])
def test_nulls_are_named(at: str) -> None:
    feed = a_feed(4)
    batch = record_batch(feed)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    if at == "value":
        columns["f"] = pa.array([1.0, None, 2.0, 3.0], pa.float32())
        want = "f: row 1 is null"
    else:
        columns["w"] = pa.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], None, [1.0, 2.0, 3.0]], pa.list_(pa.float32(), 3))
        want = "w: row 2 is null"
    with pytest.raises(FeedError) as caught:
        reader().read(pa.RecordBatch.from_pydict(columns))
    assert want in caught.value.got


def test_bits_without_a_null_and_a_number_of_nulls_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = a_feed(6)
    batch = record_batch(feed)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    values = feed["f"][:, 0].tolist()
    columns["f"] = pa.array([None, *values], pa.float32())[1:]
    check(reader().read(pa.RecordBatch.from_pydict(columns)), feed)
    columns["f"] = pa.Array.from_buffers(pa.float32(), 6, [None, columns["f"].buffers()[1]], -1, 1)
    check(only_exported(reader(), monkeypatch).read(pa.RecordBatch.from_pydict(columns)), feed)


def test_schemas_in_turn() -> None:
    read, feed = reader(), a_feed(3)
    plain = record_batch(feed)
    wider = plain.append_column("more", pa.array([1, 2, 3]))
    doubles = plain.set_column(0, "f", plain.column(0).cast(pa.float64()))
    named = plain.replace_schema_metadata({"a": "b"})
    for _ in range(2):
        for batch in (plain, named):
            check(read.read(batch), feed)
        with pytest.raises(FeedError, match="more: unexpected"):
            read.read(wider)
        with pytest.raises(FeedError, match="f: is double, want float32"):
            read.read(doubles)


def test_what_is_read_another_way() -> None:
    packers = reader()._packers
    inputs = frozenset(i.name for i in INPUTS)
    schema = record_batch(a_feed(1)).schema
    assert plan_of(schema, packers, inputs).columns is not None
    kinds = {
        "s": pa.dictionary(pa.int32(), pa.string()),
        "t": pa.list_(pa.string_view(), 2),
        "w": pa.list_(pa.int8(), 3),
    }
    for name, kind in kinds.items():
        changed = schema.set(schema.get_field_index(name), pa.field(name, kind))
        assert plan_of(changed, packers, inputs).columns is None, name
    mixed = schema.set(schema.get_field_index("f"), pa.field("f", pa.float64()))
    assert plan_of(mixed, packers, inputs).columns is None


def test_many_threads_and_two_schemas() -> None:
    read, right = reader(), []
    feeds = [a_feed(rows, rows) for rows in (1, 5)]
    batches = [a_batch(feed, kind, list(range(len(INPUTS))), 0) for feed, kind in zip(feeds, TEXT[1:3], strict=True)]

    def work(first: int) -> None:
        for k in range(first, first + 40):
            check(read.read(batches[k % 2]), feeds[k % 2])
            right.append(k)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(right) == 4 * 40


class Spoiled:
    """An array of strings that is valid until it is spoiled: pyarrow looks at what is made of it at once."""

    def __init__(self, kind: pa.DataType, offsets: list[int], data: bytes = b"abcdefgh", widths: Sequence[int] = ()):
        self._offsets = offsets
        self._numbers = np.zeros(len(offsets), np.int64 if "large" in str(kind) else np.int32)
        buffers = [None, pa.py_buffer(self._numbers), pa.py_buffer(data)]
        self.array = nested(pa.Array.from_buffers(kind, len(offsets) - 1, buffers), list(widths))

    def spoil(self) -> None:
        self._numbers[:] = self._offsets


BAD = [[-1, 2, 3, 4], [0, 5, 3, 8], [0, 2, 3, 9], [0, 99, 3, 4], [9, 9, 9, 9], [0, *[1 << 30] * 3], [3, 2, 1, 0]]


@pytest.mark.parametrize("kind", TEXT, ids=str)
@pytest.mark.parametrize("offsets", BAD, ids=str)
@pytest.mark.parametrize("form", ["batch", "table", "chunks", "dict", "another type beside it"])
def test_strings_that_lie_outside_of_their_bytes(kind: pa.DataType, offsets: list[int], form: str) -> None:
    batch = record_batch(a_feed(3))
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    spoiled = [Spoiled(kind, offsets), Spoiled(kind, offsets + 3 * offsets[-1:], widths=(2,))]
    columns["s"], columns["t"] = (s.array for s in spoiled)
    if form == "another type beside it":
        columns["h"] = pa.chunked_array([columns["h"]]).combine_chunks().dictionary_encode()
    feed: Any = columns
    if form != "dict":
        feed = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    if form in ("table", "chunks"):
        feed = pa.Table.from_batches([feed] * (1 if form == "table" else 2))
    for array in spoiled:
        array.spoil()
    with pytest.raises(FeedError) as caught:
        reader().read(feed)
    assert all(f"{name}: is no valid Arrow array" in caught.value.got for name in "st"), caught.value.got


@pytest.mark.parametrize("kind", TEXT, ids=str)
def test_strings_need_neither_begin_at_zero_nor_be_utf8(kind: pa.DataType) -> None:
    feed = a_feed(3)
    batch = record_batch(feed)
    column = Spoiled(kind, [2, 3, 3, 5], b"ab\xff\xfe\x00fgh")
    column.spoil()
    feed["s"] = np.array([[b"\xff"], [b""], [b"\xfe\x00"]], object)
    check(reader().read(batch.set_column(batch.schema.get_field_index("s"), "s", column.array)), feed)


def views() -> pa.Array:
    words = np.array([[4, 0, 0, 0], [100, 1, 0, 7], [0, 0, 0, 0]], np.int32)
    good = np.zeros_like(words)
    made = pa.Array.from_buffers(pa.string_view(), 3, [None, pa.py_buffer(good), pa.py_buffer(b"x" * 20)])
    good[...] = words
    return made


def test_views_that_read_beyond_their_buffers() -> None:
    with pytest.raises(Unfit, match="no valid Arrow array"):
        sound(views())


@pytest.mark.parametrize("offsets", [[0, 3, 1, 5], [-1, 2, 3, 5], [0, 2, 3, 6], [0, 9, 9, 5]], ids=str)
@pytest.mark.parametrize("kind", [pa.ListArray, pa.LargeListArray])
@pytest.mark.parametrize("as_table", [True, False])
def test_lists_that_lie_outside_of_their_values(offsets: list[int], kind: Any, as_table: bool) -> None:
    numbers = np.array([0, 2, 3, 5], np.int32 if kind is pa.ListArray else np.int64)
    ends = pa.Array.from_buffers(pa.int32() if kind is pa.ListArray else pa.int64(), 4, [None, pa.py_buffer(numbers)])
    column = kind.from_arrays(ends, pa.array(np.arange(5)))
    inputs = (Input("x", "float32", (B, 1)), *RAGGED[1:4])
    batch = pa.RecordBatch.from_pydict({"x": pa.array([1.0, 2.0, 3.0], pa.float32()), "i": column})
    numbers[:] = offsets
    with pytest.raises(FeedError, match=r"i: (is no valid Arrow array|has offsets that go down)"):
        ragged_reader(inputs).read(pa.Table.from_batches([batch]) if as_table else batch)
