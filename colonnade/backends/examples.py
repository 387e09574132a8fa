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
from colonnade.backends.code_cache import CodeCache, Results
from colonnade.backends.feed_values import Unfit, as_array, is_text
from colonnade.core import examples
from colonnade.core.examples import DTYPES, Feature, Trouble, refuse
from colonnade.core.strings import Strings
from colonnade.errors import FeedError, ShapeError, listed
from colonnade.ir.program import Decode, Program

Array = npt.NDArray[Any]
KINDS = ("dense", "ragged", "padded")
"""In the order of the loops' numbers for them."""


class Decoder:
    """Decodes the requests of one program. Safe for concurrent callers: it holds tables, no buffers."""

    def __init__(self, program: Program) -> None:
        LOOPS.warm()
        self.keys = frozenset(i.name for i in program.signature)
        kept = {i.name for i in program.inputs}
        offsets = {i.name: (i.offsets, i.offsets and program.input(i.offsets).dtype) for i in program.inputs}
        self._parts = [(_Plan(d.features), d, d.name in kept) for d in program.decodes]
        self._offsets = offsets

    def fields(self, feed: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
        """The inputs made of Examples, the other values of the request, and the number of Examples by its symbol.

        Facts: dense inputs are Arrow arrays of `B` (lists of fixed sizes of) values; ragged ones are Arrow arrays of N
        values, their offsets numpy arrays.
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
        for plan, decode, kept in self._parts:
            sizes.setdefault(str(decode.rows), len(texts[decode.name]))
            self._add(fields, plan, decode, texts[decode.name])
            if not kept:
                del rest[decode.name]
        return fields, rest, sizes

    def _add(self, fields: dict[str, Any], plan: _Plan, decode: Decode, texts: Strings) -> None:
        found = plan.scan(texts, decode.name)
        for f, (feature, name) in enumerate(decode.features):
            if name is None:
                continue
            values, ends = plan.values(found, f)
            offsets, dtype = self._offsets[name]
            if offsets is not None:
                _check_lengths(fields.get(offsets), ends, feature, decode)
                fields[offsets] = ends.astype(dtype)
            elif feature.size == 0:  # Arrow has no lists of no values
                values = np.empty((len(texts), *feature.shape), object if feature.dtype == "string" else feature.dtype)
            elif feature.shape and feature.shape != (1,):
                for size in reversed(feature.shape):
                    values = pa.FixedSizeListArray.from_arrays(values, size)
            fields[name] = values


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
    """Where the features of a batch lie. data: the bytes of all Examples.   places, counts, sizes: see the loops."""

    data: Array
    places: Array
    counts: Array
    sizes: Array


class _Plan:
    """What the loops need to know of the features."""

    def __init__(self, features: Sequence[tuple[Feature, str | None]]) -> None:
        self.features = tuple(f for f, _ in features)
        keys = [f.key.encode() for f in self.features]
        names = {key: k for k, key in enumerate(dict.fromkeys(keys))}
        self._keys, self._key_ends = _joined(tuple(names))
        self._table = _hashed(tuple(names))
        self._first, self._following = _linked(keys, names)
        rows = [(DTYPES.index(f.dtype) + 1, KINDS.index(f.kind), f.size, _has_default(f)) for f in self.features]
        self._spec = np.array(rows, np.int64).reshape(len(rows), 4)
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
        return _Found(data, places, counts, sizes)

    def values(self, found: _Found, f: int) -> tuple[pa.Array, npt.NDArray[np.int64]]:
        """All values of one feature, flat, and where those of each Example begin and end."""
        feature = self.features[f]
        num_rows = found.counts.shape[1]
        ends = np.zeros(num_rows + 1, np.int64)
        if feature.kind == "ragged":
            np.cumsum(found.counts[f], out=ends[1:])
        else:
            ends[:] = np.arange(num_rows + 1) * feature.size
        places = found.places[f]
        if feature.dtype == "string":
            return self._strings(found, f, int(ends[-1])), ends
        bits = "uint32" if feature.dtype == "float32" else "int64"
        values = np.empty(int(ends[-1]), bits)
        if feature.default is not None:
            values.view(feature.dtype).reshape(num_rows, feature.size)[...] = feature.default.array.reshape(-1)
        (loops.copy_floats if feature.dtype == "float32" else loops.copy_integers)(found.data, places, ends, values)
        return pa.array(values.view(feature.dtype)), ends

    def _strings(self, found: _Found, f: int, num: int) -> pa.Array:
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
    return feature.default is not None and feature.size > 0


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
    plan = _Plan([(Feature("f", dtype, "ragged"), None) for dtype in DTYPES])
    found = plan.scan(Strings(np.empty(0, np.uint8), np.zeros(1, np.int64)), "")
    for f in range(len(DTYPES)):
        plan.values(found, f)
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
    return [Path(module) for module in (__file__, str(loops.__file__), str(examples.__file__))]


LOOPS = CodeCache("examples", "the loops that decode Examples", _sources, _results, _adopt)
