"""Feeds for any signature: ordinary random ones, and ones made of the values on which implementations differ.

numpy only. Strings are object arrays of bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import OptionError, listed
from colonnade.testing.models.examples import encode_example
from colonnade.testing.models.spec import DENSE, EXAMPLES, ColumnSpec, ModelSpec, TensorSpec

Array = NDArray[Any]
Feed = dict[str, Array]
Range = tuple[int, int]
"""[low, high)."""
Maker = Callable[[TensorSpec, tuple[int, ...], np.random.Generator, "Hints"], Array]

_ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", np.uint8)
_MAX_TOKENS = 10
_TOKEN_BYTES = 8
_MAX_VALUES = 3
_SIZES = (1, 2, 3, 5)
LEAST_WEIGHT = 1e-18
"""Of smaller weights products and squares are denormal floats: see the deviations."""
_DENSE_STEP = 4
_SOME = 8
"""Values of a lookup table that are corners, beside its last one."""


@dataclass(frozen=True)
class Hints:
    """What is known of a model's inputs beyond dtype and shape, by input name; every mapping may lack any name.

    Facts: `boundaries` are floats at which ids change; `separators` are what strings are split by; `ids` is the valid
    range of an input that reaches a table unhashed, `usual` the range of one whose other values are no errors;
    `vocabulary` and `numbers` have values of a lookup table, `only_known` names inputs that may have no others;
    `missing` is a value that stands for none and is always valid; `weights` names inputs whose products with other
    numbers may not be denormal; `examples` are the features (float32, int64 or
    string; shape `(None,)` or `(k,)`) of a string input that holds serialized `tf.Example` messages; the other hints
    apply to features by their names. `places` has parts of the rows of a matrix, each with the places that it has:
    hints apply to them by their names.
    """

    boundaries: Mapping[str, Sequence[float]] = field(default_factory=dict)
    separators: Mapping[str, bytes] = field(default_factory=dict)
    ids: Mapping[str, Range] = field(default_factory=dict)
    usual: Mapping[str, Range] = field(default_factory=dict)
    vocabulary: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    numbers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    only_known: frozenset[str] = frozenset()
    missing: Mapping[str, int | bytes] = field(default_factory=dict)
    weights: frozenset[str] = frozenset()
    examples: Mapping[str, Sequence[TensorSpec]] = field(default_factory=dict)
    places: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)


def hints_of(spec: ModelSpec) -> Hints:
    """The hints that a spec holds."""
    columns = spec.columns
    return Hints(
        boundaries={c.name: c.boundaries for c in columns if c.boundaries},
        separators={c.name: c.separator.encode() for c in columns if c.kind == "split_hash"},
        examples={EXAMPLES: [_in_example(c) for c in columns] + _dense(spec)} if spec.serialized else {},
    )


def _in_example(column: ColumnSpec) -> TensorSpec:
    """A column's feature: one float, or any number of ids or strings."""
    return replace(column.input, shape=(1,) if column.kind == "bucketized" else (None,))


def _dense(spec: ModelSpec) -> list[TensorSpec]:
    return [TensorSpec(DENSE, "float32", (spec.num_dense,))] if spec.num_dense else []


def spec_feed(spec: ModelSpec, batch: int, rng: np.random.Generator) -> Feed:
    """An ordinary request of `batch` rows for a spec's model: floats over the boundaries, 8-byte strings."""
    return ordinary_feed(spec.inputs, batch, rng, hints_of(spec))


def spec_corner_feed(spec: ModelSpec, batch: int, rng: np.random.Generator) -> Feed:
    """A request of `batch` rows of corner values for a spec's model."""
    return corner_feed(spec.inputs, batch, rng, hints_of(spec))


def ordinary_feed(
    inputs: Sequence[TensorSpec], batch: int, rng: np.random.Generator, hints: Hints | None = None
) -> Feed:
    """A request of `batch` rows of unremarkable random values.

    Facts: the first unknown dim of an input is the batch, others are drawn small.
    Errors: OptionError that lists every input of unknown rank or a dtype without values.
    """
    _check(inputs)
    hints = hints or Hints()
    return {i.name: _feed(_ordinary, i, batch, rng, hints) for i in inputs}


def corner_feed(inputs: Sequence[TensorSpec], batch: int, rng: np.random.Generator, hints: Hints | None = None) -> Feed:
    """A request of `batch` rows in which about nine values of ten are corners, each input's in an order of its own.

    Facts: a batch of `corner_batch(inputs, hints)` rows or more has every corner of every input; the corners are those
    of `corners`. A float input of several values a row, without boundaries, is taken for a dense one: only every
    fourth of its rows has corners, since one NaN there hides all that the row's other inputs show.
    Errors: as `ordinary_feed`.
    """
    _check(inputs)
    hints = hints or Hints()
    return {i.name: _feed(_cornered, i, batch, rng, hints) for i in inputs}


