"""Serialized `tf.train.Example`s: which features are wanted, how they are read, and what becomes of them.

Legend: B Examples, N values of a feature in all of them together.

An Example is a map from keys to lists of bytes, floats or integers in protobuf's wire format. Bytes are taken as
TensorFlow's own fast reader takes them, which is laxer than protobuf: a list may end before its length says so, and
what follows the first list of a feature is ignored. Of entries with one key the last counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.core.consts import Const
from colonnade.errors import FeedError, ShapeError, listed

Array = npt.NDArray[Any]
Offsets = npt.NDArray[np.int64]

DTYPES = ("string", "float32", "int64")
"""By the number of the list's field in a `Feature` message, less one."""
KINDS = ("dense", "steps", "sparse", "ragged", "padded")
UNREADABLE, KIND, ABSENT, COUNT, DTYPE = 1, 2, 3, 4, 5
"""What can be wrong: the Example, a list of no known kind, no value, their number, the dtype."""
MOST = 20
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class Feature:
    """A key of an Example, and the form that its values take.

    kind: `dense` (every Example has `shape`), `steps` (any number of blocks of `shape`, padded to the most),
    `sparse` and `ragged` (any number of values), `padded` (at most `shape`, which has one dim).
    default: of `dense` the value where it is absent, none: an error; of `steps` and `padded` the one that pads.
    splits: dtype of a ragged feature's row splits.
    Errors: ShapeError where these do not fit together.
    """

    key: str
    dtype: str
    kind: str
    shape: tuple[int, ...] = ()
    default: Const | None = None
    splits: str = "int64"

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem:
            raise ShapeError(f"a feature of Examples {problem}", where=f"feature {self.key!r}", got=repr(self))

    @property
    def size(self) -> int:
        """Values of an Example, or of one block of `steps`."""
        return math.prod(self.shape)

    @property
    def fill(self) -> Any:
        """The one value that pads."""
        assert self.default is not None
        return self.default.array.reshape(-1)[0]


def _problem(feature: Feature) -> str:
    if feature.kind not in KINDS or feature.dtype not in DTYPES or feature.splits not in ("int32", "int64"):
        return f"is none of {', '.join(KINDS)} of {', '.join(DTYPES)}"
    if any(d < 0 for d in feature.shape) or (feature.kind == "padded" and len(feature.shape) != 1):
        return "has a shape that it cannot have"
    if feature.kind == "steps" and feature.size == 0:
        return "has blocks without values"
    default = feature.default
    if feature.kind in ("steps", "padded") and (default is None or default.array.size != 1):
        return "needs one value to pad with"
    if default is not None and feature.kind == "dense" and default.array.shape != feature.shape:
        return "has a default of another shape"
    if default is not None and (str(default.array.dtype) != ("object" if feature.dtype == "string" else feature.dtype)):
        return "has a default of another dtype"
    return ""


@dataclass(frozen=True)
class Trouble:
    """What is wrong with one Example. feature: -1 where it is the Example itself. got: of `COUNT` and `DTYPE`."""

    example: int
    feature: int
    code: int
    got: int = 0


def refuse(
    troubles: Sequence[Trouble], features: Sequence[Feature], where: str = "", num: int | None = None
) -> FeedError:
    """The error that lists them.   num: how many there are, where these are but the first `MOST`."""
    said = [_said(t, features) for t in troubles]
    said += [""] * ((num or 0) - len(said))
    return FeedError(
        f"{len(said)} Examples cannot be read",
        where=where,
        got=listed(said, limit=MOST),
        want="serialized tf.train.Examples with the features of the signature",
    )


def _said(trouble: Trouble, features: Sequence[Feature]) -> str:
    if trouble.feature < 0:
        return f"Example {trouble.example}: its bytes are no tf.train.Example"
    feature = features[trouble.feature]
    place = f"Example {trouble.example}, feature {feature.key!r}: "
    if trouble.code == UNREADABLE:
        return place + "the bytes of its list do not parse"
    if trouble.code == KIND:
        return place + "its list is none of bytes, floats and integers"
    if trouble.code == ABSENT:
        return place + "it is required but absent"
    if trouble.code == DTYPE:
        return place + f"its list is of {DTYPES[trouble.got - 1]}, want {feature.dtype}"
    want = {"dense": "", "steps": "a multiple of ", "padded": "at most "}[feature.kind]
    return place + f"it has {trouble.got} values, want {want}{feature.size}"


