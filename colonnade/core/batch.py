"""One packed batch: the values of all fields that columns read, one buffer a dtype, strings in Arrow's layout.

Legend: B batch rows, N elements of a ragged field. Dense field f of dtype t holds `width` elements a row; its elements
lie at `buffers[t][B * start : B * (start + width)]`, row-major, so that places do not depend on the batch size. The
elements of a ragged field are an array of their own: those of row b are `ragged[f][offsets[o][b] : offsets[o][b + 1]]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.core.dims import Dim
from colonnade.core.strings import Strings


@dataclass(frozen=True, slots=True)
class Place:
    """Where a field lies in the buffer of its dtype. Units: elements a batch row."""

    dtype: str
    start: int
    width: int


@dataclass(frozen=True, slots=True)
class RaggedPlace:
    """A field whose rows differ in length. offsets: the input that says where each row begins; fields may share it."""

    dtype: str
    offsets: str


@dataclass(frozen=True)
class Layout:
    """All fields that share one batch symbol.

    places: of the dense fields.   widths: the row width of each dtype's buffer.   ragged: the ragged fields.
    """

    rows: Dim
    places: Mapping[str, Place]
    widths: Mapping[str, int]
    ragged: Mapping[str, RaggedPlace] = field(default_factory=dict)

    @property
    def fields(self) -> frozenset[str]:
        """The names of all fields, dense and ragged."""
        return frozenset(self.places) | frozenset(self.ragged)

    def offsets_of(self, name: str) -> str | None:
        """The input that holds a field's offsets; None for a dense field."""
        return None if name in self.places else self.ragged[name].offsets

    def dtype_of(self, name: str) -> str:
        """The dtype of a field's elements."""
        return self.places[name].dtype if name in self.places else self.ragged[name].dtype


@dataclass(frozen=True, eq=False, slots=True)
class Located:
    """Where the ragged fields of a batch lie, for a backend that reads them by address.

    fields, offsets: the names of the fields, and of the inputs that hold their offsets.
    words: the address of each offsets input; then two a field: of its values, or of its strings' offsets, and of their
    bytes.   totals: the number of elements that each offsets input ends at.
    """

    fields: tuple[str, ...]
    offsets: tuple[str, ...]
    words: npt.NDArray[np.int64]
    totals: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Packed:
    """The fields of one request.

    buffers: dtype -> contiguous 1-D array of `B * widths[dtype]` elements.
    string_data, string_offsets: Arrow's large_binary layout of all string fields: element e is
    `string_data[string_offsets[e] : string_offsets[e + 1]]`.
    ragged: field -> its N elements.   offsets: offsets input -> B + 1 positions, which begin at 0, never decrease and
    end at N of every field that has them.   located: the same in addresses, where the maker knows them.
    Facts: `string_offsets` is int64, nondecreasing, has B * widths["string"] + 1 entries; nothing is ever written to.
    """

    rows: int
    buffers: Mapping[str, npt.NDArray[Any]]
    string_data: npt.NDArray[np.uint8]
    string_offsets: npt.NDArray[np.int64]
    ragged: Mapping[str, npt.NDArray[Any] | Strings] = field(default_factory=dict)
    offsets: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    located: Located | None = None
