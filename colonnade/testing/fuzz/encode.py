"""A request as it is asked: serialized Examples, parts of sparse and ragged tensors, rows of one open width."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.testing.fuzz.cases import Input, Model
from colonnade.testing.models.examples import encode_example
from colonnade.testing.requests import Request

Array = NDArray[Any]

EXAMPLES = "examples"
LISTS = ("sparse", "ragged", "nested")
"""Forms of inputs that have any number of values a row."""
PART = 3
"""Values of each inner row of a `nested` one; the last has fewer, and now and then one is empty."""


def listed(model: Model) -> dict[str, str]:
    """The inputs that have any number of values a row, each with the one whose number of values it has."""
    found = {i.name: i.name for i in model.inputs if i.form in LISTS}
    if model.style == "examples":
        found = {i.name: i.name for i in model.inputs if not i.dtype.startswith("float")}
    return found | {c.weights: c.input for c in model.cases if c.weights and c.input in found}


def encoded(model: Model, request: Request) -> Request:
    """The request as it is asked, each list cut somewhere.

    Facts: how many values a row of a list has depends on that row alone; an open width on the request's name.
    """
    if model.serialized:
        rows = np.empty(request.rows, object)
        rows[:] = [_example(model, request, row) for row in range(request.rows)]
        return Request(request.name, request.rows, {EXAMPLES: rows})
    feed: dict[str, Array] = {}
    lists = listed(model)
    request = _weighed(model, request)
    for item in model.inputs:
        values = request.feed[item.name]
        if item.name in lists:
            feed |= _parts(item, values, [_length(model, lists[item.name], request, r) for r in range(request.rows)])
        else:
            feed[item.name] = values[:, : _open(item, request)] if item.form == "open" else values
    return Request(request.name, request.rows, feed)


def _weighed(model: Model, request: Request) -> Request:
    """With a weight of 0 where a dense input of a feature column lacks an id, and only there."""
    feed = dict(request.feed)
    for case in model.cases:
        if case.weights and model.style == "columns" and case.input not in listed(model):
            ids, weights = feed[case.input], feed[case.weights]
            present = ids != (b"" if ids.dtype == object else -1)
            feed[case.weights] = np.where(present, np.where(weights == 0, 1, weights), 0).astype(weights.dtype)
    return Request(request.name, request.rows, feed)


def _open(item: Input, request: Request) -> int:
    return zlib.crc32(request.name.encode()) % (item.width + 1)


def _parts(item: Input, values: Array, lengths: list[int]) -> dict[str, Array]:
    """The tensors that a sparse or a ragged one consists of, by the keys of a signature."""
    kept = np.arange(item.width) < np.array(lengths, np.int64).reshape(-1, 1)
    if item.form == "weights":
        return {item.name: values[kept]}
    if item.form == "ragged":
        return {item.name: values[kept], f"{item.name}.row_splits": np.cumsum([0, *lengths])}
    if item.form == "nested":
        parts = [_cut(length) for length in lengths]
        inner = np.cumsum([0, *(n for row in parts for n in row)])
        outer = np.cumsum([0, *map(len, parts)])
        return {item.name: values[kept], f"{item.name}.row_splits": outer, f"{item.name}.row_splits_1": inner}
    shape = np.array([len(lengths), max(lengths, default=0)], np.int64)
    indices = np.argwhere(kept).astype(np.int64).reshape(-1, 2)
    return {item.name: values[kept], f"{item.name}.indices": indices, f"{item.name}.dense_shape": shape}


def _cut(length: int) -> list[int]:
    """Lengths of inner rows: an empty one first where there is an odd number of values."""
    parts = [min(PART, length - at) for at in range(0, length, PART)]
    return [0, *parts] if length % 2 else parts


def _example(model: Model, request: Request, row: int) -> bytes:
    found: dict[str, tuple[str, Any]] = {}
    lists = listed(model)
    for item in model.inputs:
        values = request.feed[item.name][row]
        if item.name in lists:
            values = values[: _length(model, lists[item.name], request, row)]
        if len(values) or item.name not in lists:
            found[item.name] = (item.dtype, values)
    return encode_example(found)


def _length(model: Model, name: str, request: Request, row: int) -> int:
    """How many values a row has: none, but for lookups that leave out empty rows at the end of a batch."""
    values = request.feed[name][row]
    least = int(any(c.form == "raw" for c in model.of_input(name)))
    return least + zlib.crc32(repr(values.tolist()).encode()) % (len(values) + 1 - least)
