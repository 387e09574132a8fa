"""All columns of a program in one call of the compiled engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.cache import Compiled
from colonnade.backends.cpu.descriptor import Lowered
from colonnade.backends.cpu.scratch import ROW_TILE
from colonnade.backends.jobs import WORK
from colonnade.backends.memory import address_of
from colonnade.backends.pool import POOL
from colonnade.core.batch import Layout, Located, Packed
from colonnade.core.strings import Strings
from colonnade.errors import FeedError, IdRangeError, ShapeError, listed

Array = npt.NDArray[Any]

PARALLEL_NANOSECONDS = 200_000
"""Work below which helpers cost more than they give."""
STREAM_BYTES = 3 << 20
"""Outputs from this size on are stored past the caches: a plain store reads each line before it is overwritten."""
ITEMS_A_THREAD, ITEM_NANOSECONDS = 4, 20_000
"""Work is cut into so many items for each thread, but for smaller ones than this; never into fewer than threads."""
SMALL_TILE = 16
"""Rows of an item are a multiple of this where one column block has too few of whole tiles for all threads."""
_STRING_OFFSETS = (w.SOURCES + 8 * w.DTYPES.index("string")) // 8


class _Call:
    """The context of one call at a time; reused. threads: that have one of their own, where a tape calls the engine."""

    def __init__(self, lowered: Lowered, compiled: Compiled, errors: bool, threads: int = 1) -> None:
        words = -(-lowered.context.size // 64) * 8
        self._raw = np.zeros(threads * words + 8, np.int64)
        skip = -self._raw.ctypes.data % 64 // 8
        self.contexts = self._raw[skip : skip + threads * words].reshape(threads, words)
        array = self.contexts[0]
        array[w.BLOCKS // 8] = lowered.blocks.ctypes.data
        array[w.POLICY // 8] = int(errors)
        array[WORK // 8] = compiled.work
        array[w.UNITS // 8 :][: len(compiled.parts)] = compiled.parts
        self.array = array
        self.words = memoryview(array.data)
        self.address = int(array.ctypes.data)


@dataclass(frozen=True, eq=False, slots=True)
class _Places:
    """Where the addresses of located fields stand, and go to in a call's context.

    fields: the tuple of names that this holds for.   work: of an element of each offsets input. Units: nanoseconds.
    """

    fields: tuple[str, ...]
    words: Array
    sources: Array
    work: Array


class Begun:
    """A call that helpers may be at work on. Facts: `end` is to be called once, whatever else happens."""

    __slots__ = ("_alive", "_call", "_columns", "_has_helpers")

    def __init__(self, columns: CpuColumns, call: _Call, has_helpers: int, alive: object) -> None:
        self._columns, self._call, self._has_helpers, self._alive = columns, call, has_helpers, alive

    def end(self) -> int:
        """Do what is left of it; gives, and raises, what `run` does."""
        return self._columns.end(self._call, self._has_helpers)


class CpuColumns:
    """The columns of a program that share one batch symbol, as words. Facts: any thread may run it at any time."""

    def __init__(self, lowered: Lowered, layout: Layout, compiled: Compiled, id_policy: str, threads: int) -> None:
        self.layout = layout
        self._lowered = lowered
        self._errors = id_policy == "error"
        self._threads = threads
        self._compiled = compiled
        self._run = compiled.run
        self._calls: list[_Call] = [_Call(lowered, compiled, self._errors)]
        self._sources = [
            (dtype, np.dtype(dtype), (w.SOURCES + 8 * w.DTYPES.index(dtype)) // 8, layout.widths[dtype])
            for dtype in w.DTYPES
            if dtype in layout.widths and dtype != "string"
        ]
        self._strings = layout.widths.get("string")
        context = lowered.context
        self._outputs = [(name, context.output_word(name) // 8) for name in context.outputs]
        self._offsets = [(name, context.offsets_word(name) // 8) for name in context.offsets]
        self._ragged = [
            (name, np.dtype("int64" if place.dtype == "string" else place.dtype), place, context.ragged_word(name) // 8)
            for name, place in layout.ragged.items()
        ]
        self._places: _Places | None = None
        self._blocks = len(lowered.blocks)

    def run(self, packed: Packed, out: Mapping[str, Array]) -> int:
        """Write every slot of every buffer; gives the number of ids that the policy `zero` replaced.

        Shapes: out[buffer] is `[B, width]`, rows may be strided (last dim contiguous).
        Errors: IdRangeError naming column, row, value and bound, under the policy `error`; FeedError where the
        batch lies in memory that was changed meanwhile; ShapeError.
        """
        if packed.rows == 0 or self._blocks == 0:
            return 0
        call = self._call()
        try:
            self._place(packed, out, call)
            self._run(call.address, POOL.address, self._plan(packed, call.words))
            return self._outcome(call)
        finally:
            self._calls.append(call)

    def begin(self, packed: Packed, out: Mapping[str, Array]) -> Begun | None:
        """Let helpers do what `run` does, while the caller does something else; None where there is nothing to do.

        Errors: ShapeError.
        """
        if packed.rows == 0 or self._blocks == 0:
            return None
        call, begun = self._call(), None
        try:
            self._place(packed, out, call)
            has_helpers = self._compiled.begin(call.address, POOL.address, self._plan(packed, call.words))
            begun = Begun(self, call, has_helpers, (packed, out))
        finally:
            if begun is None:
                self._calls.append(call)
        return begun

    @property
    def output_words(self) -> dict[str, int]:
        """Where the address of each buffer lies in a context; its row stride follows. Units: bytes."""
        return {name: 8 * word for name, word in self._outputs}

    def led(self, strides: Mapping[str, int]) -> _Call:
        """Contexts for a tape that calls the engine, one a thread. strides: of the rows of each buffer, in bytes."""
        call = _Call(self._lowered, self._compiled, self._errors, self._threads)
        for name, word in self._outputs:
            call.words[word + 1] = strides[name]
        return call

    def place_led(self, packed: Packed, call: _Call) -> float:
        """Write the addresses of a batch into these; gives what its columns cost. Units: nanoseconds."""
        self._place_fields(packed, call)
        words = call.words
        words[w.BATCH // 8] = words[w.CHUNK_ROWS // 8] = packed.rows
        words[w.ITEMS // 8] = self._blocks
        words[w.CHUNKS // 8] = words[w.WORKERS // 8] = 1
        words[w.FAILED // 8] = words[w.ZEROED // 8] = 0
        call.contexts[1:] = call.array
        return self._work(packed) if self._threads > 1 else 0.0

    def end(self, call: _Call, has_helpers: int) -> int:
        """Do what is left of a call that was begun."""
        try:
            self._compiled.end(call.address, POOL.address, has_helpers)
            return self._outcome(call)
        finally:
            self._calls.append(call)

    def _call(self) -> _Call:
        try:
            return self._calls.pop()
        except IndexError:
            return _Call(self._lowered, self._compiled, self._errors)

    def _outcome(self, call: _Call) -> int:
        if call.words[w.FAILED // 8]:
            self._fail(call)
        zeroed: int = call.words[w.ZEROED // 8]
        return zeroed

    def _place(self, packed: Packed, out: Mapping[str, Array], call: _Call) -> None:
        """Write the addresses of a batch and of its outputs."""
        self._place_fields(packed, call)
        rows, words = packed.rows, call.words
        size = 0
        for name, word in self._outputs:
            target = out[name]
            stride, inner = target.strides
            if target.shape[0] != rows or (inner != 4 and target.shape[1] > 1) or target.dtype != np.float32:
                raise ShapeError("an output buffer of another form", where=name, got=f"{target.shape} {target.strides}")
            words[word] = address = address_of(target)
            words[word + 1] = stride
            size += rows * stride if not (address | stride) & 31 else 0
        words[w.STREAM // 8] = int(size > STREAM_BYTES and self._lowered.streams)

    def _place_fields(self, packed: Packed, call: _Call) -> None:
        """Write the addresses of a batch."""
        rows, buffers, words = packed.rows, packed.buffers, call.words
        for name, dtype, word, width in self._sources:
            source = buffers[name]
            if source.size < rows * width or not source.flags.c_contiguous or source.dtype != dtype:
                raise ShapeError("a packed buffer does not hold its fields", where=name, got=str(source.shape))
            words[word] = address_of(source)
        if self._strings is not None:
            if packed.string_offsets.size < rows * self._strings + 1:
                raise ShapeError("the packed strings do not hold their fields", got=str(packed.string_offsets.shape))
            words[_STRING_OFFSETS] = address_of(packed.string_offsets)
            words[w.STRING_DATA // 8] = address_of(packed.string_data)
        if packed.located is not None:
            places = self._places_in(packed.located)
            call.array[places.words] = packed.located.words[places.sources]
        elif self._ragged:
            self._place_ragged(packed, words)

    def _place_ragged(self, packed: Packed, words: memoryview) -> None:
        """Write the addresses of offsets and of ragged fields."""
        totals = {}
        for name, word in self._offsets:
            offsets = packed.offsets[name]
            if offsets.size != packed.rows + 1 or not offsets.flags.c_contiguous or offsets.dtype != np.int64:
                raise ShapeError("packed offsets do not fit the rows", where=name, got=str(offsets.shape))
            words[word] = address_of(offsets)
            totals[name] = int(offsets[-1])
        for name, dtype, place, word in self._ragged:
            values, more = packed.ragged[name], int(place.dtype == "string")
            if isinstance(values, Strings):
                array: Array = values.offsets
                words[word + 1] = address_of(values.data)
            else:
                array = values
            fits = array.dtype == dtype and isinstance(values, Strings) == bool(more)
            if not fits or array.size < totals[place.offsets] + more or not array.flags.c_contiguous:
                raise ShapeError(
                    "packed values do not fit their offsets", where=name, got=f"{array.dtype}[{array.size}]"
                )
            words[word] = address_of(array)

    def _places_in(self, located: Located) -> _Places:
        """Where what is read of located fields stands there."""
        if self._places is None or self._places.fields is not located.fields:
            first, context = len(located.offsets), self._lowered.context
            pairs = [(context.offsets_word(name), located.offsets.index(name)) for name in context.offsets]
            for name in context.ragged:
                word, source = context.ragged_word(name), first + 2 * located.fields.index(name)
                pairs += [(word, source), (word + 8, source + 1)]
            work = [self._lowered.element_work.get(name, 0) for name in located.offsets]
            words, sources = np.array(pairs, np.int64).reshape(-1, 2).T
            self._places = _Places(located.fields, words // 8, sources.copy(), np.array(work, np.float64))
        return self._places

    def _work(self, packed: Packed) -> float:
        """What a batch costs, roughly. Units: nanoseconds."""
        if packed.located is not None:
            work = self._places_in(packed.located).work
            return packed.rows * self._lowered.work + float(packed.located.totals @ work)
        elements = sum(int(packed.offsets[name][-1]) * each for name, each in self._lowered.element_work.items())
        return packed.rows * self._lowered.work + elements

    def _plan(self, packed: Packed, words: memoryview) -> int:
        """Cut the work into items; gives the number of helpers."""
        rows = chunk = packed.rows
        helpers, chunks = 0, 1
        work = self._work(packed) if self._threads > 1 else 0
        if work > PARALLEL_NANOSECONDS:
            helpers = POOL.helpers(self._threads - 1, self._compiled.helper)
            most = max(int(work / ITEM_NANOSECONDS), self._threads)
            chunks = max(1, -(-min(ITEMS_A_THREAD * self._threads, most) // self._blocks))
            chunk = -(-rows // chunks)
            chunk += -chunk % (ROW_TILE if chunk > ROW_TILE else SMALL_TILE)
            if not self._ragged:  # few rows may have many elements: parts of dense rows then may be empty
                chunks = -(-rows // chunk)
        words[w.BATCH // 8] = rows
        words[w.CHUNKS // 8] = chunks
        words[w.CHUNK_ROWS // 8] = chunk
        words[w.ITEMS // 8] = chunks * self._blocks
        words[w.WORKERS // 8] = helpers + 1
        words[w.NEXT // 8] = 0
        words[w.FAILED // 8] = 0
        words[w.ZEROED // 8] = 0
        return helpers

    def _fail(self, call: _Call) -> None:
        """Run once more, in order and with records, and raise."""
        columns, words = self._lowered.columns, call.words
        records = np.zeros((len(columns), w.ERROR_BYTES // 8), np.int64)
        words[w.CHUNKS // 8] = 1
        words[w.CHUNK_ROWS // 8] = words[w.BATCH // 8]
        words[w.ITEMS // 8] = self._blocks
        words[w.NEXT // 8] = 0
        words[w.ERRORS // 8] = records.ctypes.data
        try:
            self._run(call.address, POOL.address, 0)
        finally:
            words[w.ERRORS // 8] = 0
        bad = [
            (column, int(row), int(value), bound)
            for column, (seen, row, value, _), bound in zip(columns, records, self._lowered.bounds, strict=True)
            if seen
        ]
        if not bad:
            raise FeedError(
                "the request was changed while it was answered",
                got="ids outside their tables, and none when they were read again",
                want="arrays that nobody writes to before the call has returned",
                help="give each caller arrays of its own",
            )
        raise IdRangeError(
            "ids outside their tables",
            where=listed([f"column {c.name!r}" + (f" <- {c.source}" if c.source else "") for c, *_ in bad]),
            got=listed([f"id {value} in batch row {row}" for _, row, value, _ in bad]),
            want=listed([f"0 <= id < {bound} (table {c.table!r})" for c, _, _, bound in bad]),
            help="correct the feed, or compile with the id policy 'zero'",
        )
