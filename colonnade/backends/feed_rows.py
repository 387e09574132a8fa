"""The keys of a request that say rows: read, checked, and made into the offsets that fields share.

Legend: B rows, N elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.backends.feed_values import Unfit, as_array, as_declared
from colonnade.core.rows import MOST_ROWS, Rows, rows_of_indices, rows_of_nested, rows_of_splits
from colonnade.errors import FeedError, listed
from colonnade.ir.program import Input, Program, RowKeys

Array = npt.NDArray[Any]


class RowReader:
    """Reads the keys of one program that say rows. Safe for concurrent callers: it holds no buffers."""

    def __init__(self, program: Program) -> None:
        self._keys = program.row_keys
        self._kept = frozenset(i.name for i in program.undecoded)
        self._others = {
            item.name: [i.name for i in program.undecoded if i.shape and i.shape[0] == item.rows] for item in self._keys
        }

    def fields(self, feed: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        """The request with offsets in the place of what says them, and the sizes that it tells.

        Facts: a request that has the offsets themselves says rows by them, and is left as it is.
        Errors: FeedError that lists every key that is missing or does not say rows.
        """
        found = dict(feed)
        sizes: dict[str, int] = {}
        problems: list[str] = []
        for item in self._keys:
            try:
                self._add(item, feed, found, sizes)
            except Unfit as error:
                problems.append(str(error))
        if problems:
            raise FeedError(
                f"the request does not say rows in {len(problems)} places",
                got=listed(problems),
                want=listed([_wanted(key) for item in self._keys for key in item.keys]),
                help="give the elements in the order of their rows (TensorFlow: tf.sparse.reorder), or give their "
                f"offsets: {', '.join(item.offsets for item in self._keys[:3])}",
            )
        return found, sizes

    def _add(self, item: RowKeys, feed: Mapping[str, Any], found: dict[str, Any], sizes: dict[str, int]) -> None:
        if item.offsets in feed:
            rows = self._given(item, feed)
        else:
            most = max([MOST_ROWS, *(_length(feed.get(name)) for name in self._others[item.name])])
            rows = _said(item, feed, most)
            found[item.offsets] = rows.offsets
        if item.places is not None:
            found[item.places] = _places(item, feed, rows)
        for key in item.keys:
            if key.name not in self._kept:
                found.pop(key.name, None)
        known = {str(item.rows): rows.num_rows, str(item.width): rows.width}
        if item.by == "indices":
            known[str(item.count)] = rows.num_elements
        elif item.outer is None:
            known[str(item.count)] = rows.num_rows + 1
        else:
            known[str(item.outer[1])] = rows.num_rows + 1
            if item.name in feed:
                known[str(item.count)] = len(feed[item.name])
        if item.elements is not None:
            known[str(item.elements)] = rows.num_elements
        for symbol, size in known.items():
            if sizes.setdefault(symbol, size) != size:
                raise Unfit(f"{item.name}: says {symbol} = {size}, others {sizes[symbol]}")

    def _given(self, item: RowKeys, feed: Mapping[str, Any]) -> Rows:
        """Offsets that a caller gives; what is wrong with them is said where they are read."""
        both = [key.name for key in item.keys if key.name in feed]
        if both:
            raise Unfit(f"{item.offsets}: given beside {', '.join(both)}")
        needed = [key.name for key in item.keys if key.name in self._kept]
        if needed:
            raise Unfit(f"{item.offsets}: given, but the model reads {', '.join(needed)}")
        offsets = as_array(feed[item.offsets], "int64")
        if offsets.ndim != 1 or len(offsets) == 0:
            return Rows(np.zeros(1, np.int64), 0)
        if item.elements is not None:
            return _checked(item.offsets, lambda: rows_of_splits(offsets, trimmed=False))
        return Rows(offsets, int(np.diff(offsets).max(initial=0)))


def _places(item: RowKeys, feed: Mapping[str, Any], rows: Rows) -> Array:
    """The place of each element in its row; where offsets are given, one by one."""
    if item.offsets in feed:
        return rows.indices()[:, 1].copy()
    return np.ascontiguousarray(_array(item.name, feed, "int64", (item.count, 2))[:, 1])


def _wanted(key: Input) -> str:
    return f"{key.name}: {key.dtype}[{', '.join(map(str, key.shape))}]"


def _length(value: Any) -> int:
    """How many rows a value has; 0 where it has none."""
    num_dims: int = getattr(value, "ndim", 1)
    return len(value) if isinstance(value, Sized) and num_dims else 0


def _said(item: RowKeys, feed: Mapping[str, Any], most: int) -> Rows:
    """most: rows, where there are fewer elements. Errors: Unfit."""
    arrays = {key.name: _array(key.name, feed, key.dtype, key.shape) for key in item.keys}
    first = arrays[item.name]
    if item.outer is not None:
        key = item.outer[0]
        outer = _checked(key, lambda: rows_of_splits(arrays[key], trimmed=False))
        inner = _checked(item.name, lambda: rows_of_splits(first, trimmed=False))
        return _checked(key, lambda: rows_of_nested(outer, inner, item.trimmed))
    if item.by == "splits":
        return _checked(item.name, lambda: rows_of_splits(first, item.trimmed))
    shape = None if item.shape is None else arrays[item.shape]
    return _checked(item.name, lambda: rows_of_indices(first, shape, item.strict, most))


def _checked(key: str, read: Callable[[], Rows]) -> Rows:
    """key: of the request, in messages.   Errors: Unfit where it does not say rows."""
    try:
        return read()
    except FeedError as error:
        raise Unfit(f"{key}: {error.message}: {error.got}, want {error.want}") from error


def _array(name: str, feed: Mapping[str, Any], dtype: str, shape: Sequence[Any]) -> Array:
    if name not in feed:
        raise Unfit(f"{name}: missing")
    try:
        array = as_declared(feed[name], dtype, shape)
    except Unfit as error:
        raise Unfit(f"{name}: {error}") from error
    if array.ndim != len(shape) or any(isinstance(d, int) and d != n for d, n in zip(shape, array.shape, strict=True)):
        raise Unfit(f"{name}: has the shape {list(array.shape)}, want [{', '.join(map(str, shape))}]")
    return array
