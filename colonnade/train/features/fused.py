"""The transform on the CPU: all features of a batch in one call of the compiled engine.

Legend: B batch rows, F features.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.cpu import transform as t
from colonnade.backends.cpu.cache import ENGINE
from colonnade.backends.cpu.transform_code import TRANSFORM
from colonnade.backends.cpu.transform_plan import Plan, Wanted, make_plan
from colonnade.backends.memory import address_of
from colonnade.core.eager import uncompiled
from colonnade.core.expr import Apply
from colonnade.core.fork import in_one_thread
from colonnade.core.ragged import Ragged
from colonnade.errors import ConsistencyError
from colonnade.frontends.feature import Feature
from colonnade.frontends.feature_set import FeatureSet, Known
from colonnade.ops.cast import BOUNDS, Cast
from colonnade.train.compiled import LOOPS
from colonnade.train.features.placed import Placed, Placer
from colonnade.train.features.reference import ReferenceTransform
from colonnade.train.features.transformed import LookedUp, Transformed, views_of
from colonnade.train.ids import PackedIds, check_count
from colonnade.train.loops import join

Array = npt.NDArray[Any]
R = TypeVar("R")

LEAST_ROOM = 1 << 12
SLACK = 1.125
"""How much more room than the largest batch so far needed."""


@dataclass
class _Room:
    """Memory that no result refers to, used by one call at a time, and the sizes of all arenas. Units: bytes."""

    sizes: list[int] = field(default_factory=lambda: [LEAST_ROOM] * t.NUM_ARENAS)
    temp: Array = field(default_factory=lambda: np.empty(LEAST_ROOM, np.uint8))


@dataclass(frozen=True)
class _Found:
    """A finished call. words: of the features' values.   ids: of all features."""

    placed: Placed
    arenas: list[Array]
    used: list[int]
    words: npt.NDArray[np.int64]
    ids: torch.Tensor