def missing_feed(inputs: Sequence[TensorSpec], batch: int, hints: Hints | None = None) -> Feed:
    """A request of `batch` rows in which everything is missing: '', -1 (or the least valid id), NaN, False.

    Facts: the input of a dense network stays 0.
    Errors: as `ordinary_feed`.
    """
    _check(inputs)
    return {i.name: _feed(_missing, i, batch, np.random.default_rng(0), hints or Hints()) for i in inputs}


def corner_batch(inputs: Sequence[TensorSpec], hints: Hints | None = None) -> int:
    """The least batch at which `corner_feed` shows every corner of every input (of examples: about every one)."""
    _check(inputs)
    hints = hints or Hints()
    features = [feature for i in inputs for feature in (*hints.examples.get(i.name, (i,)), *_parts(i, hints))]
    return max((len(corners(f, hints)) * (_DENSE_STEP if _is_dense(f, hints) else 1) for f in features), default=0)


def corners(spec: TensorSpec, hints: Hints) -> Array:
    """The values of an input on which implementations differ.

    Facts: of floats: NaN, infinities, signed zero, denormals, extremes, each boundary and one ulp on either side; of
    integers: -1 (missing), 0, extremes, or the ends of the valid range where it is known; of strings: missing, long,
    non-ASCII, NULs, and separators leading, trailing, doubled or alone; of both, some of a lookup table.
    """
    kind = _kind(spec.dtype)
    if kind == "float":
        found = _float_corners(np.dtype(spec.dtype), hints.boundaries.get(spec.name, ()))
        if spec.name in hints.weights:
            found = found[(found == 0) | ~(np.abs(found) < LEAST_WEIGHT)]
        return found if spec.name not in hints.ids else _valid(found, hints.ids[spec.name])
    if kind == "int":
        return _int_corners(spec, hints)
    if kind == "bool":
        return np.array([False, True])
    vocabulary = hints.vocabulary.get(spec.name, ())
    if vocabulary and spec.name in hints.only_known:
        known = [*vocabulary[:_SOME], vocabulary[-1]]
        missing = [m for m in [hints.missing.get(spec.name)] if isinstance(m, bytes)]
        return _objects([*known, *missing], (len(known) + len(missing),))
    return _string_corners(hints.separators.get(spec.name, b";"), vocabulary)


def _check(inputs: Sequence[TensorSpec]) -> None:
    bad = [f"{i.name}: {i.dtype} {i.shape}" for i in inputs if i.shape is None or not _kind(i.dtype)]
    if bad:
        raise OptionError(
            "inputs for which no values can be made",
            got=listed(bad),
            want="a known rank, and floats, integers, bools or strings",
            help="give a feed of your own",
        )


def _kind(dtype: str) -> str:
    if dtype == "string":
        return dtype
    kinds = {"float16": "float", "float32": "float", "float64": "float", "bool": "bool"}
    return kinds.get(dtype, "int" if dtype.startswith(("int", "uint")) else "")


def _shape(spec: TensorSpec, batch: int, rng: np.random.Generator) -> tuple[int, ...]:
    assert spec.shape is not None
    dims: list[int] = []
    batch_is_free = True
    for dim in spec.shape:
        if dim is not None:
            dims.append(dim)
        elif batch_is_free:
            dims.append(batch)
            batch_is_free = False
        else:
            dims.append(int(rng.choice(_SIZES)))
    return tuple(dims)


def _feed(make: Maker, spec: TensorSpec, batch: int, rng: np.random.Generator, hints: Hints) -> Array:
    shape = _shape(spec, batch, rng)
    if (features := hints.examples.get(spec.name)) is None:
        values = make(spec, shape, rng, hints)
        for part in _parts(spec, hints):
            places = list(hints.places[spec.name][part.name])
            values[:, places] = make(part, (shape[0], len(places)), rng, hints)
        return values
    messages = [_example(make, features, rng, hints) for _ in range(_size(shape))]
    return _objects(messages, shape)


def _parts(spec: TensorSpec, hints: Hints) -> list[TensorSpec]:
    """The parts of a matrix, as inputs."""
    parts = hints.places.get(spec.name, {})
    return [TensorSpec(name, spec.dtype, (None, len(places))) for name, places in parts.items()]


