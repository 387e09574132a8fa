"""From serialized Examples in a request to the inputs that a program decodes of them.

Legend: B Examples, F features, T features that are noted (see the loops), N values of a feature in all Examples.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from numba import types

from colonnade.backends import atomics, jobs, memory
from colonnade.backends import example_loops as loops
from colonnade.backends.arena import ALIGNMENT, Room
from colonnade.backends.code_cache import CodeCache, Results
from colonnade.backends.example_plan import Plan
from colonnade.backends.feed_room import SMALL as SPARE
from colonnade.backends.feed_room import SpareMemory
from colonnade.backends.feed_values import Unfit, as_array, is_text, sound
from colonnade.backends.memory import address_of
from colonnade.backends.pool import POOL
from colonnade.core.batch import Layout, Located, Packed
from colonnade.core.examples import MOST, Feature, refuse, trouble
from colonnade.core.objects import locate_strings, prepare
from colonnade.core.strings import Strings
from colonnade.errors import FeedError, ShapeError, listed
from colonnade.ir.program import Decode, Program
from colonnade.ops.op import torch_dtype

Array = npt.NDArray[Any]
Value = TypeVar("Value")
PARALLEL_BYTES = 1 << 16
"""Bytes of Examples from which on helpers give more than they cost."""
CHUNKS_A_THREAD = 4
SMALL = 1 << 16
"""Bytes up to which a request's memory is asked for anew; fresh pages cost more than a loan from there on."""
_ITEM_BYTES = {"uint8": 1, "float32": 4, "int64": 8}
_BLOCKS = (("float32", loops.FLOATS), ("int64", loops.INTEGERS), ("int64", loops.STRINGS), ("uint8", loops.DATA))
_NOTHING = [(dtype, 0) for dtype, _ in _BLOCKS]
NO_BYTES = np.empty(0, np.uint8)
NO_STRINGS = np.zeros(1, np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class _Texts:
    """Serialized Examples. places: [B, 2] address and size of each.   kept: what holds their memory."""

    places: Array
    num_bytes: int
    kept: object

    def __len__(self) -> int:
        return len(self.places)

    def bytes_of(self, row: int) -> bytes:
        """One of them."""
        return ctypes.string_at(int(self.places[row, 0]), int(self.places[row, 1]))


def _texts(value: object) -> _Texts:
    """The Examples of a vector of strings. Errors: Unfit."""
    if isinstance(value, pa.Array | pa.ChunkedArray):
        sound(value)
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if isinstance(value, pa.Array) and is_text(value.type) and not value.null_count:
        return _of_strings(Strings.from_arrow(value))
    if type(value) is not np.ndarray or value.ndim != 1 or value.dtype != object:
        value = as_array(value, "string")
        if value.ndim != 1:
            raise Unfit(f"has the shape {list(value.shape)}, want one dimension")
    kept = value.copy()  # a caller who writes to the array later takes no string away from under the loops
    places = np.empty((len(kept), 2), np.int64)
    size = locate_strings(kept, places)
    if size >= 0:
        return _Texts(places, size, kept)
    try:
        return _of_strings(Strings.from_objects(as_array(kept, "string")))
    except ShapeError as error:
        raise Unfit(error.got) from error


def _of_strings(strings: Strings) -> _Texts:
    places = np.empty((len(strings), 2), np.int64)
    np.add(strings.offsets[:-1], strings.data.ctypes.data, out=places[:, 0])
    np.subtract(strings.offsets[1:], strings.offsets[:-1], out=places[:, 1])
    return _Texts(places, int(places[:, 1].sum()), strings)


@dataclass(frozen=True, eq=False, slots=True)
class _Decoded:
    """All features of a batch, in blocks. dense: of numbers whose place is known; the others: see the loops."""

    plan: Plan
    rows: int
    dense: Sequence[Array]
    floats: Array
    integers: Array
    ends: Array
    data: Array
    offsets: Array
    totals: Array
    addresses: Array

    def value(self, f: int) -> Array | Strings:
        """The values of a feature, flat."""
        feature, t = self.plan.features[f], self.plan.noted[f]
        if t < 0:
            block, start = self.plan.dense[f]
            return self.dense[block][self.rows * start : self.rows * (start + feature.size)]
        first, num = int(self.totals[t, 0]), int(self.totals[t, 1])
        if feature.dtype == "string":
            return Strings(self.data, self.ends[first : first + num + 1])
        return (self.floats if feature.dtype == "float32" else self.integers)[first : first + num]

    def ends_of(self, f: int) -> Array:
        """Where the values of each Example end, after a 0: of a ragged feature. Shapes: [B + 1]."""
        found: Array = self.offsets[self.plan.ragged[f]]
        return found


class _Lazy(Mapping[str, Value]):
    """Values that are made when they are asked for."""

    def __init__(self, keys: Mapping[str, int], make: Callable[[int], Value]) -> None:
        self._keys = keys
        self._make = make

    def __getitem__(self, key: str) -> Value:
        return self._make(self._keys[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class _Call:
    """The words of one call at a time, and the memory that its chunks need; reused."""

    def __init__(self, plan: Plan, code: Code, chunks: int) -> None:
        words = loops.PLACES // 8 + len(plan.blocks)
        self._raw = np.zeros(words + 8, np.int64)
        skip = -self._raw.ctypes.data % 64 // 8
        self.array = array = self._raw[skip : skip + words]
        width = -(-plan.scratch_words // 8) * 8
        self._scratch = np.empty(chunks * width, np.int64)
        self._failed = np.zeros(chunks, np.int64)
        array[loops.SCRATCH // 8] = self._scratch.ctypes.data
        array[loops.SCRATCH_BYTES // 8] = 8 * width
        array[loops.FAILED // 8] = self._failed.ctypes.data
        for word, value in plan.words.items():
            array[word // 8] = value
        self.words = memoryview(array.data)
        self.address = int(array.ctypes.data)
        self._notes = np.empty(0, np.int64)

    def notes(self, count: int) -> int:
        """The address of so many words. Facts: they last as long as no more are asked for."""
        if len(self._notes) < count:
            self._notes = np.empty(count, np.int64)
        return int(address_of(self._notes))


class _Reader:
    """Decodes the Examples of one key. Facts: any thread may use it at any time."""

    def __init__(self, plan: Plan, code: Code, threads: int) -> None:
        self.plan = plan
        self._code = code
        self._threads = threads
        self._most_chunks = CHUNKS_A_THREAD * threads
        self._calls = [_Call(plan, code, self._most_chunks)]
        self._before, self._after = SpareMemory(("uint8",)), SpareMemory(("uint8",))

    def read(self, texts: _Texts, key: str, given: Mapping[int, Array]) -> _Decoded:
        """All features.   given: memory for blocks of the plan, by number, where it is to be another than ours.

        Errors: FeedError that names each bad Example with its first bad feature.
        """
        try:
            call = self._calls.pop()
        except IndexError:
            call = _Call(self.plan, self._code, self._most_chunks)
        try:
            return self._decoded(call, texts, key, given)
        finally:
            self._calls.append(call)

    def _empty(self, sizes: Sequence[tuple[str, int]], spare: SpareMemory) -> tuple[list[Array], list[int]]:
        """Arrays of dtypes and lengths, in one piece of memory, and their addresses; their content is arbitrary.

        spare: for pieces of about one size, as a lent one that is too small is given up.
        """
        ends, end = [], 0
        for dtype, count in sizes:
            ends.append((dtype, end, end := end + count * _ITEM_BYTES[dtype]))
            end += -end % ALIGNMENT
        block = np.empty(end, np.uint8) if end <= SMALL else spare.empty(max(end, SPARE + 1), np.uint8)
        base = address_of(block)
        return [block[first:last].view(dtype) for dtype, first, last in ends], [base + first for _, first, _ in ends]

    def _decoded(self, call: _Call, texts: _Texts, key: str, given: Mapping[int, Array]) -> _Decoded:
        words, plan, rows = call.words, self.plan, len(texts)
        bad = np.empty(rows, np.uint8)
        totals = np.empty((plan.num_noted, 4), np.int64)
        addresses = np.empty(plan.num_located, np.int64)
        sizes = [(dtype, 0 if k in given else rows * width) for k, (dtype, width, _) in enumerate(plan.blocks)]
        arrays, places = self._empty([*sizes, ("int64", plan.num_ragged * (rows + 1))], self._before)
        *dense, offsets = arrays
        for k, block in given.items():
            dense[k], places[k] = block, address_of(block)
        helpers = self._chunk(words, rows, texts.num_bytes)
        words[loops.ROWS // 8] = rows
        words[loops.TEXTS // 8] = address_of(texts.places)
        words[loops.NOTES // 8] = call.notes(2 * rows * plan.num_noted)
        words[loops.BAD // 8] = address_of(bad)
        words[loops.TOTALS // 8] = address_of(totals)
        words[loops.ADDRESSES // 8] = address_of(addresses)
        words[loops.OFFSETS // 8] = places.pop()
        for k, place in enumerate(places):
            words[loops.PLACES // 8 + k] = place
        self._run(call, self._code.scan, helpers)
        num_bad = self._code.lay_out(call.address)
        if num_bad:
            first = np.flatnonzero(bad)[:MOST].tolist()
            troubles = [trouble(texts.bytes_of(row), plan.features, row) for row in first]
            raise refuse(troubles, plan.features, f"input {key!r}", num_bad)
        wanted = [(dtype, words[word // 8]) for dtype, word in _BLOCKS] if plan.num_noted else _NOTHING
        (floats, integers, ends, data), places = self._empty(wanted, self._after)
        if plan.num_noted:
            for (_, word), place in zip(_BLOCKS, places, strict=True):
                words[word // 8] = place
            self._run(call, self._code.write, helpers)
        offsets = offsets.reshape(plan.num_ragged, rows + 1)
        return _Decoded(plan, rows, dense, floats, integers, ends, data, offsets, totals, addresses)

    def _chunk(self, words: memoryview, rows: int, num_bytes: int) -> int:
        """Cut the Examples into chunks; gives the number of helpers."""
        chunks, helpers = 1, 0
        if self._threads > 1 and num_bytes > PARALLEL_BYTES and rows > 1:
            helpers = POOL.helpers(self._threads - 1, self._code.helper)
            chunks = min(rows, self._most_chunks)
        words[loops.CHUNKS // 8] = chunks
        words[loops.CHUNK_ROWS // 8] = -(-rows // chunks)
        return helpers

    def _run(self, call: _Call, worker: int, helpers: int) -> None:
        call.words[loops.NEXT // 8] = 0
        call.words[jobs.WORK // 8] = worker
        self._code.run(call.address, POOL.address, helpers)


class Decoder:
    """Decodes the requests of one program. Safe for concurrent callers.

    layouts: the fields that columns read.   tensors: the inputs that are wanted as tensors.   threads: to be used.
    """

    def __init__(
        self, program: Program, layouts: Sequence[Layout] = (), tensors: Iterable[str] = (), threads: int = 1
    ) -> None:
        code = LOOPS.warm()
        prepare()
        self.keys = frozenset(i.name for i in program.undecoded)
        kept = {i.name for i in program.inputs}
        self._offsets = {i.name: (i.offsets, i.offsets and program.input(i.offsets).dtype) for i in program.inputs}
        self._widths = {i.name: str(i.shape[1]) for i in program.inputs if len(i.shape) > 1}
        self._parts = [(d, d.name in kept) for d in program.decodes]
        self._symbols = [str(d.rows) for d in program.decodes]
        self.is_direct = _is_direct(program, layouts)
        """Whether `read` makes whole requests."""
        layout = layouts[0] if self.is_direct and layouts else None
        plans = [
            Plan(d.features, layout, frozenset(tensors) if self.is_direct else frozenset()) for d, _ in self._parts
        ]
        self._readers = [_Reader(plan, code, threads) for plan in plans]
        self._direct = _Direct(program, self._readers[0], layout) if self.is_direct else None

    def read(self, feed: Mapping[str, Any], room: Room | None) -> Made:
        """A request of nothing but Examples. Errors: as `fields`."""
        assert self._direct is not None
        (texts,) = self._checked(feed)
        return self._direct.made(texts, room)

    def fields(self, feed: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
        """The inputs made of Examples, the other values of the request, and the number of Examples by its symbol.

        Facts: numbers and offsets are numpy arrays, of the declared shape or of N values; strings are Arrow arrays, of
        `B` (lists of fixed sizes of) values or of N.
        Errors: FeedError that lists keys that are missing or unexpected, or every bad Example.
        """
        fields: dict[str, Any] = {}
        rest = dict(feed)
        sizes: dict[str, int] = {}
        all_texts = self._checked(feed)
        for symbol, reader, (decode, kept), texts in zip(
            self._symbols, self._readers, self._parts, all_texts, strict=True
        ):
            sizes.setdefault(symbol, len(texts))
            self._add(fields, reader.read(texts, decode.name, {}), decode, sizes)
            if not kept:
                del rest[decode.name]
        return fields, rest, sizes

    def _checked(self, feed: Mapping[str, Any]) -> list[_Texts]:
        """The Examples of every key that has them."""
        problems = [f"{key}: missing" for key in sorted(self.keys - feed.keys())]
        problems += [f"{key}: unexpected" for key in feed if key not in self.keys]
        texts = []
        for decode, _ in self._parts:
            if decode.name in feed:
                try:
                    texts.append(_texts(feed[decode.name]))
                except Unfit as error:
                    problems.append(f"{decode.name}: {error}")
        if problems:
            raise FeedError(
                f"the request does not fit the signature in {len(problems)} places",
                got=listed(problems),
                want=listed([f"{d.name}: string[{d.rows}], serialized tf.train.Examples" for d, _ in self._parts]),
            )
        return texts

    def _add(self, fields: dict[str, Any], found: _Decoded, decode: Decode, sizes: dict[str, int]) -> None:
        for f, (feature, name) in enumerate(decode.features):
            if name is None:
                continue
            offsets, dtype = self._offsets[name]
            values: Any = found.value(f)
            if isinstance(values, Strings):
                values = values.to_arrow()
            if offsets is not None:
                ends = found.ends_of(f)
                _check_lengths(fields.get(offsets), ends, feature, decode)
                fields[offsets] = ends.astype(dtype)
            elif feature.kind == "steps":
                values = padded_steps(values, found.ends_of(f), feature)
                _check_width(values.shape[1], self._widths[name], sizes, feature, decode)
            elif feature.dtype != "string":
                values = values.reshape(found.rows, *feature.shape)
            elif feature.size == 0:  # Arrow has no lists of no values
                values = np.empty((found.rows, *feature.shape), object)
            elif feature.shape and feature.shape != (1,):
                for size in reversed(feature.shape):
                    values = pa.FixedSizeListArray.from_arrays(values, size)
            fields[name] = values


def padded_steps(values: Array | pa.Array, ends: Array, feature: Feature) -> Array:
    """`[B, most blocks, *shape]` of all values of a feature of blocks."""
    lengths = np.diff(ends)
    width = int(lengths.max(initial=0))
    made = np.full((len(lengths), width), feature.fill, object if feature.dtype == "string" else feature.dtype)
    made[np.arange(width) < lengths[:, None]] = values.to_pylist() if isinstance(values, pa.Array) else values
    return made.reshape(len(lengths), width // feature.size, *feature.shape)


def _check_width(width: int, symbol: str, sizes: dict[str, int], feature: Feature, decode: Decode) -> None:
    """Errors: FeedError where features that are joined block by block differ in their most blocks."""
    if sizes.setdefault(symbol, width) != width:
        raise FeedError(
            f"feature {feature.key!r} has another number of blocks than one that it is joined with",
            where=f"key {decode.name!r}",
            got=f"at most {width} an Example",
            want=str(sizes[symbol]),
        )


def _check_lengths(known: Array | None, ends: Array, feature: Feature, decode: Decode) -> None:
    """Errors: FeedError where a feature's rows are not as long as those of the feature whose offsets it shares."""
    if known is None or np.array_equal(known, ends):
        return
    lengths, wanted = np.diff(ends), np.diff(known)
    row = int(np.flatnonzero(lengths != wanted)[0])
    raise FeedError(
        f"Example {row} has another number of values of feature {feature.key!r} than of the one that it weights",
        where=f"key {decode.name!r}",
        got=str(int(lengths[row])),
        want=str(int(wanted[row])),
    )


# -- whole requests ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, slots=True)
class Made:
    """A request that was made of Examples alone.

    tensors: the dense numbers that were asked for.   value: any other input, as an array of its shape.
    """

    packed: tuple[Packed, ...]
    sizes: dict[str, int]
    tensors: dict[str, torch.Tensor]
    value: Callable[[str], Array]


def _is_direct(program: Program, layouts: Sequence[Layout]) -> bool:
    """Whether a request is the Examples of one key, and columns read nothing but what is decoded of them."""
    if len(program.decodes) != 1 or len(program.undecoded) != 1 or len(layouts) > 1:
        return False
    if program.row_keys or program.pads or any(f.kind == "steps" for f, _ in program.decodes[0].features):
        return False
    (decode,) = program.decodes
    made = {name for _, name in decode.features if name is not None}
    fits = all(layout.fields <= made and layout.rows == decode.rows for layout in layouts)
    return fits and program.undecoded[0].name == decode.name and not any(i.sources for i in program.inputs)


class _Direct:
    """Makes requests of blocks as they are."""

    def __init__(self, program: Program, reader: _Reader, layout: Layout | None) -> None:
        self._reader = reader
        self._layout = layout
        (self._decode,) = program.decodes
        self._rows = str(self._decode.rows)
        plan = reader.plan
        inputs = {i.name: i for i in program.inputs}
        self._dtypes = {i.name: i.dtype for i in program.inputs}
        self._shapes = {name: f.shape for f, name in self._decode.features if name is not None}
        self._numbers = {name: f for f, (_, name) in enumerate(self._decode.features) if name is not None}
        ragged = {name: f for name, f in self._numbers.items() if inputs[name].offsets is not None}
        self._symbols = tuple(str(inputs[name].shape[0]) for name in ragged)
        self._noted = np.array([plan.noted[f] for f in ragged.values()], np.int64)
        first: dict[str, int] = {}
        self._shared: list[tuple[int, int]] = []
        for name, f in ragged.items():
            offsets = str(inputs[name].offsets)
            if offsets in first:
                self._shared.append((f, first[offsets]))
            first.setdefault(offsets, f)
        self._first = first
        """Of each offsets input, the feature that it is made of."""
        self._ragged = {name: ragged[name] for name in plan.located_fields}
        self._offsets = {name: first[name] for name in plan.located_offsets}

    def made(self, texts: _Texts, room: Room | None) -> Made:
        """Errors: as `Decoder.fields`."""
        rows, plan, layout = len(texts), self._reader.plan, self._layout
        given: dict[int, Array] = {}
        tensors: dict[str, torch.Tensor] = {}
        for k, (dtype, _, name) in enumerate(plan.blocks):
            if name is not None:
                tensors[name] = torch.empty((rows, *self._shapes[name]), dtype=torch_dtype(dtype))
                given[k] = tensors[name].numpy().reshape(-1)
            elif room is not None and layout is not None and k < len(plan.packed):
                given[k] = room.array(layout, dtype, rows)
        found = self._reader.read(texts, self._decode.name, given)
        for f, leader in self._shared:
            _check_lengths(found.ends_of(leader), found.ends_of(f), plan.features[f], self._decode)
        sizes = dict(zip(self._symbols, found.totals[self._noted, 1].tolist(), strict=True)) if self._symbols else {}
        sizes[self._rows] = rows
        packed = () if layout is None else (self._packed(found, layout),)
        return Made(packed, sizes, tensors, lambda name: self._value(found, name))

    def _packed(self, found: _Decoded, layout: Layout) -> Packed:
        width = layout.widths.get("string")
        data, ends = (NO_BYTES, NO_STRINGS) if width is None else (found.data, found.ends[: found.rows * width + 1])
        return Packed(
            found.rows,
            dict(zip(found.plan.packed, found.dense[: len(found.plan.packed)], strict=True)),
            data,
            ends,
            _Lazy(self._ragged, found.value),
            _Lazy(self._offsets, found.ends_of),
            self._located(found) if self._ragged else None,
        )

    def _located(self, found: _Decoded) -> Located:
        plan = found.plan
        totals = found.totals[plan.located_notes, 1]
        return Located(plan.located_fields, plan.located_offsets, found.addresses, totals)

    def _value(self, found: _Decoded, name: str) -> Array:
        if name in self._first:
            return found.ends_of(self._first[name]).astype(self._dtypes[name])
        values = found.value(self._numbers[name])
        flat = values.to_objects() if isinstance(values, Strings) else values
        is_ragged = self._reader.plan.ragged[self._numbers[name]] >= 0
        return flat if is_ragged else flat.reshape(found.rows, *self._shapes[name])


# -- the loops' code ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Code:
    """The loops in memory: what Python calls, and addresses of what threads call. results: keep the code alive."""

    run: Callable[[int, int, int], int]
    lay_out: Callable[[int], int]
    scan: int
    write: int
    helper: int
    results: Mapping[str, Any]


def _results() -> Results:
    results = {}
    for name, (function, operands) in {
        "run": (jobs.run, 3),
        "helper": (jobs.helper, 1),
        **{name: (loop, 1) for name, loop in loops.ENTRIES.items()},
    }.items():
        signature = (types.int64,) * operands
        function.compile(signature)
        results[name] = function.overloads[signature]
    return results


def _code(results: Results) -> Code:
    scan, write, helper = (
        int(results[name].library.get_pointer_to_function(results[name].fndesc.llvm_cfunc_wrapper_name))
        for name in ("scan", "write", "helper")
    )
    return Code(results["run"].entry_point, results["lay_out"].entry_point, scan, write, helper, results)


def _sources() -> Iterable[Path]:
    return [Path(__file__), *(Path(str(module.__file__)) for module in (loops, jobs, atomics, memory))]


LOOPS = CodeCache("examples", "the loops that decode Examples", _sources, _results, _code)
