"""Where the fields of a batch lie in the memory of their tensors and arrays.

Legend: B batch rows, F fields.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.cpu import transform as t
from colonnade.backends.feed_values import Unusual
from colonnade.backends.memory import address_of
from colonnade.core.objects import gather_arrays, prepare
from colonnade.core.ragged import Ragged
from colonnade.core.stored import is_stored
from colonnade.core.strings import Strings
from colonnade.frontends.feature import FieldSpec
from colonnade.frontends.feature_set import READ_AS
from colonnade.train.features.batch import lies_here, read, wants_gradient

Array = npt.NDArray[Any]

TORCH = {
    "int32": torch.int32,
    "int64": torch.int64,
    "float32": torch.float32,
    "float64": torch.float64,
    "bool": torch.bool,
}
NUMPY = {name: np.dtype(name) for name in TORCH}
LOADS = {torch.int32: t.LOAD_INT32, torch.bool: t.LOAD_BOOL}
NUMPY_LOADS = {np.dtype(np.int32): t.LOAD_INT32, np.dtype(np.bool_): t.LOAD_BOOL}
AS_THEY_ARE = ("int64", "float32", "float64")
FEWEST = 8
"""So many dense fields of one kind are worth a loop of their own."""


MOST_ENDS = 64


class Ends:
    """Offsets of rows of one width, int64 [rows + 1] on a device; a few are kept."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self._device = device
        self._kept: dict[tuple[int, int], torch.Tensor] = {}

    def __call__(self, rows: int, width: int) -> torch.Tensor:
        found = self._kept.get((rows, width))
        if found is None:
            if len(self._kept) > MOST_ENDS:
                self._kept.clear()
            found = self._kept[rows, width] = torch.arange(rows + 1, device=self._device) * width
        return found


@dataclass(frozen=True)
class _Run:
    """Dense fields of one dtype and width. numbers: int64, which ones."""

    numbers: npt.NDArray[np.int64]
    get: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    dtype: str
    width: int


class Fields(Sequence[Ragged]):
    """Every field of a batch as `Ragged`, in the plan's order. Facts: a dense one among many is made when asked for.

    given: by number, those that are no part of a run.   runs: of each run its fields side by side, and their offsets.
    places: of every field, its run and its place there.
    """

    def __init__(
        self,
        given: Mapping[int, Ragged],
        runs: Sequence[tuple[Array, torch.Tensor] | None],
        places: Sequence[tuple[int, int]],
    ) -> None:
        self.given, self._runs, self._places = given, runs, places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, k: int) -> Ragged: ...

    @overload
    def __getitem__(self, k: slice) -> list[Ragged]: ...

    def __getitem__(self, k: int | slice) -> Ragged | list[Ragged]:
        if isinstance(k, slice):
            return [self[i] for i in range(len(self))[k]]
        if k in self.given:
            return self.given[k]
        run, place = self._places[k]  # past the last: an IndexError, which ends a loop
        found = self._runs[run]
        assert found is not None, k
        return Ragged(found[0][place], (found[1],))


@dataclass(frozen=True)
class Placed:
    """A batch as words. alive: what addresses point into."""

    words: npt.NDArray[np.int64]
    rows: int
    fields: Fields
    alive: list[Any]