def _example(make: Maker, features: Sequence[TensorSpec], rng: np.random.Generator, hints: Hints) -> bytes:
    found: dict[str, tuple[str, Array]] = {}
    for spec in features:
        assert spec.shape is not None
        fixed = [dim for dim in spec.shape if dim is not None]
        length = math.prod(fixed) if len(fixed) == len(spec.shape) else int(rng.integers(_MAX_VALUES + 1))
        found[spec.name] = spec.dtype, make(spec, (length,), rng, hints)
    return encode_example(found)


def _ordinary(spec: TensorSpec, shape: tuple[int, ...], rng: np.random.Generator, hints: Hints) -> Array:
    kind = _kind(spec.dtype)
    whole = _whole_numbers(spec, kind, hints)
    if isinstance(whole, tuple):
        low, high = whole
        return np.asarray(rng.integers(low, high, shape), spec.dtype)
    if whole is not None:
        return np.asarray(whole, spec.dtype)[rng.integers(len(whole), size=shape)]
    if kind == "float":
        return np.asarray(rng.uniform(*_float_range(hints.boundaries.get(spec.name, ())), shape), spec.dtype)
    if kind == "bool":
        return rng.random(shape) < 0.5
    if vocabulary := hints.vocabulary.get(spec.name):
        return _objects([vocabulary[i] for i in rng.integers(len(vocabulary), size=_size(shape))], shape)
    separator = hints.separators.get(spec.name)
    return _objects(_strings(_size(shape), rng, separator), shape)


def _whole_numbers(spec: TensorSpec, kind: str, hints: Hints) -> Range | Sequence[int] | None:
    """What ordinary values of an input of ids or other integers are: a range, or some numbers."""
    name = spec.name
    if kind not in ("int", "float"):
        return None
    if name in hints.ids:
        low, high = hints.ids[name]
        ends = (low, high), hints.usual.get(name, (low, high)), (0, high)  # negative ids are corners
        within = max(e[0] for e in ends), min(e[1] for e in ends)
        return within if within[0] < within[1] else (low, high)
    if name in hints.numbers:
        return hints.numbers[name]
    if name in hints.usual or kind == "float":
        return hints.usual.get(name)
    return 0, min(1_000_000, np.iinfo(spec.dtype).max)


def _missing(spec: TensorSpec, shape: tuple[int, ...], rng: np.random.Generator, hints: Hints) -> Array:
    kind = _kind(spec.dtype)
    if spec.name in hints.missing and kind in ("int", "string"):
        return np.full(shape, hints.missing[spec.name], object if kind == "string" else spec.dtype)
    if spec.name in hints.only_known and kind in ("int", "string"):
        return _ordinary(spec, shape, rng, hints)
    if kind == "string":
        return np.full(shape, b"", object)
    if kind == "float" and spec.name in hints.ids:
        return np.full(shape, hints.ids[spec.name][0], spec.dtype)
    if kind == "int":
        low = hints.ids[spec.name][0] if spec.name in hints.ids else -1
        # Unsigned types have no -1: it wraps to their greatest value.
        return np.full(shape, low, np.int64).astype(spec.dtype)
    if kind == "float" and not _is_dense(spec, hints):
        return np.full(shape, np.nan, spec.dtype)
    return np.zeros(shape, spec.dtype)