@dataclass(frozen=True, eq=False)
class Lists:
    """The values of one feature, flat, and where those of each Example begin and end. Shapes: [N], [B + 1]."""

    values: Array
    offsets: Offsets


# -- the reference reader ----------------------------------------------------------------------------------------------
class _Bad(Exception):
    """The bytes do not parse."""


def read_examples(serialized: Sequence[bytes], features: Sequence[Feature]) -> list[Lists]:
    """The values of every feature, one Example after the other; absent dense features have their default.

    Errors: FeedError that names each bad Example with its first bad feature.
    """
    rows: list[list[list[Any]]] = []
    troubles: list[Trouble] = []
    for number, data in enumerate(serialized):
        found = _example(data, features, number)
        if isinstance(found, Trouble):
            troubles.append(found)
        else:
            rows.append(found)
    if troubles:
        raise refuse(troubles, features)
    return [_joined([row[k] for row in rows], f.dtype) for k, f in enumerate(features)]


def trouble(data: bytes, features: Sequence[Feature], number: int) -> Trouble:
    """What is wrong with an Example that is known to be bad."""
    found = _example(data, features, number)
    return found if isinstance(found, Trouble) else Trouble(number, -1, UNREADABLE)


def _joined(rows: Sequence[list[Any]], dtype: str) -> Lists:
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    flat = [value for row in rows for value in row]
    values = np.empty(len(flat), object if dtype == "string" else dtype)
    values[:] = flat
    return Lists(values, offsets)


def _example(data: bytes, features: Sequence[Feature], number: int) -> list[list[Any]] | Trouble:
    """The values of every feature of one Example. Facts: looks at entries from the last to the first, as TensorFlow."""
    try:
        entries = _entries(data)
    except _Bad:
        return Trouble(number, -1, UNREADABLE)
    places: dict[bytes, list[int]] = {}
    for k, feature in enumerate(features):
        places.setdefault(feature.key.encode(), []).append(k)
    found: dict[int, list[Any]] = {}
    for key, (start, end) in reversed(entries):
        for k in places.get(key, ()):
            if start < end and not _known_kind(data[start]):
                return Trouble(number, k, KIND)
            if k in found:
                continue
            read = _list(data, start, end, features[k], Trouble(number, k, UNREADABLE))
            if isinstance(read, Trouble):
                return read
            if read is not None:
                found[k] = read
    rows = []
    for k, feature in enumerate(features):
        if k not in found and feature.kind == "dense":
            if feature.default is None or feature.size == 0:
                return Trouble(number, k, ABSENT)
            found[k] = feature.default.array.reshape(-1).tolist()
        rows.append(found.get(k, []))
    return rows


def _known_kind(tag: int) -> bool:
    return tag & 7 == _BYTES and 1 <= tag >> 3 <= len(DTYPES)


def _list(data: bytes, start: int, end: int, feature: Feature, bad: Trouble) -> list[Any] | Trouble | None:
    """The values of a feature's list; None where an empty one does not count."""
    if start == end:
        return None if feature.kind in ("dense", "steps") else []
    field = data[start] >> 3
    if DTYPES[field - 1] != feature.dtype:
        return Trouble(bad.example, bad.feature, DTYPE, field)
    try:
        length, at = _length(data, start + 1, end)
        values = _READERS[feature.dtype](data, at, min(end, at + length))
    except _Bad:
        return bad
    num = len(values)
    fits = {"dense": num == feature.size, "steps": num % max(feature.size, 1) == 0, "padded": num <= feature.size}
    return values if fits.get(feature.kind, True) else Trouble(bad.example, bad.feature, COUNT, num)


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for k in range(10):
        if at + k >= end:
            raise _Bad
        value |= (data[at + k] & 0x7F) << 7 * k
        if data[at + k] < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at + k + 1
    raise _Bad