class Placer:
    """Places batches of some fields. num_values: rows of the words, of which the first F are the fields'."""

    def __init__(self, specs: Sequence[FieldSpec], num_values: int) -> None:
        self.specs = tuple(specs)
        self.num_values = num_values
        self._ends_of = Ends()
        self._dummy = np.zeros(8, np.int64)
        self._runs = _runs(self.specs)
        self._places = [(-1, -1)] * len(self.specs)
        for number, run in enumerate(self._runs):
            for place, k in enumerate(run.numbers.tolist()):
                self._places[k] = number, place
        self._alone = [k for k, (run, _) in enumerate(self._places) if run < 0]
        prepare()

    def place(self, batch: Mapping[str, Any]) -> Placed:
        """Where everything lies. Errors: FeedError that lists every field that does not fit."""
        try:
            return self._place(batch)
        except Unusual:
            fields, _ = read(batch, self.specs)
            return self._place(fields, was_read=True)

    def _place(self, batch: Mapping[str, Any], was_read: bool = False) -> Placed:
        """Where everything lies. was_read: the batch is what `read` gives, of which narrow numbers are int64."""
        words = np.zeros((self.num_values, t.VALUE_BYTES // 8), np.int64)
        given: dict[int, Ragged] = {}
        alive: list[Any] = []
        runs = [self._run(run, batch, words) for run in self._runs]
        rows = {len(found[1]) - 1 for found in runs if found is not None}
        others = list(self._alone)
        for run, found in zip(self._runs, runs, strict=True):
            if found is None:
                others += run.numbers.tolist()
            else:
                alive.append(found[0])
        table = words[others].tolist()
        for k, row in zip(others, table, strict=True):
            spec = self.specs[k]
            value = batch.get(spec.name)
            if not was_read and not _can_be_placed(value):
                raise Unusual
            if not isinstance(value, Ragged):
                value = self._dense(value, spec)
            self._words(value, spec, row, alive, was_read)
            rows.add(value.rows)
            given[k] = value
        if others:
            words[others] = table
        if len(rows) > 1:
            raise Unusual
        return Placed(words, next(iter(rows), 0), Fields(given, runs, self._places), alive)

    def _run(self, run: _Run, batch: Mapping[str, Any], words: Array) -> tuple[Array, torch.Tensor] | None:
        """Place a run's fields side by side: these, and their offsets; None where they are no arrays of one shape."""
        try:
            values = run.get(batch)
        except KeyError:
            raise Unusual from None
        first = values[0]
        if type(first) is not np.ndarray or first.ndim not in (1, 2) or (run.width > 1 and first.ndim == 1):
            return None
        rows: int = len(first)
        width = run.width
        out = np.empty((len(values), rows * width), run.dtype)
        if first.shape[1:] not in ((), (width,)) or not gather_arrays(values, first.shape, out.reshape(-1)):
            return None
        ends = self._ends_of(rows, width)
        words[run.numbers, t.INNER // 8], words[run.numbers, t.BAGS // 8] = ends.data_ptr(), rows
        words[run.numbers, t.COUNT // 8] = rows * width
        words[run.numbers, t.DATA // 8] = address_of(out) + out.strides[0] * np.arange(len(values))
        words[run.numbers, t.LOAD // 8] = t.LOAD_DIRECT
        return out, ends

    def _dense(self, value: Any, spec: FieldSpec) -> Ragged:
        """A dense field with the offsets that all of its width share."""
        if spec.ragged or spec.weighted:
            raise Unusual
        if isinstance(value, Strings):
            rows, rest = divmod(len(value), spec.width)
        elif isinstance(value, np.ndarray | torch.Tensor) and value.ndim in (1, 2):
            rows, rest = value.shape[0], (value.shape[1] if value.ndim == 2 else 1) - spec.width
        else:
            raise Unusual
        if rest:
            raise Unusual
        if isinstance(value, np.ndarray) and value.dtype.kind == "O":
            texts = Strings.from_arrays((value,), value.shape) if spec.dtype == "string" else None
            if texts is None:
                raise Unusual
            value = texts
        return Ragged(value, (self._ends_of(rows, spec.width),))

    def _words(self, value: Ragged, spec: FieldSpec, row: list[int], alive: list[Any], was_read: bool) -> None:
        """Write the words of a field."""
        offsets, values, weights = value.offsets, value.values, value.weights
        if len(offsets) != (spec.ragged or 1) or (weights is not None) != spec.weighted:
            raise Unusual
        for ends in offsets:
            if not _is_here(ends) or ends.dtype != torch.int64 or ends.dim() != 1:
                raise Unusual
            if not ends.is_contiguous() or len(ends) == 0:
                raise Unusual
        ends = offsets[0]
        if not spec.ragged and not torch.equal(ends, self._ends_of(len(ends) - 1, spec.width)):
            raise Unusual
        row[t.INNER // 8] = offsets[-1].data_ptr()
        row[t.BAGS // 8] = len(offsets[-1]) - 1
        if len(offsets) == 2:
            row[t.OUTER // 8] = offsets[0].data_ptr()
        row[t.COUNT // 8] = count = self._elements(values, spec, row, was_read)
        if weights is not None:
            if not _is_here(weights) or weights.dtype != torch.float32 or weights.shape != (count,):
                raise Unusual
            if not weights.is_contiguous() or wants_gradient(weights):
                raise Unusual
            row[t.WEIGHTS // 8] = weights.data_ptr() or address_of(self._dummy)
        alive.append(value)

    def _elements(self, values: Any, spec: FieldSpec, row: list[int], was_read: bool) -> int:
        """Write where the elements lie; gives their number."""
        if isinstance(values, torch.Tensor):
            dtype = TORCH.get(READ_AS.get(spec.dtype, spec.dtype) if was_read else spec.dtype)
            if values.dtype is not dtype:
                raise Unusual
            if not _is_here(values) or not values.is_contiguous() or wants_gradient(values):
                raise Unusual
            row[t.DATA // 8] = values.data_ptr()
            row[t.LOAD // 8] = LOADS.get(values.dtype, t.LOAD_DIRECT)
            return values.numel()
        if isinstance(values, Strings) and spec.dtype == "string":
            row[t.DATA // 8], row[t.TEXT // 8] = address_of(values.offsets), address_of(values.data)
            row[t.LOAD // 8] = t.LOAD_STRING
            return len(values)
        if (
            type(values) is np.ndarray
            and spec.dtype in NUMPY  # of a dtype that is not: numpy takes None for float64
            and values.dtype == NUMPY[spec.dtype]
            and values.flags.c_contiguous
        ):
            row[t.DATA // 8] = address_of(values)
            row[t.LOAD // 8] = NUMPY_LOADS.get(values.dtype, t.LOAD_DIRECT)
            return values.size
        raise Unusual


def _can_be_placed(value: Any) -> bool:
    """Whether a field as it was given is, but for its dtype, what is placed by its address."""
    values = value.values if isinstance(value, Ragged) else value
    if isinstance(values, Strings):
        return values.is_sound
    return not isinstance(value, Ragged) or getattr(values, "ndim", 0) == 1


def _is_here(x: Any) -> bool:
    return lies_here(x) and is_stored(x)


def _runs(specs: Sequence[FieldSpec]) -> list[_Run]:
    plain = [k for k, s in enumerate(specs) if s.dtype in AS_THEY_ARE and not s.ragged and not s.weighted]

    def kind(k: int) -> tuple[str, int]:
        return specs[k].dtype, specs[k].width

    made = []
    for (dtype, width), group in itertools.groupby(sorted(plain, key=kind), kind):
        numbers = list(group)
        if len(numbers) >= FEWEST:
            get = operator.itemgetter(*(specs[k].name for k in numbers))
            made.append(_Run(np.array(numbers, np.int64), get, dtype, width))
    return made
