"""A store on a device: what `colonnade.train.tables.store.Store` is on the CPU, on tensors, by kernels.

Legend: U distinct keys; D embedding_dim; S numbers of state of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from colonnade.backends.gpu.memory import is_exhausted
from colonnade.errors import BudgetError
from colonnade.train.gpu.layout import COUNT, STEP, TABLE, VALUES, Places
from colonnade.train.gpu.module import WARP, kernels
from colonnade.train.gpu.unique import Keys
from colonnade.train.loops import words as w
from colonnade.train.tables.layout import Layout
from colonnade.train.tables.store import BLOCK_BYTES, Budget, Fresh

Rows = torch.Tensor
"""int64 [U], -1: no row."""

BUCKET = 8
FEWEST_BUCKETS = 8
FULL = 0.75
"""The share of slots in use from which on there are more."""
GROWTH = 1.25
SPARE = 1 << 14
NEXT_BYTES = 1 << 27
"""Room for the next batch may take as many bytes, or a quarter of what there is."""
TABLE_WORDS = 8
FINDING, MAKING, COPYING = 32, 16, 64
"""Lanes of a program: few, since the slowest search of a program holds up the others."""
WIDEST = 64
"""Values of a row that a program has in hand."""
CARRIER = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
FILES = ("slots", "rows", "evict")


def block_of(size: int, most: int = WIDEST) -> int:
    """The next power of two, within bounds."""
    return min(most, 1 << max(size - 1, 0).bit_length())


def fours_of(dim: int) -> int:
    """Groups of four new values that a program draws at once."""
    return block_of(-(-dim // 4), 8)


class Store:
    """Rows of the tables of one layout. Facts: a row's number and address are its own until it is removed.

    name: in messages.   budget: what its memory counts against.   version: changes when rows are removed.
    moves: changes when any of its memory lies elsewhere.
    Facts: work is enqueued on the current stream; what waits for the device says so. A step lies below 2^31.
    """

    def __init__(
        self,
        name: str,
        layout: Layout,
        tables: Sequence[Fresh],
        budget: Budget | None = None,
        device: torch.device | str = "cuda",
    ) -> None:
        self.name, self.layout, self.tables = name, layout, tuple(tables)
        self.places = Places(layout)
        self.device = torch.device(device)
        self.budget = budget or Budget()
        self.version = self.moves = 0
        self._kernels = kernels(self.device.type, *FILES)
        self._shift = (-(-BLOCK_BYTES // self.places.row_bytes) - 1).bit_length()
        self._words = torch.from_numpy(_words(tables)).to(self.device)
        states = np.zeros((len(tables), layout.num_states), np.float32)
        for own, fresh in zip(states, tables, strict=True):
            own[:] = fresh.states
        self._fresh = torch.from_numpy(states).to(self.device)
        kinds = {fresh.draw.kind for fresh in tables}
        self._draws = {"NORMAL": bool(kinds & {w.NORMAL, w.TRUNCATED}), "TRUNCATED": w.TRUNCATED in kinds}
        self._counters = self._zeros(3 + len(tables))  # rows handed out, rows in the list of free ones, slots in use
        self._lives = self._counters[3:]
        self._spare = self._zeros(SPARE)
        self._memory: list[torch.Tensor] = []
        self._starts: list[int] = []
        self._blocks = self._zeros(1)
        self._free = self._zeros(1)
        self._most_rows = self._most_used = self._most_free = 0  # at most so many rows, slots in use, free rows
        self.budget.take(8 * BUCKET * FEWEST_BUCKETS, name)
        self._slots = self._zeros(BUCKET * FEWEST_BUCKETS)

    def _zeros(self, count: int) -> torch.Tensor:
        return torch.zeros(count, dtype=torch.int64, device=self.device)

    # --- what there is ----------------------------------------------------------------------------------------------
    @property
    def num_rows(self) -> int:
        """Rows in use. Facts: waits for the device, as all numbers of rows do."""
        self._measure()
        return self._most_rows

    def num_rows_of(self, table: int) -> int:
        """Rows of a table."""
        return int(self._lives[table])

    @property
    def bytes(self) -> int:
        """Memory in use: blocks, slots, lists."""
        return sum(x.nbytes for x in (*self._memory, self._blocks, self._slots, self._free))

    @property
    def numbers(self) -> torch.Tensor:
        """What `know` is told, int64 [3], on the device."""
        return self._counters[:3]

    def know(self, numbers: Sequence[int]) -> None:
        """Take what `numbers` was when all that is enqueued so far was done: bounds are exact then."""
        rows, self._most_free, self._most_used = numbers
        self._most_rows = rows - self._most_free

    def _measure(self) -> None:
        """Make what is known of the device's numbers exact."""
        self.know(self.numbers.tolist())

    @property
    def row_bytes(self) -> int:
        """Size of a row."""
        return self.places.row_bytes

    # --- growing ----------------------------------------------------------------------------------------------------
    def reserve(self, more: int, spare: int = 0) -> None:
        """Make room for so many new rows. Errors: BudgetError, before anything is changed.

        spare: where memory allows, make room for so many more, at most NEXT_BYTES or a quarter of the rows: the next
        batch, of which each key might be new, then has room without a question to the device.
        """
        spare = min(spare, max((self._most_rows + more) // 4, NEXT_BYTES // self.row_bytes))
        if self.has_room(more + spare):
            return
        self._measure()
        if self.has_room(more + spare):
            return
        try:
            self._grow(more + spare)
        except BudgetError:
            if not self.has_room(more):
                self._grow(more)

    def has_room(self, more: int) -> bool:
        """Whether so many new rows surely fit. Facts: does not wait for the device."""
        room = (len(self._starts) << self._shift) - self._most_rows
        return more <= room and self._most_used + more <= FULL * len(self._slots)

    def _grow(self, more: int) -> None:
        room = (len(self._starts) << self._shift) - self._most_rows
        blocks = max(0, -(-(more - room) >> self._shift))
        block_bytes = self.places.row_bytes << self._shift
        buckets = self._buckets(more)
        taken = blocks * (block_bytes + 8) + 8 * BUCKET * buckets
        self.budget.take(taken, self.name)
        with self._taken(taken):
            memory = torch.empty(blocks * block_bytes, dtype=torch.uint8, device=self.device)
            starts = [*self._starts, *(memory.data_ptr() + block_bytes * block for block in range(blocks))]
            places = torch.tensor(starts, dtype=torch.int64, device=self.device) if blocks else self._blocks
            slots = self._zeros(BUCKET * buckets)
        if blocks:
            self._memory.append(memory)
            self._starts, self._blocks = starts, places
        self.moves += 1
        if buckets:
            self.budget.used -= self._slots.nbytes
            self._slots = slots
            self._rehash()

    @contextmanager
    def _taken(self, size: int) -> Iterator[None]:
        """Bytes that the budget gave, and the device may refuse: they are then given back. Errors: BudgetError."""
        try:
            yield
        except RuntimeError as error:
            self.budget.used -= size
            if not is_exhausted(error):
                raise
            raise BudgetError(
                "the device has too little memory for tables",
                where=self.name,
                got=f"{size:,} bytes more wanted",
                help="evict rows, admit fewer ids, or leave tables on the CPU",
            ) from error

    def _buckets(self, more: int) -> int:
        """How many there must be; 0: those there are."""
        if self._most_used + more <= FULL * len(self._slots):
            return 0
        wanted = int((self._most_rows + more) / FULL) + 1
        if wanted > len(self._slots):
            wanted = max(wanted, int(GROWTH * len(self._slots)))
        return max(-(-wanted // BUCKET), len(self._slots) // BUCKET)

    def _rehash(self) -> None:
        rows = self._most_rows + self._most_free
        self._launch("rehash", rows, FINDING, *self._map(spare=True), self._words, self._counters, SPARE=SPARE)
        self._counters[2] = self._counters[0] - self._counters[1]
        self._most_used = self._most_rows

    # --- launches ---------------------------------------------------------------------------------------------------
    def _launch(self, name: str, lanes: int, block: int, *given: Any, **constants: Any) -> None:
        warps = 1 if block <= WARP else 4
        self._kernels.launch(name, -(-lanes // block), *given, BLOCK=block, **constants, num_warps=warps)

    @property
    def rows_at(self) -> tuple[torch.Tensor, int, int]:
        """What kernels find rows by: addresses of blocks, how many rows a block has (its logarithm), a row's bytes."""
        return self._blocks, self._shift, self.places.row_bytes

    @property
    def map(self) -> tuple[Any, ...]:
        """What kernels find keys by: slots, how many buckets, and `rows_at`."""
        return self._map()

    def _map(self, *, spare: bool = False) -> tuple[Any, ...]:
        buckets = len(self._slots) // BUCKET
        return (self._slots, buckets, *([self._spare] if spare else []), *self.rows_at)

    def described(self) -> list[int]:
        """The words of `kernels/groups.py`, up to its first table."""
        parts = (self._words, self._fresh, self._counters, self._free, self._lives)
        words, fresh, counters, free, lives = (part.data_ptr() for part in parts)
        rows = (self._blocks.data_ptr(), self._shift, self.places.row_bytes)
        sizes = (self.layout.embedding_dim, self.layout.num_states, self.places.states, 0)
        return [
            *(self._slots.data_ptr(), len(self._slots) // BUCKET, *rows, words, fresh, counters, free, lives),
            *sizes,
        ]

    @property
    def draws(self) -> tuple[bool, bool]:
        """Whether new values of any table are normal, and of any are truncated."""
        return self._draws["NORMAL"], self._draws["TRUNCATED"]

    def made(self, most: int) -> None:
        """Note that so many rows were made, at most, by others."""
        self._most_rows += most
        self._most_used += most

    @property
    def form(self) -> int:
        """How values are stored."""
        return w.FORMS[self.layout.dtype]

    # --- keys and rows ----------------------------------------------------------------------------------------------
    def keys(self, table: int, ids: torch.Tensor) -> Keys:
        """Ids of one table, which are distinct, as keys."""
        ids = ids.to(self.device).contiguous()
        hashes = torch.empty_like(ids)
        self._launch("hash_ids", len(ids), FINDING, self._words, table, ids, hashes, len(ids))
        ones = torch.ones(len(ids), dtype=torch.int32, device=self.device)
        return Keys(hashes, ones * table, ids, ones)

    def find(self, keys: Keys) -> Rows:
        """The row of each key, -1 where there is none."""
        rows = torch.empty(len(keys), dtype=torch.int64, device=self.device)
        given = (keys.hashes, keys.tables, keys.ids, rows, len(keys))
        self._launch("find", len(keys), FINDING, *self._map(), *given)
        return rows

    def insert(
        self,
        keys: Keys,
        rows: Rows,
        step: int = 0,
        wanted: torch.Tensor | None = None,
        out: torch.Tensor | None = None,
    ) -> None:
        """Make rows for the keys that have none, and are wanted.

        rows: what `find` gave; written.   out: `[U, D]`; where it is given, new rows count as looked up, and their
        values are written there.   Facts: waits for the device where there may be too little room.
        Errors: BudgetError, before anything is changed.
        """
        if len(keys) == 0:
            return
        new = rows < 0 if wanted is None else (rows < 0) & wanted
        more = len(keys)
        if not self.has_room(more):
            more = int(new.sum())
            self.reserve(more, len(keys))
        order = new.cumsum(0)
        dim, states = self.layout.embedding_dim, self.layout.num_states
        self._launch(
            "insert", len(keys), MAKING, *self._map(spare=True), self._words, self._fresh, self._counters, self._free,
            self._lives, keys.hashes, keys.tables, keys.ids, keys.counts, order, rows,
            self._fresh if out is None else out, len(keys), step, dim, states,
            self.places.states, FORM=self.form, NOTED=out is not None, **self._draws, FOURS=fours_of(dim),
            FULL=dim % (4 * fours_of(dim)) == 0, STATES=block_of(states, 32), SPARE=SPARE,
        )  # fmt: skip
        self._kernels.launch("account", 1, self._counters, order, len(keys))
        self.made(more)

    def touch(self, keys: Keys, rows: Rows, step: int) -> None:
        """Note that keys were looked up in a step."""
        self._launch("touch", len(rows), FINDING, *self.rows_at, rows, keys.counts, len(rows), step)

    def gather(self, keys: Keys, rows: Rows) -> torch.Tensor:
        """The values of rows, float32 `[U, D]`; the table's default where there is none."""
        dim = self.layout.embedding_dim
        out = torch.empty(len(rows), dim, dtype=torch.float32, device=self.device)
        given = (self._words, rows, keys.tables, out, len(rows), dim)
        values = block_of(dim)
        constants = {"FORM": self.form, "VALUES": values, "FULL": dim % values == 0 and dim > 1}  # 1 is no variable
        self._launch("gather", len(rows), COPYING, *self.rows_at, *given, **constants)
        return out

    def remove(self, rows: Rows) -> None:
        """Free rows, which are distinct. Errors: BudgetError where the device has no memory to list them."""
        if len(rows) == 0:
            return
        self._list_free(len(rows))
        self.remove_those(rows)
        self._most_rows -= len(rows)
        if self._most_rows == 0:  # what is loaded next takes no new slots because of those that removed rows had
            self._slots.zero_()
            self._counters[2] = self._most_used = 0

    def remove_those(self, rows: Rows) -> None:
        """Free the rows that are not -1, which are distinct. Facts: does not wait; the list of free rows has room."""
        order = (rows >= 0).cumsum(0)
        given = (self._words, rows, order, len(rows), self._free, self._counters, self._lives)
        self._launch("withdraw", len(rows), FINDING, *self._map(), *given)
        self._counters[1:2] += order[-1:]
        self._most_free += len(rows)
        self.version += 1

    def _list_free(self, more: int) -> None:
        """Make room in the list of free rows."""
        wanted = self._most_free + more
        if wanted > len(self._free):
            self._measure()
            wanted = self._most_free + more
        if wanted > len(self._free):
            size = min(wanted + wanted // 2, self._capacity)
            self.budget.used += 8 * (size - len(self._free))  # whoever removes rows is not refused by a budget
            self._lengthen(size)

    @property
    def lists_all(self) -> bool:
        """Whether the list of free rows has room for all there can be."""
        return len(self._free) >= self._capacity

    def list_all(self) -> None:
        """Make this room. Errors: BudgetError."""
        if not self.lists_all:
            self.budget.take(8 * (self._capacity - len(self._free)), self.name)
            self._lengthen(self._capacity)

    @property
    def _capacity(self) -> int:
        return len(self._starts) << self._shift

    def _lengthen(self, size: int) -> None:
        with self._taken(8 * (size - len(self._free))):
            longer = self._zeros(size)
        longer[: len(self._free)] = self._free
        self._free = longer
        self.moves += 1

    def rows_of(self, table: int) -> Rows:
        """The rows of a table."""
        self._measure()
        count = self._most_rows + self._most_free
        marks = torch.empty(count, dtype=torch.int8, device=self.device)
        self._launch("mark_rows", count, FINDING, *self.rows_at, self._counters, table, marks, count)
        return marks.nonzero()[:, 0]

    def mark_old(self, policies: torch.Tensor, step: int) -> torch.Tensor:
        """Which rows policies of eviction look at, int8, as `kernels/evict.py` says."""
        self._measure()
        count = self._most_rows + self._most_free
        marks = torch.empty(count, dtype=torch.int8, device=self.device)
        given = (*self.rows_at, self._counters, policies, self._lives, marks, count, step)
        self._launch("mark_old", count, FINDING, *given)
        return marks

    # --- parts of rows ----------------------------------------------------------------------------------------------
    def ids(self, rows: Rows) -> torch.Tensor:
        """The ids of rows."""
        return self._read(rows, 0, 1, torch.int64)[:, 0]

    def tables_of(self, rows: Rows) -> torch.Tensor:
        """The table of each row, int64."""
        return self._read(rows, TABLE, 1, torch.int32)[:, 0].long()

    def steps(self, rows: Rows) -> torch.Tensor:
        """The step in which each row was last looked up."""
        return self._read(rows, STEP, 1, torch.int32)[:, 0].long()

    def counts(self, rows: Rows) -> torch.Tensor:
        """How often each row was looked up."""
        return self._read(rows, COUNT, 1, torch.int64)[:, 0]

    def use(self, rows: Rows, steps: torch.Tensor, counts: torch.Tensor) -> None:
        """Set steps and counts."""
        self._write(rows, STEP, steps.to(self.device, torch.int32)[:, None])
        self._write(rows, COUNT, counts.to(self.device, torch.int64)[:, None])

    def values(self, rows: Rows) -> torch.Tensor:
        """The values as they are stored, `[U, D]`."""
        return self._read(rows, VALUES, self.layout.embedding_dim, CARRIER[self.layout.dtype])

    def set_values(self, rows: Rows, values: torch.Tensor) -> None:
        """Write values as they are stored."""
        self._write(rows, VALUES, values.to(self.device, CARRIER[self.layout.dtype]))

    def states(self, rows: Rows) -> torch.Tensor:
        """The optimizer's state, `[U, S]`."""
        return self._read(rows, self.places.states, self.layout.num_states, torch.float32)

    def set_states(self, rows: Rows, states: torch.Tensor) -> None:
        """Write the optimizer's state."""
        self._write(rows, self.places.states, states.to(self.device, torch.float32))

    def _read(self, rows: Rows, offset: int, width: int, dtype: torch.dtype) -> torch.Tensor:
        out = torch.empty(len(rows), width, dtype=dtype, device=self.device)
        self._copy(rows, offset, out, writes=False)
        return out

    def _write(self, rows: Rows, offset: int, values: torch.Tensor) -> None:
        self._copy(rows, offset, values.contiguous(), writes=True)

    def _copy(self, rows: Rows, offset: int, packed: torch.Tensor, *, writes: bool) -> None:
        width = packed.shape[1]
        if width == 0:
            return
        bits = packed.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[packed.itemsize])
        given = (rows, bits, len(rows), offset, width, width)
        constants = {"WRITES": writes, "VALUES": block_of(width)}
        self._launch("copy_part", len(rows), COPYING, *self.rows_at, *given, **constants)


def _words(tables: Sequence[Fresh]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """What kernels read of each table: hash key, draw key, kind, then float64 a, b, low, high, default."""
    words = np.zeros((len(tables), TABLE_WORDS), np.int64)
    for own, fresh in zip(words, tables, strict=True):
        draw = fresh.draw
        own.view(np.uint64)[:2] = fresh.hash_key, fresh.draw_key
        own[2] = draw.kind
        own.view(np.float64)[3:] = draw.a, draw.b, draw.low, draw.high, fresh.default
    return words
