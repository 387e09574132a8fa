"""The inputs of a request that are the elements of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from colonnade.backends.feed_values import Unusual
from colonnade.backends.sizes import ShapeBinder
from colonnade.ir.program import Program


class ElementInputs:
    """Adds them to a request: the values of an input row-major, without a copy where they lie side by side."""

    def __init__(self, program: Program) -> None:
        self._items = tuple(
            (i.name, i.of, ShapeBinder(program.input(i.of).shape)) for i in program.inputs if i.of is not None
        )
        self.names = frozenset(name for name, _, _ in self._items)
        self.sources = frozenset(of for _, of, _ in self._items)

    def __bool__(self) -> bool:
        return bool(self._items)

    def added(self, feed: Mapping[str, Any], sizes: dict[str, int]) -> Mapping[str, Any]:
        """The request with them; the dims of what they are made of go to `sizes`. Raises where anything is unusual."""
        if not self._items:
            return feed
        found = dict(feed)
        for name, of, binder in self._items:
            value = feed[of]
            if isinstance(value, pa.Array):
                found[name], shape = _flat(value)
            elif isinstance(value, np.ndarray | torch.Tensor):
                found[name], shape = value.reshape(-1), tuple(value.shape)
            else:
                raise Unusual(of)
            if not binder.bind(shape, sizes):
                raise Unusual(of)
        return found


def _flat(array: pa.Array) -> tuple[pa.Array, tuple[int, ...]]:
    shape = [len(array)]
    while pa.types.is_fixed_size_list(array.type) and not array.null_count:
        shape.append(array.type.list_size)
        array = array.flatten()
    return array, tuple(shape)