def _length(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A length: the low 32 bits of a varint."""
    value, at = _varint(data, at, end)
    return value & 0xFFFFFFFF, at


def _span(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The bytes behind a length, all of which must be there."""
    length, at = _length(data, at, end)
    if at + length > end:
        raise _Bad
    return at, at + length


def _entries(data: bytes) -> list[tuple[bytes, tuple[int, int]]]:
    """Key and place of the value of every entry. Facts: Examples joined end to end are read as one."""
    entries: list[tuple[bytes, tuple[int, int]]] = []
    at, end = 0, len(data)
    while at < end:
        if data[at] != 1 << 3 | _BYTES:
            at = _skipped(data, at, end)
            continue
        length, at = _length(data, at + 1, end)
        stop = min(end, at + length)
        while at < stop:
            if data[at] != 1 << 3 | _BYTES:
                raise _Bad
            key, value, at = _entry(data, at + 1, stop)
            entries.append((key, value))
    return entries


def _entry(data: bytes, at: int, end: int) -> tuple[bytes, tuple[int, int], int]:
    length, at = _length(data, at, end)
    stop = min(end, at + length)
    key, value = (at, at), (at, at)
    for _ in range(2):
        tag, at = _varint(data, at, stop)
        if tag & 0xFFFFFFFF == 1 << 3 | _BYTES:
            key = _span(data, at, stop)
            at = key[1]
        elif tag & 0xFFFFFFFF == 2 << 3 | _BYTES:
            value = _span(data, at, stop)
            at = value[1]
        else:
            raise _Bad
    if at < stop:
        raise _Bad
    return data[key[0] : key[1]], value, at


def _skipped(data: bytes, at: int, end: int) -> int:
    """The place behind a field that no Example has."""
    tag, at = _varint(data, at, end)
    wire = tag & 7
    if wire == _VARINT:
        return _varint(data, at, end)[1]
    if wire == _BYTES:
        length, at = _length(data, at, end)
        return min(end, at + length)
    width = {_FIXED64: 8, _FIXED32: 4}.get(wire, 0)
    if not width or at + width > end:
        raise _Bad
    return at + width


def _texts(data: bytes, at: int, end: int) -> list[bytes]:
    found = []
    while at < end:
        if data[at] != 1 << 3 | _BYTES:
            raise _Bad
        start, at = _span(data, at + 1, end)
        found.append(data[start:at])
    return found


def _floats(data: bytes, at: int, end: int) -> list[np.float32]:
    """As numpy scalars: Python's floats change the bits of a signalling NaN."""
    if at < end and data[at] == 1 << 3 | _BYTES:
        length, at = _length(data, at + 1, end)
        if at + length // 4 * 4 > end:
            raise _Bad
        return list(np.frombuffer(data, "<f4", length // 4, at))
    found: list[np.float32] = []
    while at < end:
        if data[at] != 1 << 3 | _FIXED32 or at + 5 > end:
            raise _Bad
        found.extend(np.frombuffer(data, "<f4", 1, at + 1))
        at += 5
    return found


def _integers(data: bytes, at: int, end: int) -> list[int]:
    tagged = True
    if at < end and data[at] == 1 << 3 | _BYTES:
        length, at = _length(data, at + 1, end)
        end = min(end, at + length)
        tagged = False
    found = []
    while at < end:
        if tagged:
            if data[at] != 1 << 3 | _VARINT:
                raise _Bad
            at += 1
        value, at = _varint(data, at, end)
        found.append(value - (1 << 64) if value >> 63 else value)
    return found


_READERS: dict[str, Callable[[bytes, int, int], list[Any]]] = {
    "string": _texts,
    "float32": _floats,
    "int64": _integers,
}


# -- what becomes of the values ----------------------------------------------------------------------------------------
def dense(lists: Lists, feature: Feature) -> Array:
    """`[B, *shape]` of a dense feature, `[B, most, *shape]` of one of steps, `[B, width]` of a padded one."""
    num_rows = len(lists.offsets) - 1
    if feature.kind == "dense":
        return lists.values.reshape(num_rows, *feature.shape)
    lengths = np.diff(lists.offsets)
    width = feature.size
    trailing = feature.shape
    if feature.kind == "steps":
        width = int(lengths.max(initial=0))
        trailing = (width // feature.size, *feature.shape)
    out = np.empty((num_rows, width), lists.values.dtype)
    out[...] = feature.fill
    out[np.arange(width) < lengths[:, None]] = lists.values
    return out.reshape(num_rows, *trailing)


def indices(lists: Lists) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The index matrix (row, position in the row) of a sparse feature, and its dense shape. Shapes: [N, 2], [2]."""
    lengths = np.diff(lists.offsets)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    positions = np.arange(len(lists.values)) - lists.offsets[rows]
    shape = np.array([len(lengths), lengths.max(initial=0)], np.int64)
    return np.stack([rows, positions], axis=1).astype(np.int64), shape
