"""The serialized Examples of a request for a random model."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.testing.fuzz.cases import Model
from colonnade.testing.models.examples import encode_example
from colonnade.testing.requests import Request

EXAMPLES = "examples"


def listed(model: Model) -> dict[str, str]:
    """The inputs that have any number of values a row, each with the one whose number of values it has."""
    found = {i.name: i.name for i in model.inputs if not i.dtype.startswith("float")}
    return found | {c.weights: c.input for c in model.cases if c.weights}


def encoded(model: Model, request: Request) -> Request:
    """The request as it is asked: of a model of Examples, the rows serialized, each list cut somewhere.

    Facts: how many values a row of a list has depends on that row alone.
    """
    if model.style != "examples":
        return request
    rows = np.empty(request.rows, object)
    rows[:] = [_example(model, request, row) for row in range(request.rows)]
    return Request(request.name, request.rows, {EXAMPLES: rows})


def _example(model: Model, request: Request, row: int) -> bytes:
    found: dict[str, tuple[str, Any]] = {}
    lists = listed(model)
    for item in model.inputs:
        values = request.feed[item.name][row]
        if item.name in lists:
            values = values[: _length(request.feed[lists[item.name]][row])]
        if len(values) or item.name not in lists:
            found[item.name] = (item.dtype, values)
    return encode_example(found)


def _length(values: NDArray[Any]) -> int:
    return zlib.crc32(repr(values.tolist()).encode()) % (len(values) + 1)
