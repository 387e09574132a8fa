"""From serialized Examples in a request to the inputs that a program decodes of them.

Legend: B Examples, N values of a feature in all of them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from colonnade.backends import example_loops as loops
from colonnade.backends import memory
from colonnade.backends.code_cache import CodeCache, Results
from colonnade.backends.feed_values import Unfit, as_array, is_text, sound
from colonnade.core import examples
from colonnade.core.examples import COUNT, DTYPES, Feature, Trouble, refuse
from colonnade.core.strings import Strings
from colonnade.errors import FeedError, ShapeError, listed
from colonnade.ir.program import Decode, Program

Array = npt.NDArray[Any]
KINDS = {"dense": 0, "ragged": 1, "padded": 2, "steps": 1}
"""The loops' numbers for them."""
NUMBERS = {"float32": np.uint32, "int64": np.int64}
"""What the loops write for each dtype of numbers."""


class Decoder:
    """Decodes the requests of one program. Safe for concurrent callers: it holds tables, no buffers."""

    def __init__(self, program: Program) -> None:
        LOOPS.warm()
        self.keys = frozenset(i.name for i in program.undecoded)
        kept = {i.name for i in program.inputs}
        offsets = {i.name: (i.offsets, i.offsets and program.input(i.offsets).dtype) for i in program.inputs}
        self._parts = [(_Plan(d.features), d, d.name in kept) for d in program.decodes]
        self._symbols = [str(d.rows) for d in program.decodes]
        self._offsets = offsets
        self._widths = {i.name: str(i.shape[1]) for i in program.inputs if len(i.shape) > 1}

    def fields(self, feed: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
        """The inputs made of Examples, the other values of the request, and the number of Examples by its symbol.

        Facts: numbers and offsets are numpy arrays, of the declared shape or of N values; strings are Arrow arrays, of
        `B` (lists of fixed sizes of) values or of N.
        Errors: FeedError that lists keys that are missing or unexpected, or every bad Example.
        """
        problems = [f"{key}: missing" for key in sorted(self.keys - feed.keys())]
        problems += [f"{key}: unexpected" for key in feed if key not in self.keys]
        texts = {}
        for _, decode, _ in self._parts:
            if decode.name in feed:
                try:
                    texts[decode.name] = _texts(feed[decode.name])
                except Unfit as error:
                    problems.append(f"{decode.name}: {error}")
        if problems:
            raise FeedError(
                f"the request does not fit the signature in {len(problems)} places",
                got=listed(problems),
                want=listed([f"{d.name}: string[{d.rows}], serialized tf.train.Examples" for _, d, _ in self._parts]),
            )
        fields: dict[str, Any] = {}
        rest = dict(feed)
        sizes: dict[str, int] = {}
        for symbol, (plan, decode, kept) in zip(self._symbols, self._parts, strict=True):
            sizes.setdefault(symbol, len(texts[decode.name]))
            self._add(fields, plan, decode, texts[decode.name], sizes)
            if not kept:
                del rest[decode.name]
        return fields, rest, sizes

    def _add(self, fields: dict[str, Any], plan: _Plan, decode: Decode, texts: Strings, sizes: dict[str, int]) -> None:
        found = plan.scan(texts, decode.name)
        numbers = plan.numbers(found)
        for f, (feature, name) in enumerate(decode.features):
            if name is None:
                continue
            offsets, dtype = self._offsets[name]
            ends = found.ends[f]
            values = plan.strings(found, f) if feature.dtype == "string" else numbers[f]
            if offsets is not None:
                _check_lengths(fields.get(offsets), ends, feature, decode)
                fields[offsets] = ends.astype(dtype)
            elif feature.kind == "steps":
                values = padded_steps(values, ends, feature)
                _check_width(values.shape[1], self._widths[name], sizes, feature, decode)
            elif feature.dtype != "string":
                values = values.reshape(len(texts), *feature.shape)
            elif feature.size == 0:  # Arrow has no lists of no values
                values = np.empty((len(texts), *feature.shape), object)
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


def _texts(value: object) -> Strings:
    """The strings of a vector. Errors: Unfit."""
    if isinstance(value, pa.Array | pa.ChunkedArray):
        sound(value)
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if isinstance(value, pa.Array) and is_text(value.type) and not value.null_count:
        return Strings.from_arrow(value)
    if type(value) is np.ndarray and value.ndim == 1 and value.dtype == object:
        found = Strings.from_arrays((value,), value.shape)
        if found is not None:
            return found
    array = as_array(value, "string")
    if array.ndim != 1:
        raise Unfit(f"has the shape {list(array.shape)}, want one dimension")
    try:
        return Strings.from_objects(array)
    except ShapeError as error:
        raise Unfit(error.got) from error


@dataclass(frozen=True, eq=False)
class _Found:
    """Where the features of a batch lie. data: the bytes of all Examples.   the others: see the loops."""

    data: Array
    places: Array
    counts: Array
    sizes: Array
    ends: Array


class _Plan:
    """What the loops need to know of the features."""

    def __init__(self, features: Sequence[tuple[Feature, str | None]]) -> None:
        self.features = tuple(f for f, _ in features)
        keys = [f.key.encode() for f in self.features]
        names = {key: k for k, key in enumerate(dict.fromkeys(keys))}
        self._keys, self._key_ends = _joined(tuple(names))
        self._table = _hashed(tuple(names))
        self._first, self._following = _linked(keys, names)
        rows = [(DTYPES.index(f.dtype) + 1, KINDS[f.kind], f.size, _has_default(f)) for f in self.features]
        self._spec = np.array(rows, np.int64).reshape(len(rows), 4)
        wanted = [f for f, (feature, name) in enumerate(features) if name is not None and feature.dtype != "string"]
        self._wanted = {kind: [f for f in wanted if self.features[f].dtype == kind] for kind in NUMBERS}
        self._fill_bits, self._fill_places = _bits(self.features)
        fills = [f.default.array.reshape(-1).tolist() if f.default is not None else [] for f in self.features]
        self._fills = [_joined(v) if f.dtype == "string" else None for v, f in zip(fills, self.features, strict=True)]

    def scan(self, texts: Strings, key: str) -> _Found:
        """Find every feature. Errors: FeedError that names each bad Example with its first bad feature."""
        num_rows, num = len(texts), len(self.features)
        counts, sizes = np.zeros((num, num_rows), np.int64), np.zeros((num, num_rows), np.int64)
        places = np.full((num, num_rows, 2), -1)
        troubles = np.empty((num_rows, 4), np.int64)
        spec = (self._keys, self._key_ends, self._table, self._first, self._following, self._spec)
        data, ends = _read_only(texts.data), _read_only(texts.offsets)
        longest = int(np.diff(ends).max(initial=0))
        room = np.full(len(self._key_ends), -1), np.empty((longest // loops.SMALLEST + 1, 3), np.int64)
        bad = loops.scan(data, ends, *spec, *room, places, counts, sizes, troubles)
        if bad:
            raise refuse([Trouble(*row) for row in troubles[:bad].tolist()], self.features, f"input {key!r}")
        found_ends = np.empty((num, num_rows + 1), np.int64)
        loops.lay_out(self._spec, counts, found_ends)
        self._check_blocks(counts, f"input {key!r}")
        return _Found(data, places, counts, sizes, found_ends)

    def _check_blocks(self, counts: Array, where: str) -> None:
        """Errors: FeedError where an Example does not have whole blocks."""
        troubles: dict[int, Trouble] = {}
        for f, feature in enumerate(self.features):
            if feature.kind == "steps":
                for row in np.flatnonzero(counts[f] % feature.size).tolist():
                    troubles.setdefault(row, Trouble(row, f, COUNT, int(counts[f, row])))
        if troubles:
            raise refuse([troubles[row] for row in sorted(troubles)], self.features, where)

    def numbers(self, found: _Found) -> dict[int, Array]:
        """All values of each feature of numbers that is wanted, flat."""
        totals = found.ends[:, -1].tolist()
        wanted: list[tuple[int, int, int]] = []
        blocks: dict[str, Array] = {}
        for dtype, features in self._wanted.items():
            begin = 0
            for f in features:
                wanted.append((f, begin, self._fill_places[f]))
                begin += totals[f]
            blocks[dtype] = np.empty(begin, NUMBERS[dtype])
        if not wanted:
            return {}
        table = np.array(wanted, np.int64)
        operands = found.data, found.places, self._spec, found.ends, table, self._fill_bits
        loops.copy_numbers(*operands, blocks["float32"], blocks["int64"])
        views = {dtype: block.view(dtype) for dtype, block in blocks.items()}
        return {f: views[self.features[f].dtype][begin : begin + totals[f]] for f, begin, _ in wanted}

    def strings(self, found: _Found, f: int) -> pa.Array:
        """All strings of one feature, flat."""
        num = int(found.ends[f, -1])
        feature, filled = self.features[f], self._fills[f]
        assert filled is not None
        fill, fill_ends = filled
        counts, sizes = found.counts[f], found.sizes[f]
        width, spread, missing = 0, 0, 0
        if feature.kind == "padded":
            width = feature.size
            missing = (num - int(counts.sum())) * len(fill)
        elif feature.kind == "dense" and feature.default is not None:
            width, spread = feature.size, 1
            missing = int((found.places[f, :, 0] < 0).sum()) * len(fill)
        data = np.empty(int(sizes.sum()) + missing, np.uint8)
        ends = np.zeros(num + 1, np.int64)
        loops.copy_texts(found.data, found.places[f], width, spread, fill, fill_ends, data, ends)
        return Strings(data, ends).to_arrow()


def _read_only(array: Array) -> Array:
    """Arrays of Arrow's are so; numba compiles once more for arrays that may be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def _has_default(feature: Feature) -> bool:
    return feature.default is not None and feature.size > 0 and feature.kind != "steps"


def _bits(features: Sequence[Feature]) -> tuple[Array, list[int]]:
    """The defaults of all features of numbers, as many for each as an Example has values, and where each begins."""
    found: list[Array] = []
    places, end = [], 0
    for f in features:
        places.append(end)
        if f.default is not None and f.dtype != "string" and f.kind != "steps":
            values = np.broadcast_to(f.default.array.reshape(-1), (f.size,)).astype(f.dtype)
            found.append(values.view(NUMBERS[f.dtype]).astype(np.int64))
            end += f.size
    return np.concatenate([*found, np.zeros(0, np.int64)]), places


def _joined(texts: Sequence[bytes]) -> tuple[Array, Array]:
    ends = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(t) for t in texts], out=ends[1:])
    return np.frombuffer(b"".join(texts), np.uint8), ends


def _hashed(keys: Sequence[bytes]) -> Array:
    """An open table of key numbers, -1: free, by FNV-1a."""
    size = 8
    while size < 2 * len(keys):
        size *= 2
    table = np.full(size, -1, np.int64)
    for number, key in enumerate(keys):
        h = 14695981039346656037
        for byte in key:
            h = (h ^ byte) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
        while table[h % size] >= 0:
            h += 1
        table[h % size] = number
    return table


def _linked(keys: Sequence[bytes], names: Mapping[bytes, int]) -> tuple[Array, Array]:
    """The first feature of each key, and after each feature the next one of its key; -1: none."""
    first, following = np.full(len(names), -1, np.int64), np.full(len(keys), -1, np.int64)
    for f in reversed(range(len(keys))):
        k = names[keys[f]]
        following[f], first[k] = first[k], f
    return first, following


# -- the loops' code ---------------------------------------------------------------------------------------------------
def _results() -> Results:
    """Every loop, compiled for the operands that it gets."""
    plan = _Plan([(Feature("f", dtype, "ragged"), dtype) for dtype in DTYPES])
    found = plan.scan(Strings(np.empty(0, np.uint8), np.zeros(1, np.int64)), "")
    plan.numbers(found)
    plan.strings(found, DTYPES.index("string"))
    return {
        f"{name}/{k}": result
        for name, loop in loops.ENTRIES.items()
        for k, result in enumerate(loop.overloads.values())
    }


def _adopt(results: Results) -> Mapping[str, Any]:
    """Let the loops run this code."""
    for name, result in results.items():
        loop = loops.ENTRIES[name.partition("/")[0]]
        if result.signature.args not in loop.overloads:
            loop.add_overload(result)
    return loops.ENTRIES


def _sources() -> Iterable[Path]:
    return [Path(str(module)) for module in (__file__, loops.__file__, memory.__file__, examples.__file__)]


LOOPS = CodeCache("examples", "the loops that decode Examples", _sources, _results, _adopt)
