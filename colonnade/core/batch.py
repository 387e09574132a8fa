"""One packed batch: the values of all fields that columns read, one buffer a dtype, strings in Arrow's layout.

Legend: B batch rows. Field f of dtype t holds `width` elements a row; its elements lie at
`buffers[t][B * start : B * (start + width)]`, row-major, so that places do not depend on the batch size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.core.dims import Dim


@dataclass(frozen=True, slots=True)
class Place:
    """Where a field lies in the buffer of its dtype. Units: elements a batch row."""

    dtype: str
    start: int
    width: int


@dataclass(frozen=True)
class Layout:
    """The places of all fields that share one batch symbol, and the row width of each dtype's buffer."""

    rows: Dim
    places: Mapping[str, Place]
    widths: Mapping[str, int]


@dataclass(frozen=True)
class Packed:
    """The fields of one request.

    buffers: dtype -> contiguous 1-D array of `B * widths[dtype]` elements.
    string_data, string_offsets: Arrow's large_binary layout of all string fields: element e is
    `string_data[string_offsets[e] : string_offsets[e + 1]]`.
    Facts: `string_offsets` is int64, nondecreasing, has B * widths["string"] + 1 entries; never written to.
    """

    rows: int
    buffers: Mapping[str, npt.NDArray[Any]]
    string_data: npt.NDArray[np.uint8]
    string_offsets: npt.NDArray[np.int64]
