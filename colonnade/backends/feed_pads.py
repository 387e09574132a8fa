"""The inputs of a request that are rows of differing lengths, padded.

Legend: B rows, T places of each, N elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from colonnade.backends.feed_values import Unusual
from colonnade.core.rows import falls
from colonnade.core.strings import Strings
from colonnade.errors import FeedError
from colonnade.ir.program import Pad, Program

Array = npt.NDArray[Any]


class PaddedInputs:
    """Adds them to a request.

    made: the inputs that it adds.   sources: the inputs that they are made of.
    """

    def __init__(self, program: Program) -> None:
        self._pads = program.pads
        self.made = frozenset(p.name for p in self._pads)
        ragged = [i for i in program.inputs if i.offsets is not None]
        self._counts = tuple((i.offsets, str(i.shape[0])) for i in ragged)
        self._values = {i.offsets: i.name for i in ragged if i.name not in self.made}
        self.sources = frozenset(name for p in self._pads for name in (p.of, p.offsets, p.places) if name is not None)

    def added(self, feed: Mapping[str, Any], sizes: dict[str, int]) -> Mapping[str, Any]:
        """The request with them; what it tells of their sizes goes to `sizes`.

        Errors: FeedError where rows are not as wide as others that they are joined with. Raises where anything is
        unusual.
        """
        if not self._pads:
            return feed
        found = dict(feed)
        known: dict[tuple[str, str], _Places] = {}
        for pad in self._pads:
            key = (pad.offsets, str(pad.width))
            if key not in known:
                self._check_end(pad.offsets, feed)
                known[key] = _flat_places(pad, feed, sizes)
            found[pad.name] = _made(pad, feed, known[key])
        padded = {offsets: places.count for (offsets, _), places in known.items()}
        for offsets, symbol in self._counts:
            if offsets in padded and sizes.setdefault(symbol, padded[offsets]) != padded[offsets]:
                raise Unusual(offsets)
        return found

    def _check_end(self, offsets: str, feed: Mapping[str, Any]) -> None:
        """Before what they say is made: two numbers could ask for any memory."""
        values, ends = self._values.get(offsets), _vector(feed[offsets], offsets)
        if values is not None and len(ends) and ends[-1] != len(feed[values]):
            raise Unusual(offsets)


@dataclass(frozen=True)
class _Places:
    """Where elements lie among all places, row by row.

    at: of those that have a place.   kept: which these are; None: all.   count: of elements.   size: of places.
    """

    at: Array
    kept: Array | None
    count: int
    size: int


def _made(pad: Pad, feed: Mapping[str, Any], places: _Places) -> Any:
    if pad.what == "values":
        assert pad.of is not None and pad.fill is not None
        return _spread(feed[pad.of], places, pad.fill.array.reshape(()).item(), pad.of)
    if pad.what == "marks":
        marks = np.zeros(places.size, np.int64)
        marks[places.at] = 1
        return marks
    offsets = _vector(feed[pad.offsets], pad.offsets)
    lengths = np.diff(offsets)
    if pad.places is None:
        return lengths.astype(np.int64)
    ends = np.zeros(len(lengths), np.int64)
    filled = lengths > 0
    ends[filled] = _vector(feed[pad.places], pad.places)[offsets[1:][filled] - 1] + 1
    return ends


def _flat_places(pad: Pad, feed: Mapping[str, Any], sizes: dict[str, int]) -> _Places:
    """The place of each element among all, row by row."""
    offsets = _vector(feed[pad.offsets], pad.offsets)
    if len(offsets) == 0 or offsets[0] != 0 or falls(offsets).any():
        raise Unusual(pad.offsets)
    lengths = np.diff(offsets)
    longest = int(lengths.max(initial=0))
    if sizes.setdefault(str(pad.rows), len(lengths)) != len(lengths):
        raise Unusual(pad.offsets)
    width = pad.width if isinstance(pad.width, int) else sizes.setdefault(str(pad.width), longest)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    if pad.places is None:
        if width != longest and not isinstance(pad.width, int):
            raise FeedError(
                "rows that are joined place by place differ in width",
                where=f"input {pad.of or pad.offsets!r}",
                got=f"the longest row has {longest} elements",
                want=f"{width}, as in others",
            )
        places = np.arange(len(rows)) - offsets[:-1][rows]
    else:
        places = _vector(feed[pad.places], pad.places)
        if len(places) != len(rows):
            raise Unusual(pad.places)
    kept = np.flatnonzero(places < width) if isinstance(pad.width, int) else None
    at = rows * width + places
    return _Places(at if kept is None else at[kept], kept, len(rows), len(lengths) * width)


def _vector(value: Any, name: str) -> Array:
    array: Array = value.detach().numpy() if isinstance(value, torch.Tensor) else value
    if type(array) is not np.ndarray or array.ndim != 1 or array.dtype.kind != "i":
        raise Unusual(name)
    return array.astype(np.int64, copy=False)


def _spread(value: Any, where: _Places, fill: Any, name: str) -> Any:
    """Values in their places. Facts: places rise."""
    if len(value) != where.count:
        raise Unusual(name)
    places, size = where.at, where.size
    if isinstance(value, pa.Array) and where.kept is not None:
        value = value.take(pa.array(where.kept))
    if isinstance(value, pa.Array) and fill == b"":
        texts = Strings.from_arrow(value)
        lengths = np.zeros(size, np.int64)
        lengths[places] = np.diff(texts.offsets)
        ends = texts.offsets[0] + np.concatenate([[0], np.cumsum(lengths)])  # texts may begin anywhere in their bytes
        return Strings(texts.data, ends).to_arrow()
    if isinstance(value, torch.Tensor):
        return torch.from_numpy(_spread(value.detach().numpy(), where, fill, name))
    if type(value) is not np.ndarray or value.ndim != 1:
        raise Unusual(name)
    made = np.full(size, fill, value.dtype)
    made[places] = value if where.kept is None else value[where.kept]
    return made
