"""Requests of serialized Examples: the loops equal the reference reader, and every bad Example is named."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from colonnade.backends import examples as decoding
from colonnade.backends.examples import Decoder
from colonnade.backends.feed import FeedReader
from colonnade.core import dims
from colonnade.core.batch import Layout, Packed, Place, RaggedPlace
from colonnade.core.examples import Feature, dense, read_examples
from colonnade.core.strings import Strings
from colonnade.errors import FeedError, GraphError
from colonnade.ir.check_program import check
from colonnade.ir.program import Decode, Input, Program
from colonnade.ir.text import consts_of, parse_program, print_program
from tests.unit.ops.graph import examples

B = dims.symbol("B")


def program(features: Sequence[Feature], checked: frozenset[int] = frozenset()) -> Program:
    """A program that does nothing but decode. checked: the features that no input is made of."""
    inputs = []
    made = []
    for k, feature in enumerate(features):
        name = None if k in checked else f"f{k}"
        made.append((feature, name))
        if name is None:
            continue
        if feature.kind == "ragged":
            offsets = f"{name}.offsets"
            inputs.append(Input(name, feature.dtype, (dims.symbol(f"N{k}"),), offsets=offsets))
            inputs.append(Input(offsets, "int64", (dims.add(B, 1),)))
        else:
            inputs.append(Input(name, feature.dtype, (B, *feature.shape)))
    found = Program(tuple(inputs), (), (), (), (), (), decodes=(Decode("rows", B, tuple(made)),))
    check(found)
    return found


def column(rows: Sequence[bytes]) -> Any:
    made = np.empty(len(rows), object)
    made[:] = list(rows)
    return made


def wanted(r: random.Random) -> tuple[Feature, ...]:
    return tuple(replace(f, splits="int64") for f in examples.wanted(r, ("dense", "ragged", "padded")))


def flat(value: Any) -> Any:
    while isinstance(value, pa.FixedSizeListArray):
        value = value.flatten()
    return value


@pytest.mark.parametrize("damage", [0.0, 0.5])
def test_the_loops_equal_the_reference(damage: float) -> None:
    answered = 0
    for seed in range(300):
        r = random.Random(f"{damage} {seed}")
        features = wanted(r)
        rows = [examples.serialized(r, features, damage=damage) for _ in range(r.choice([0, 1, 2, 5, 9]))]
        decoder = Decoder(program(features))
        try:
            want = read_examples(rows, features)
        except FeedError as error:
            with pytest.raises(FeedError) as refused:
                decoder.fields({"rows": column(rows)})
            assert refused.value.got == error.got
            continue
        fields, rest, sizes = decoder.fields({"rows": column(rows)})
        num_rows = len(rows)
        assert not rest and sizes == {"B": num_rows}
        answered += 1
        for k, (feature, lists) in enumerate(zip(features, want, strict=True)):
            expected = lists.values if feature.kind == "ragged" else dense(lists, feature).reshape(-1)
            got = flat(fields[f"f{k}"])
            if feature.size == 0 and feature.kind != "ragged":
                assert got.shape == (num_rows, 0)
                continue
            what = f"seed {seed}: {feature}"
            if feature.dtype == "string":
                assert got.to_pylist() == expected.tolist(), what
            else:
                assert got.dtype == expected.dtype and got.tobytes() == expected.tobytes(), what
                assert got.shape == (len(got) if feature.kind == "ragged" else num_rows, *got.shape[1:]), what
            if feature.kind == "ragged":
                assert fields[f"f{k}.offsets"].tolist() == lists.offsets.tolist(), what
    assert answered > 80


def test_a_key_in_two_forms_and_one_that_is_only_checked() -> None:
    texts = Feature("a", "string", "ragged")
    features = (texts, examples.Feature("a", "string", "padded", (2,), examples.Const(column([b"-"])[0:1].reshape(()))))
    features = (*features, Feature("b", "int64", "ragged"))
    decoder = Decoder(program(features, frozenset({2})))
    rows = [
        examples.example(examples.entry("a", examples.listed("string", [b"x"]))),
        examples.example(examples.entry("b", examples.listed("int64", [5]))),
    ]
    fields, _, _ = decoder.fields({"rows": column(rows)})
    assert fields["f0"].to_pylist() == [b"x"] and fields["f0.offsets"].tolist() == [0, 1, 1]
    assert flat(fields["f1"]).to_pylist() == [b"x", b"-", b"-", b"-"]
    wrong = examples.example(examples.entry("b", examples.listed("float32", [5.0])))
    with pytest.raises(FeedError, match="Example 1, feature 'b': its list is of float32, want int64"):
        decoder.fields({"rows": column([rows[0], wrong])})


def test_every_bad_example_is_named() -> None:
    features = (Feature("n", "int64", "dense", (2,)), Feature("t", "string", "ragged"))
    good = examples.entry("n", examples.listed("int64", [1, 2]))
    rows = [
        examples.example(good),
        b"\xff",
        examples.example(),
        examples.example(examples.entry("n", examples.listed("int64", [1]))),
        examples.example(good, examples.entry("t", examples.field(4, b""))),
        examples.example(good, examples.entry("t", examples.field(1, b"\x0a\x05x"))),
    ]
    with pytest.raises(FeedError) as refused:
        Decoder(program(features)).fields({"rows": column(rows)})
    assert refused.value.where == "input 'rows'" and refused.value.got.splitlines() == [
        "Example 1: its bytes are no tf.train.Example",
        "Example 2, feature 'n': it is required but absent",
        "Example 3, feature 'n': it has 1 values, want 2",
        "Example 4, feature 't': its list is none of bytes, floats and integers",
        "Example 5, feature 't': the bytes of its list do not parse",
    ]


def test_requests_in_every_form() -> None:
    feature = Feature("n", "int64", "padded", (2,), examples.Const(np.array(7)))
    rows = [examples.example(examples.entry("n", examples.listed("int64", [3]))), b""]
    reader = FeedReader(program((feature,)), ())
    batch = pa.record_batch({"rows": pa.array(rows, pa.binary())})
    for feed in ({"rows": rows}, {"rows": column(rows)}, {"rows": pa.array(rows)}, batch, pa.table(batch)):
        request = reader.read(feed)
        assert np.asarray(request.tensors["f0"]).tolist() == [[3, 7], [7, 7]]
    for bad, message in (
        ({}, "rows: missing"),
        ({"rows": rows, "f0": [1]}, "f0: unexpected"),
        ({"rows": [rows]}, r"rows: has the shape \[1, 2\]"),
        ({"rows": [1.0]}, "rows: "),
    ):
        with pytest.raises(FeedError, match=message):
            reader.read(bad)


@pytest.mark.parametrize("offsets", [[0, 10**9, 10], [0, 10, 10**9], [-1, 5, 10], [0, 7, 3]], ids=str)
@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("form", ["dict", "chunks", "two chunks", "batch", "table"])
def test_examples_that_lie_outside_of_their_bytes(offsets: list[int], kind: pa.DataType, form: str) -> None:
    numbers = np.zeros(3, np.int64 if "large" in str(kind) else np.int32)
    rows = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(numbers), pa.py_buffer(b"x" * 10)])
    feed: Any = {"rows": pa.chunked_array([rows] * (1 + (form == "two chunks"))) if "chunk" in form else rows}
    if form in ("batch", "table"):
        feed = pa.record_batch(feed)
        feed = pa.Table.from_batches([feed]) if form == "table" else feed
    numbers[:] = offsets  # pyarrow looks at what is made of it at once
    with pytest.raises(FeedError, match="rows: is no valid Arrow array"):
        FeedReader(program((Feature("n", "int64", "ragged", splits="int64"),)), ()).read(feed)


def test_programs_print_and_parse_back() -> None:
    for seed in range(50):
        r = random.Random(f"text {seed}")
        made = program(wanted(r), frozenset({r.randrange(6)}))
        consts = consts_of(made)
        assert parse_program(print_program(made), consts) == made
        assert [i.name for i in made.signature] == ["rows"]


def test_examples_beside_other_inputs() -> None:
    feature = Feature("n", "int64", "padded", (1,), examples.Const(np.array(7)))
    made = program((feature, Feature("t", "string", "ragged")))
    both = replace(made, inputs=(*made.inputs, Input("x", "float32", (B, 2)), Input("rows", "string", (B,))))
    check(both)
    assert [i.name for i in both.signature] == ["x", "rows"]
    rows = [examples.example(examples.entry("t", examples.listed("string", [b"a", b""]))), b""]
    reader = FeedReader(both, ())
    request = reader.read({"rows": rows, "x": np.ones((2, 2), np.float32)})
    found = {name: np.asarray(value).tolist() for name, value in request.tensors.items()}
    assert found["f0"] == [[7], [7]] and found["f1"] == [b"a", b""] and found["f1.offsets"] == [0, 2, 2]
    assert found["rows"] == rows and found["x"] == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(FeedError, match="x: has 3 rows, want B = 2 as others"):
        reader.read({"rows": rows, "x": np.ones((3, 2), np.float32)})
    with pytest.raises(FeedError, match="x: missing"):
        reader.read({"rows": rows})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float32"}, "the input 'f0' is int64, not float32"),
        ({"shape": (2,)}, r"the input 'f0' is \[B, 1\], not \[B, 2\]"),
        ({"kind": "ragged", "shape": (), "default": None}, "the input 'f0' is dense, the feature ragged"),
        ({"kind": "sparse", "shape": (), "default": None}, "it is sparse"),
    ],
)
def test_what_is_decoded_is_checked(change: dict[str, Any], message: str) -> None:
    made = program((Feature("n", "int64", "dense", (1,)),))
    (decode,) = made.decodes
    features = ((replace(decode.features[0][0], **change), "f0"),)
    with pytest.raises(GraphError, match=message):
        check(replace(made, decodes=(replace(decode, features=features),)))
    with pytest.raises(GraphError, match="2 features become it"):
        check(replace(made, decodes=(replace(decode, features=decode.features * 2),)))


# -- whole requests ----------------------------------------------------------------------------------------------------
def layout(r: random.Random, made: Program) -> Layout:
    """Some of the fields, in any order."""
    places: dict[str, Place] = {}
    widths: dict[str, int] = {}
    ragged: dict[str, RaggedPlace] = {}
    fields = [i for i in made.inputs if not i.name.endswith(".offsets")]
    for item in r.sample(fields, r.randint(0, len(fields))):
        if item.offsets is not None:
            ragged[item.name] = RaggedPlace(item.dtype, item.offsets)
            continue
        width = int(np.prod([int(d) for d in item.shape[1:]], dtype=np.int64))
        places[item.name] = Place(item.dtype, widths.get(item.dtype, 0), width)
        widths[item.dtype] = widths.get(item.dtype, 0) + width
    return Layout(B, places, widths, ragged)


def at(address: int, count: int, dtype: str) -> Any:
    """The numbers that lie at an address."""
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer(ctypes.string_at(address, size), dtype) if size else np.empty(0, dtype)


def check_located(packed: Packed, plan: Layout) -> None:
    located = packed.located
    assert (located is None) == (not plan.ragged)
    if located is None:
        return
    assert located.fields == tuple(plan.ragged) and set(located.offsets) == set(packed.offsets)
    for k, name in enumerate(located.offsets):
        assert at(int(located.words[k]), packed.rows + 1, "int64").tolist() == packed.offsets[name].tolist()
        assert located.totals[k] == packed.offsets[name][-1]
    for k, name in enumerate(located.fields):
        values, (first, second) = packed.ragged[name], located.words[len(located.offsets) + 2 * k :][:2].tolist()
        if isinstance(values, Strings):
            ends = at(first, len(values) + 1, "int64")
            assert ends.tolist() == values.offsets.tolist()
            assert at(second, int(ends[-1]), "uint8").tolist() == values.data[: ends[-1]].tolist()
        else:
            assert at(first, len(values), str(values.dtype)).tobytes() == values.tobytes()


@pytest.mark.parametrize("threads", [1, 2])
def test_whole_requests_equal_the_reference(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "PARALLEL_BYTES", 0)
    answered = 0
    for seed in range(200):
        r = random.Random(f"whole {seed}")
        features = wanted(r)
        rows = [examples.serialized(r, features, damage=0.0) for _ in range(r.choice([0, 1, 2, 5, 30]))]
        made = program(features)
        plan = layout(r, made)
        reader = FeedReader(made, (plan,), threads=threads)
        try:
            want = read_examples(rows, features)
        except FeedError as error:
            with pytest.raises(FeedError) as refused:
                reader.read({"rows": column(rows)})
            assert refused.value.got == error.got
            continue
        answered += 1
        request = reader.read({"rows": column(rows)})
        (packed,) = request.packed
        check_located(packed, plan)
        assert packed.rows == len(rows) and request.sizes["B"] == len(rows)
        texts = Strings(packed.string_data, packed.string_offsets).to_objects()
        for k, (feature, lists) in enumerate(zip(features, want, strict=True)):
            name, what = f"f{k}", f"seed {seed}: {feature}"
            expected = lists.values if feature.kind == "ragged" else dense(lists, feature)
            if feature.kind == "ragged":
                assert request.sizes[f"N{k}"] == len(expected)
            if name in plan.places:
                place = plan.places[name]
                buffer = texts if place.dtype == "string" else packed.buffers[place.dtype]
                got: Any = buffer[len(rows) * place.start : len(rows) * (place.start + place.width)]
                expected = expected.reshape(-1)
            elif name in plan.ragged:
                assert packed.offsets[f"{name}.offsets"].tolist() == lists.offsets.tolist(), what
                values = packed.ragged[name]
                got = values.to_objects() if isinstance(values, Strings) else values
            else:
                got = np.asarray(request.tensors[name])
            assert got.shape == expected.shape, what
            same = got.tolist() == expected.tolist() if got.dtype == object else got.tobytes() == expected.tobytes()
            assert same, what
    assert answered > 60


def test_keys_in_any_order_and_of_any_length() -> None:
    keys = ["a", "ab", "k" * 7, "k" * 8, "k" * 9, "k" * 127, "k" * 128, "k" * 300, "k" * 127 + "l", "é" * 90]
    features = tuple(Feature(key, "int64", "dense", (1,)) for key in keys)
    r = random.Random(5)
    rows = []
    for _ in range(40):
        entries = [examples.entry(key, examples.listed("int64", [n])) for n, key in enumerate(keys)]
        others = [examples.entry("k" * n, examples.listed("int64", [-1])) for n in (1, 2, 126, 129)]
        r.shuffle(both := [*entries, *others])
        rows.append(examples.example(*(both if r.random() < 0.5 else [*others, *entries])))
    fields, _, _ = Decoder(program(features)).fields({"rows": column(rows)})
    for n in range(len(keys)):
        assert fields[f"f{n}"].reshape(-1).tolist() == [n] * len(rows)


@pytest.mark.parametrize("dtype", ["string", "float32", "int64"])
@pytest.mark.parametrize("kind", ["dense", "ragged", "padded"])
def test_of_entries_with_one_key_the_last_counts(dtype: str, kind: str) -> None:
    """Also where an earlier one is no list of its dtype, or has too many values."""
    default = examples.Const(column([b"-"])[0:1].reshape(()) if dtype == "string" else np.array(9, dtype))
    shapes = {"dense": ((1,), None), "ragged": ((), None), "padded": ((1,), default)}
    features = (Feature("a", dtype, kind, *shapes[kind]),)
    values = {"string": [b"x", b"longer"], "float32": [1.5, 2.5], "int64": [300, -4]}[dtype]
    other = examples.listed("int64" if dtype == "string" else "string", [1] if dtype == "string" else [b"1"])
    broken = examples.field({"string": 1, "float32": 2, "int64": 3}[dtype], b"\xff")
    lists = [examples.listed(dtype, values[:1]), examples.listed(dtype, values[1:]), b"", other, broken]
    lists.append(examples.listed(dtype, [*values, *values], packed=False))
    r = random.Random(f"{dtype} {kind}")
    for _ in range(60):
        rows = [
            examples.example(*(examples.entry("a", r.choice(lists)) for _ in range(r.randint(0, 4)))) for _ in range(3)
        ]
        decoder = Decoder(program(features))
        try:
            (want,) = read_examples(rows, features)
        except FeedError as error:
            with pytest.raises(FeedError) as refused:
                decoder.fields({"rows": column(rows)})
            assert refused.value.got == error.got
            continue
        got = flat(decoder.fields({"rows": column(rows)})[0]["f0"])
        expected = want.values if kind == "ragged" else dense(want, features[0]).reshape(-1)
        assert (got.to_pylist() if dtype == "string" else got.reshape(-1).tolist()) == expected.tolist()


@pytest.mark.parametrize("packed", [True, False])
def test_integers_of_every_length(packed: bool) -> None:
    values = [s * (1 << n) + d for n in range(63) for d in (-1, 0, 1) for s in (1, -1)] + [2**63 - 1, -(2**63)]
    feature = Feature("n", "int64", "ragged")
    r = random.Random(int(packed))
    rows = []
    for _ in range(30):
        r.shuffle(values)
        rows.append(
            examples.example(examples.entry("n", examples.listed("int64", values[: r.randint(0, 400)], packed)))
        )
    (want,) = read_examples(rows, (feature,))
    fields, _, _ = Decoder(program((feature,))).fields({"rows": column(rows)})
    assert fields["f0"].tolist() == want.values.tolist()
    decoder = Decoder(program((feature,)))
    for row in rows[:3]:
        for cut in [*range(0, len(row), 37), *range(max(0, len(row) - 24), len(row))]:
            check_cut(decoder, feature, row[:cut])


def check_cut(decoder: Decoder, feature: Feature, row: bytes) -> None:
    try:
        (want,) = read_examples([row], (feature,))
    except FeedError as error:
        with pytest.raises(FeedError) as refused:
            decoder.fields({"rows": column([row])})
        assert refused.value.got == error.got
        return
    assert decoder.fields({"rows": column([row])})[0]["f0"].tolist() == want.values.tolist()


def test_only_the_first_bad_examples_are_described() -> None:
    rows = [b"\xff"] * 30
    with pytest.raises(FeedError) as refused:
        Decoder(program((Feature("n", "int64", "ragged"),))).fields({"rows": column(rows)})
    lines = refused.value.got.splitlines()
    assert len(lines) == 21 and lines[-1] == "... and 10 more" and "30 Examples" in str(refused.value)


def test_examples_of_arrow_and_of_subclasses() -> None:
    feature = Feature("n", "int64", "padded", (1,), examples.Const(np.array(7)))
    rows = [examples.example(examples.entry("n", examples.listed("int64", [3]))), b"", b""]
    for feed in (
        pa.array(rows, pa.large_binary()),
        pa.array(rows, pa.binary())[1:],
        pa.chunked_array([pa.array(rows[:1]), pa.array(rows[1:])]),
        column([np.bytes_(rows[0]), b""]),
        np.array(rows[:1]),
        column(rows)[::-1],
    ):
        fields, _, sizes = Decoder(program((feature,))).fields({"rows": feed})
        assert fields["f0"].reshape(-1).tolist() == [3 if len(bytes(x)) else 7 for x in np.asarray(feed, object)]
        assert sizes == {"B": len(feed)}
    with pytest.raises(FeedError, match=r"rows: element \[1\] is"):
        Decoder(program((feature,))).fields({"rows": column([b"", 5])})


@pytest.mark.parametrize("dtype", ["string", "float32", "int64"])
def test_blocks_equal_the_reference(dtype: str) -> None:
    answered = 0
    for seed in range(60):
        r = random.Random(f"blocks {dtype} {seed}")
        shape = r.choice([(1,), (2,), (2, 2)])
        fill = {"string": column([b"-"]), "float32": np.array([9], "float32"), "int64": np.array([9])}[dtype]
        feature = Feature("a", dtype, "steps", shape, examples.Const(fill))
        rows = [examples.serialized(r, (feature,), wrong=0.05, damage=0.0) for _ in range(r.choice([0, 1, 3]))]
        shape_of = (B, dims.symbol("T"), *shape)
        inputs = (Input("f0", dtype, shape_of),)
        decoder = Decoder(Program(inputs, (), (), (), (), (), decodes=(Decode("rows", B, ((feature, "f0"),)),)))
        try:
            (want,) = read_examples(rows, (feature,))
        except FeedError as error:
            with pytest.raises(FeedError) as refused:
                decoder.fields({"rows": column(rows)})
            assert refused.value.got == error.got
            continue
        answered += 1
        fields, _, sizes = decoder.fields({"rows": column(rows)})
        expected = dense(want, feature)
        assert fields["f0"].shape == expected.shape and fields["f0"].tolist() == expected.tolist()
        assert sizes == {"B": len(rows), "T": expected.shape[1]}
    assert answered > 20