class FusedTransform:
    """What `ReferenceTransform` gives, by one call of the engine. Facts: any thread may use it at any time."""

    def __init__(self, features: FeatureSet) -> None:
        self.features = features
        self._known = [features.known(f.expr) for f in features.features]
        compiled = ENGINE.warm()
        self._run = TRANSFORM.warm().run
        wanted = [_wanted(f, k) for f, k in zip(features.features, self._known, strict=True)]
        self._arenas = np.array([w.arena for w in wanted], np.int64)
        self._orders = [int((self._arenas[:k] == a).sum()) for k, a in enumerate(self._arenas)]
        self._levels = np.array([k.rows.levels for k in self._known], np.int64)
        self._is_weighted = np.array([k.weighted for k in self._known], np.bool_)
        self._loops = LOOPS.warm()
        self._widths = [k.rows.width or 0 for k in self._known]
        self._specs = features.read
        dtypes = {s.name: s.dtype for s in self._specs}
        self.plan = make_plan(wanted, dtypes, lambda e: features.known(e).elements.dtype, compiled.tiles)
        self._numbers = {name: k for k, name in enumerate(self.plan.fields)}
        self._results = np.array(self.plan.results, np.int64)
        self._rooms: list[_Room] = []
        self._placer = Placer(self._specs, self.plan.num_values)

    @uncompiled
    @in_one_thread
    def __call__(self, batch: Mapping[str, Any]) -> Transformed:
        """All features of a batch. Errors: FeedError that lists every field that does not fit; ShapeError."""
        return self._run_with(batch, lambda found: self._result(found, range(len(self._arenas))))

    @uncompiled
    @in_one_thread
    def packed(self, batch: Mapping[str, Any], looked_up: LookedUp) -> tuple[PackedIds, Transformed]:
        """The ids of embedded features as they are looked up, and what else is wanted of the batch.

        Errors: FeedError that lists every field that does not fit, or ids that are too many; ShapeError.
        """
        return self._run_with(
            batch, lambda found: (self._packed(found, looked_up), self._result(found, looked_up.wanted))
        )

    def _run_with(self, batch: Mapping[str, Any], result: Callable[[_Found], R]) -> R:
        placed = self._placer.place(batch)
        try:
            room = self._rooms.pop()
        except IndexError:
            room = _Room()
        try:
            return result(self._transform(batch, placed, room))
        finally:
            self._rooms.append(room)

    # --- the call ---------------------------------------------------------------------------------------------------
    def _transform(self, batch: Mapping[str, Any], placed: Placed, room: _Room) -> _Found:
        while True:
            context, arenas = self._context(placed, room)
            code = self._run(context.ctypes.data)
            used = context[t.ARENAS // 8 :].reshape(t.NUM_ARENAS, 3)[:, t.USED // 8].tolist()
            if code == t.DONE:
                break
            if code != t.FULL:
                self._refuse(batch)
            room.sizes = [_grown(size, u) for size, u in zip(room.sizes, used, strict=True)]
            room.temp = np.empty(room.sizes[t.TEMP], np.uint8)
        ids = torch.from_numpy(arenas[t.IDS][: used[t.IDS]].view(np.int64))
        return _Found(placed, arenas, used, placed.words[self._results], ids)

    def _context(self, placed: Placed, room: _Room) -> tuple[npt.NDArray[np.int64], list[Array]]:
        context = np.zeros(t.CONTEXT_BYTES // 8, np.int64)
        arenas = [room.temp if k == t.TEMP else np.empty(size, np.uint8) for k, size in enumerate(room.sizes)]
        context[t.NODES // 8] = address_of(self.plan.nodes)
        context[t.NUM_NODES // 8] = len(self.plan.nodes)
        context[t.FIELDS // 8] = len(self._specs)
        context[t.FIRST_VALUE // 8] = address_of(placed.words)
        context[t.ROWS // 8] = placed.rows
        for k, arena in enumerate(arenas):
            at = (t.ARENAS + t.ARENA_BYTES * k) // 8
            context[at : at + 2] = address_of(arena), arena.size
        return context, arenas

    def _refuse(self, batch: Mapping[str, Any]) -> None:
        """Raise what is wrong with a batch, as the reference finds it."""
        ReferenceTransform(self.features)(batch)
        raise ConsistencyError(
            "the engine refuses a batch that fits its fields",
            got="offsets that do not fit, or rows that differ",
            want="arrays that nobody writes to before the call has returned",
        )

    # --- the result -------------------------------------------------------------------------------------------------
    def _result(self, found: _Found, which: Iterable[int]) -> Transformed:
        placed, arenas, which = found.placed, found.arenas, list(which)
        wanted = {self._arenas[k] for k in which}
        flats = {t.IDS: found.ids, t.DENSE: torch.from_numpy(arenas[t.DENSE][: found.used[t.DENSE]].view(np.float32))}
        parts = {
            arena: views_of(flat, found.words[self._arenas == arena, t.COUNT // 8].tolist())
            for arena, flat in flats.items()
            if arena in wanted
        }
        reader = _Reader(self, placed, arenas)
        sparse: dict[str, Ragged] = {}
        dense: dict[str, torch.Tensor] = {}
        for k, row in zip(which, found.words[which].tolist(), strict=True):
            name, arena, known = self.features.features[k].name, self._arenas[k], self._known[k]
            if arena == t.DENSE:
                dense[name] = parts[arena][self._orders[k]].view(placed.rows, self._widths[k])
                continue
            is_id = arena == t.IDS
            values = parts[arena][self._orders[k]] if is_id else reader.values(known.elements.dtype, row)
            sparse[name] = reader.rows(self.plan.results[k], known, row, values)
        return Transformed(placed.rows, sparse, dense, found.ids)

    def _packed(self, found: _Found, looked_up: LookedUp) -> PackedIds:
        check_count(len(found.ids))
        numbers, rows = looked_up.numbers, found.placed.rows
        words, starts = found.words[numbers], self._starts(found.words[:, t.COUNT // 8])[numbers]
        given = np.zeros((len(numbers), join.JOIN_BYTES // 8), np.int64)
        given[:, join.INNER // 8] = words[:, t.INNER // 8]
        given[:, join.OUTER // 8] = np.where(self._levels[numbers] == 2, words[:, t.OUTER // 8], 0)
        given[:, join.START // 8], given[:, join.COUNT // 8] = starts, words[:, t.COUNT // 8]
        given[:, join.WEIGHTS // 8] = np.where(self._is_weighted[numbers], words[:, t.WEIGHTS // 8], 0)
        offsets = torch.empty(len(numbers), rows + 1, dtype=torch.int64)
        weighted = self._is_weighted[numbers]
        weights = torch.empty(len(found.ids), dtype=torch.float32) if weighted.any() else None
        at = 0 if weights is None else weights.data_ptr()
        self._loops["join"](address_of(given), len(given), rows, offsets.data_ptr(), at)
        reader = _Reader(self, found.placed, found.arenas)
        lists = {f: reader.inner_of(words[f].tolist()) + int(starts[f]) for f in looked_up.lists}
        return PackedIds(found.ids, offsets, weights, tuple(weighted.tolist()), lists)

    def _starts(self, counts: Array) -> Array:
        """Where the ids of each feature begin among all; of features without ids, anywhere."""
        own = np.where(self._arenas == t.IDS, counts, 0)
        starts: Array = np.cumsum(own) - own
        return starts


def _grown(size: int, used: int) -> int:
    """The size of an arena that was too small, in whole words; others stay."""
    return size if used <= size else -(-max(2 * size, int(SLACK * used)) // 64) * 64


class _Reader:
    """Values of a finished call as tensors."""

    def __init__(self, owner: FusedTransform, placed: Placed, arenas: list[Array]) -> None:
        self._plan: Plan = owner.plan
        self._numbers = owner._numbers
        self._placed = placed
        self._arenas = arenas
        self._offsets = torch.from_numpy(arenas[t.OFFSETS].view(np.int64))
        self._weights = torch.from_numpy(arenas[t.FACTORS].view(np.float32))
        self._bases = [address_of(a) for a in arenas]

    def rows(self, number: int, known: Known, row: list[int], values: Any) -> Ragged:
        """A value with its offsets and weights: those of a field, or its own."""
        field_name, weights_name = self._plan.rows_of[number], self._plan.weights_of[number]
        if field_name is not None:
            offsets = self._placed.fields[self._numbers[field_name]].offsets
        else:
            offsets = (self._inner(row[t.INNER // 8], row[t.BAGS // 8] + 1),)
            if known.rows.levels == 2:
                offsets = (self._outer(row[t.OUTER // 8]), *offsets)
        if not known.weighted:
            return Ragged(values, offsets)
        if weights_name is not None:
            return Ragged(values, offsets, self._placed.fields[self._numbers[weights_name]].weights)
        at = (row[t.WEIGHTS // 8] - self._bases[t.FACTORS]) // 4
        return Ragged(values, offsets, self._weights[at : at + row[t.COUNT // 8]])

    def inner_of(self, row: list[int]) -> torch.Tensor:
        """The offsets of a value's lists."""
        for x in self._placed.fields.given.values():
            if len(x.offsets) == 2 and x.offsets[1].data_ptr() == row[t.INNER // 8]:
                return x.offsets[1]
        return self._inner(row[t.INNER // 8], row[t.BAGS // 8] + 1)

    def _inner(self, address: int, count: int) -> torch.Tensor:
        at = (address - self._bases[t.OFFSETS]) // 8
        return self._offsets[at : at + count]

    def _outer(self, address: int) -> torch.Tensor:
        for x in self._placed.fields.given.values():
            if len(x.offsets) == 2 and x.offsets[0].data_ptr() == address:
                return x.offsets[0]
        return self._inner(address, self._placed.rows + 1)

    def values(self, dtype: str, row: list[int]) -> Any:
        """A copy of the elements of a value that lies in memory of no result."""
        count, at = row[t.COUNT // 8], row[t.DATA // 8] - self._bases[t.TEMP]
        temp = self._arenas[t.TEMP]
        if dtype != "string":
            size = count * np.dtype(dtype).itemsize
            return torch.from_numpy(temp[at : at + size].view(dtype).copy())
        pairs = temp[at : at + 16 * count].view(np.int64).reshape(-1, 2).tolist()
        texts = np.empty(count, object)
        texts[:] = [ctypes.string_at(address, length) for address, length in pairs]
        return texts


def _wanted(feature: Feature, known: Known) -> Wanted:
    """What the engine is to compute for a feature, and where."""
    dtype = known.elements.dtype
    if feature.is_dense:
        return Wanted(feature.expr if dtype == "float32" else Apply(Cast("float32"), feature.expr), t.DENSE)
    return Wanted(feature.expr, t.IDS if dtype in BOUNDS else t.TEMP)