def _float_range(boundaries: Sequence[float]) -> tuple[float, float]:
    if not len(boundaries):
        return -1.0, 1.0
    low, high = float(boundaries[0]), float(boundaries[-1])
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _strings(count: int, rng: np.random.Generator, separator: bytes | None) -> list[bytes]:
    """`count` random tokens of 8 bytes, or joins of 1 to 10 of them."""
    if separator is None:
        lengths = np.ones(count, np.int64)
    else:
        lengths = rng.integers(1, _MAX_TOKENS + 1, count)
    text = _ALPHABET[rng.integers(len(_ALPHABET), size=(int(lengths.sum()), _TOKEN_BYTES))]
    tokens = [row.tobytes() for row in text]
    ends = np.cumsum(lengths)
    return [(separator or b"").join(tokens[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


def _cornered(spec: TensorSpec, shape: tuple[int, ...], rng: np.random.Generator, hints: Hints) -> Array:
    values = _ordinary(spec, shape, rng, hints).reshape(-1)
    found = corners(spec, hints)
    rng.shuffle(found)
    order = np.arange(len(values)).reshape(shape)
    order = rng.permutation((order[::_DENSE_STEP] if _is_dense(spec, hints) else order).reshape(-1))
    # Every corner once in a random place, then nine of ten of the remaining places at random.
    once, rest = order[: len(found)], order[len(found) :]
    values[once] = found[: len(once)]
    rest = rest[rng.random(len(rest)) < 0.9]
    values[rest] = found[rng.integers(len(found), size=len(rest))]
    return values.reshape(shape)


def _is_dense(spec: TensorSpec, hints: Hints) -> bool:
    assert spec.shape is not None
    several = len(spec.shape) > 1 and spec.shape[1:] != (1,)
    said = spec.name in hints.boundaries or spec.name in hints.ids or spec.name in hints.usual
    return several and _kind(spec.dtype) == "float" and not said


def _float_corners(dtype: np.dtype[Any], boundaries: Sequence[float]) -> Array:
    info = np.finfo(dtype)
    tiny, small, huge = info.smallest_subnormal, info.tiny, info.max
    fixed = [np.nan, np.inf, -np.inf, 0.0, -0.0, tiny, -tiny, small, -small, huge, -huge, small / 2, -small / 2]
    # Boundaries are float32 in the source's attributes whatever the input's dtype is.
    exact = np.asarray(boundaries, np.float32).astype(dtype)
    with np.errstate(over="ignore", under="ignore"):
        around = [np.nextafter(exact, -np.inf, dtype=dtype), exact, np.nextafter(exact, np.inf, dtype=dtype)]
    return np.concatenate([np.asarray(fixed, dtype), *around])


def _int_corners(spec: TensorSpec, hints: Hints) -> Array:
    info = np.iinfo(spec.dtype)
    numbers = hints.numbers.get(spec.name, ())
    candidates = [*numbers[:_SOME], *numbers[-1:]]
    if spec.name not in hints.only_known:
        low, high = hints.usual.get(spec.name, (0, 1))
        candidates += [-1, 0, 1, -2, 9, 10, 99, 100, -100, 2**31 - 1, -(2**31), 2**31, 2**53 + 1, info.min, info.max]
        candidates += [info.min + 1, info.max - 1, low - 1, low, high - 1, high]
    if spec.name in hints.ids:
        low, high = hints.ids[spec.name]
        candidates = [low, high - 1, *(v for v in candidates if v in (-1, 0) and low <= v < high)]
    if spec.name in hints.missing:
        candidates.append(int(hints.missing[spec.name]))
    return np.asarray([v for v in dict.fromkeys(candidates) if info.min <= v <= info.max], spec.dtype)


def _valid(values: Array, ids: Range) -> Array:
    """The floats that are ids, and the ends of their range."""
    inside = values[(values >= ids[0]) & (values <= ids[1] - 1)]
    return np.concatenate([inside, np.asarray([ids[0], ids[1] - 1], values.dtype)])


def _string_corners(separator: bytes, vocabulary: Sequence[bytes]) -> Array:
    s = separator
    joined = [
        *(s, s + s, s * 17, s + b"a", b"a" + s, b"a" + s + b"b", b"a" + s + s + b"b", s + b"a" + s + s + b"b" + s),
        *(s.join([b"x"] * 33), s.join([b"tokenize", b"", b"tokenize"]), b" " + s + b" ", b"a" + s + b"\0" + s + b"b"),
        s.join(b"t%d" % i for i in range(200)),
    ]
    # Lengths on either side of the branches of Farmhash (16, 32, 64) and of a word.
    sized = [b"abcdefghijk" * 400, *((b"0123456789abcdef" * 17)[:n] for n in (1, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33))]
    sized += [(b"fedcba9876543210" * 17)[:n] for n in (63, 64, 65, 96, 127, 128, 129, 255, 256)]
    bytes_ = [b"\0", b"a\0", b"\0a", b"a\0b", b"\0" * 9, b"\xff\xfe\x80", bytes(range(256)), "größe".encode()]
    texts = [
        "日本語".encode(),
        "\U0001f600;\U0001f600".encode(),
        b" ",
        b"  a ",
        b"\t\r\n",
        b"-1",
        b"0",
        b"nan",
        b"A",
        b"a",
    ]
    values = [b"", *joined, *sized, *bytes_, *texts]
    if vocabulary:
        values += [*vocabulary[:_SOME], vocabulary[-1], vocabulary[0] + b" ", vocabulary[0].upper()]
    return _objects(values, (len(values),))


def _objects(values: Sequence[bytes], shape: tuple[int, ...]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array.reshape(shape)


def _size(shape: tuple[int, ...]) -> int:
    return math.prod(shape)
