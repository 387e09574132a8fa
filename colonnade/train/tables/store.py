"""A store: the rows of tables of one layout, in blocks that never move, and the map that finds them.

Legend: U distinct keys; D embedding_dim; a key is (number of a table in the store, id).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.backends.memory import address_of
from colonnade.errors import BudgetError
from colonnade.train.compiled import LOOPS, Loops
from colonnade.train.initializers import Draw
from colonnade.train.loops import words as w
from colonnade.train.loops.share import COUNT
from colonnade.train.tables.layout import Layout

Array = npt.NDArray[Any]
Ids = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]

BLOCK_BYTES = 1 << 22
"""The least size of a block: numpy asks for huge pages from here on."""
HUGE = 1 << 21
"""A huge page begins at a multiple. Without them, finding the page of a row costs as much as reading it."""
FEWEST_SLOTS = 64
MOST_FULL = 0.75
"""Of the slots."""
LINE = 64
KEY_BYTES = 28
"""What is written of a key."""


@dataclass(frozen=True)
class Keys:
    """Distinct keys. hashes: uint64 [U].   tables, ids: int64 [U].   counts: int32 [U], how often each occurred."""

    hashes: npt.NDArray[np.uint64]
    tables: npt.NDArray[np.int64]
    ids: Ids
    counts: npt.NDArray[np.int32]

    @staticmethod
    def empty(count: int) -> Keys:
        """Room for so many keys. Facts: of many, in one piece, so that huge pages hold them."""
        size = KEY_BYTES * count
        if size < BLOCK_BYTES:
            tables, ids = np.empty(count, np.int64), np.empty(count, np.int64)
            return Keys(np.empty(count, np.uint64), tables, ids, np.empty(count, np.int32))
        memory, start = _aligned(size)
        begin = start - address_of(memory)
        words = memory[begin : begin + 24 * count].view(np.int64).reshape(3, count)
        counts = memory[begin + 24 * count : begin + size].view(np.int32)
        return Keys(words[0].view(np.uint64), words[1], words[2], counts)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, which: Array | slice) -> Keys:
        """Some of them."""
        return Keys(self.hashes[which], self.tables[which], self.ids[which], self.counts[which])


@dataclass(frozen=True)
class Fresh:
    """What a table's new rows are. hash_key: of the map.   draw_key: of the random numbers.   states: float32.

    default: every value of a row that is not there.
    """

    hash_key: int
    draw_key: int
    draw: Draw
    states: npt.NDArray[np.float32]
    default: float = 0.0


class Budget:
    """How many bytes stores may take together; None: as many as there are. highest: what `used` was at most."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.used = self.highest = 0

    def take(self, more: int, what: str) -> None:
        """Note bytes that are about to be allocated. Errors: BudgetError."""
        if self.most is not None and self.used + more > self.most:
            raise BudgetError(
                "tables would take more memory than they may",
                where=what,
                got=f"{self.used:,} bytes in use, {more:,} more wanted",
                want=f"{self.most:,} bytes at most",
                help="allow more memory, evict rows, or admit fewer ids",
            )
        self.used += more
        self.highest = max(self.highest, self.used)


class Store:
    """Rows of the tables of one layout. Facts: a row's number and address are its own until it is removed.

    name: in messages.   budget: what its memory counts against.   version: changes when rows are removed.
    """

    def __init__(self, name: str, layout: Layout, tables: Sequence[Fresh], budget: Budget | None = None) -> None:
        self.name, self.layout, self.tables = name, layout, tuple(tables)
        self.budget = budget or Budget()
        self.version = 0
        self._states = np.zeros((len(tables), layout.num_states), np.float32)
        self._words = np.zeros(w.STORE_WORDS, np.int64)
        self._tables = np.zeros((len(tables), w.TABLE_WORDS), np.int64)
        self._blocks: list[Array] = []
        self._addresses = np.zeros(0, np.int64)
        self._slots = np.zeros(0, np.uint64)
        self._shift = (-(-BLOCK_BYTES // layout.row_bytes) - 1).bit_length()
        self.at = address_of(self._words)
        for number, fresh in enumerate(tables):
            self._describe(number, fresh)
        self._set(w.TABLES, address_of(self._tables))
        for word, value in (
            (w.SHIFT, self._shift),
            (w.ROW_BYTES, layout.row_bytes),
            (w.DIM, layout.embedding_dim),
            (w.FORM, w.FORMS[layout.dtype]),
            (w.VALUES, layout.values),
            (w.STATES, layout.states),
            (w.FREE, -1),
            (w.NUM_STATES, layout.num_states),
        ):
            self._set(word, value)
        self.budget.take(8 * FEWEST_SLOTS, name)
        self._use_slots(_no_slots(FEWEST_SLOTS))

    @cached_property
    def _loops(self) -> Loops:
        """Compiled when they are first asked for: tables that move to a device do without."""
        return LOOPS.warm()

    def _describe(self, number: int, fresh: Fresh) -> None:
        self._states[number] = fresh.states
        words = self._tables[number]
        unsigned, floats = words.view(np.uint64), words.view(np.float64)
        unsigned[w.HASH_KEY // 8], unsigned[w.DRAW_KEY // 8] = fresh.hash_key, fresh.draw_key
        words[w.KIND // 8] = fresh.draw.kind
        for word, value in (
            (w.A, fresh.draw.a),
            (w.B, fresh.draw.b),
            (w.LOW, fresh.draw.low),
            (w.HIGH, fresh.draw.high),
        ):
            floats[word // 8] = value
        floats[w.DEFAULT // 8] = fresh.default
        words[w.FRESH_STATE // 8] = address_of(self._states) + self._states.strides[0] * number

    def _set(self, word: int, value: int) -> None:
        self._words[word // 8] = value

    def _get(self, word: int) -> int:
        return int(self._words[word // 8])

    # --- what there is ----------------------------------------------------------------------------------------------
    @property
    def num_rows(self) -> int:
        """Rows in use."""
        return self._get(w.NUM_ROWS) - self._get(w.NUM_FREE)

    def num_rows_of(self, table: int) -> int:
        """Rows of a table."""
        return int(self._tables[table, w.LIVE // 8])

    @property
    def bytes(self) -> int:
        """Memory in use: blocks, slots, lists."""
        blocks = len(self._addresses) * (self.layout.row_bytes << self._shift)
        return blocks + self._addresses.nbytes + self._slots.nbytes

    @property
    def keys_of_hash(self) -> npt.NDArray[np.uint64]:
        """The hash key of each table."""
        return np.ascontiguousarray(self._tables[:, w.HASH_KEY // 8]).view(np.uint64)

    @property
    def row_bytes(self) -> int:
        """Size of a row."""
        return self.layout.row_bytes

    # --- growing ----------------------------------------------------------------------------------------------------
    def takes(self, more: int) -> bool:
        """Whether so many new rows need no memory that may be refused."""
        return self.budget.most is None or self._growth(more) == (0, len(self._slots))

    def _growth(self, more: int) -> tuple[int, int]:
        """How many blocks so many new rows need besides those there are, and how many slots in all."""
        room = (len(self._addresses) << self._shift) - self._get(w.NUM_ROWS) + self._get(w.NUM_FREE)
        slots, wanted = len(self._slots), self.num_rows + more
        while MOST_FULL * slots < wanted:
            slots *= 2
        return max(0, -(-(more - room) >> self._shift)), slots

    def reserve(self, more: int) -> None:
        """Make room for so many new rows. Errors: BudgetError, before anything is changed."""
        blocks, wanted = self._growth(more)
        size, before = self.layout.row_bytes << self._shift, self._slots
        grows = wanted > len(before)
        taken = blocks * (size + 8) + (8 * wanted if grows else 0)
        self.budget.take(taken, self.name)
        try:
            memory = _aligned(blocks * size) if blocks else None
            slots = _no_slots(wanted) if grows else before
        except MemoryError as error:
            self.budget.used -= taken
            raise BudgetError("no memory is left", where=self.name, want=f"{taken:,} bytes more") from error
        if memory is not None:
            self._add_blocks(*memory, blocks, size)
        if grows:
            self._use_slots(slots)
            self._loops["move_slots"](self.at, address_of(before), len(before))
            self.budget.used -= before.nbytes

    def _add_blocks(self, memory: Array, start: int, count: int, size: int) -> None:
        self._blocks.append(memory)
        self._addresses = np.concatenate((self._addresses, start + size * np.arange(count)))
        self._set(w.BLOCKS, address_of(self._addresses))

    def _use_slots(self, slots: npt.NDArray[np.uint64]) -> None:
        self._slots = slots
        self._set(w.SLOTS, address_of(slots))
        self._set(w.MASK, len(slots) - 1)
        self._set(w.HOME, 65 - len(slots).bit_length())

    # --- keys and rows ----------------------------------------------------------------------------------------------
    def keys(self, table: int, ids: Array) -> Keys:
        """Ids of one table, which are distinct, as keys."""
        ids = np.ascontiguousarray(ids, np.int64)
        hashes = np.empty(len(ids), np.uint64)
        self._loops["hash_ids"](self.at, table, address_of(ids), len(ids), address_of(hashes))
        return Keys(hashes, np.full(len(ids), table, np.int64), ids, np.ones(len(ids), np.int32))

    def find(self, keys: Keys) -> tuple[Rows, int]:
        """The row of each key, -1 where there is none, and how many have none."""
        rows = np.empty(len(keys), np.int64)
        at = (address_of(x) for x in (keys.hashes, keys.tables, keys.ids))
        return rows, self._loops.share("find", (self.at, *at, len(keys), address_of(rows)), (0, 8, 8, 8, COUNT, 8))

    def look_up(self, keys: Keys, step: int | None = None) -> tuple[Rows, npt.NDArray[np.float32], int]:
        """What `find` and `gather` give, and, where there is a step, what `touch` does: at once."""
        rows = np.empty(len(keys), np.int64)
        out = np.empty((len(keys), self.layout.embedding_dim), np.float32)
        at = [address_of(x) for x in (keys.hashes, keys.tables, keys.ids, keys.counts)]
        operands = (self.at, *at, len(keys), address_of(rows), _noted(step), address_of(out))
        missing = self._loops.share("look_up", operands, (0, 8, 8, 8, 4, COUNT, 8, 0, 4 * self.layout.embedding_dim))
        return rows, out, missing

    def read(self, keys: Keys, rows: Rows, chosen: Rows, step: int | None, out: npt.NDArray[np.float32]) -> None:
        """What `look_up` does, of chosen keys whose rows are known. out: `[U, D]`, of which theirs are written."""
        at = [address_of(x) for x in (rows, keys.tables, keys.counts, chosen)]
        operands = (self.at, *at, len(chosen), _noted(step), address_of(out))
        self._loops.share("read_rows", operands, (0, 0, 0, 0, 8, COUNT, 0, 0))

    def insert(self, keys: Keys, rows: Rows, step: int = 0, wanted: npt.NDArray[np.bool_] | None = None) -> int:
        """Make rows for the keys that have none, and are wanted; gives how many.

        rows: what `find` gave; written.   Errors: BudgetError, before anything is changed.
        """
        new = rows < 0
        if wanted is not None:
            new &= wanted
        self.reserve(int(new.sum()))
        at = (address_of(x) for x in (keys.tables, keys.ids))
        flags = new.view(np.uint8)
        return self._loops["insert"](self.at, *at, len(keys), address_of(flags), address_of(rows), _noted(step))

    def touch(self, keys: Keys, rows: Rows, step: int) -> None:
        """Note that keys were looked up in a step."""
        operands = (self.at, address_of(rows), address_of(keys.counts), len(keys), _noted(step))
        self._loops.share("touch", operands, (0, 8, 4, COUNT, 0))

    def gather(self, keys: Keys, rows: Rows) -> npt.NDArray[np.float32]:
        """The values of rows, `[U, D]`; the table's default where there is none."""
        out = np.empty((len(rows), self.layout.embedding_dim), np.float32)
        operands = (self.at, address_of(rows), address_of(keys.tables), len(rows), address_of(out))
        self._loops.share("gather", operands, (0, 8, 8, COUNT, 4 * self.layout.embedding_dim))
        return out

    def remove(self, rows: Rows) -> None:
        """Free rows, which are distinct."""
        self._loops["remove"](self.at, address_of(rows), len(rows))
        self.version += len(rows) > 0

    def rows_of(self, table: int) -> Rows:
        """The rows of a table."""
        out = np.empty(self.num_rows_of(table), np.int64)
        self._loops["rows_of"](self.at, table, address_of(out))
        return out

    # --- parts of rows ----------------------------------------------------------------------------------------------
    def ids(self, rows: Rows) -> Ids:
        """The ids of rows."""
        return self._read(rows, w.ID, 1, np.dtype(np.int64))[:, 0]

    def steps(self, rows: Rows) -> Array:
        """The step in which each row was last looked up."""
        return self._read(rows, w.STEP, 1, np.dtype(np.int32))[:, 0].astype(np.int64)

    def counts(self, rows: Rows) -> Array:
        """How often each row was looked up."""
        return self._read(rows, w.COUNT, 1, np.dtype(np.int64))[:, 0]

    def use(self, rows: Rows, steps: Array, counts: Array) -> None:
        """Set steps and counts."""
        self._write(rows, w.STEP, np.clip(steps, -1, w.LAST_STEP)[:, None].astype(np.int32))
        self._write(rows, w.COUNT, np.ascontiguousarray(counts, np.int64)[:, None])

    def values(self, rows: Rows) -> Array:
        """The values as they are stored, `[U, D]`; bfloat16 as uint16."""
        return self._read(rows, self.layout.values, self.layout.embedding_dim, CARRIER[self.layout.dtype])

    def set_values(self, rows: Rows, values: Array) -> None:
        """Write values as they are stored."""
        self._write(rows, self.layout.values, np.ascontiguousarray(values, CARRIER[self.layout.dtype]))

    def states(self, rows: Rows) -> npt.NDArray[np.float32]:
        """The optimizer's state, `[U, num_states]`."""
        return self._read(rows, self.layout.states, self.layout.num_states, np.dtype(np.float32))

    def set_states(self, rows: Rows, states: Array) -> None:
        """Write the optimizer's state."""
        self._write(rows, self.layout.states, np.ascontiguousarray(states, np.float32))

    def _read(self, rows: Rows, offset: int, width: int, dtype: np.dtype[Any]) -> Array:
        out = np.empty((len(rows), width), dtype)
        size = width * dtype.itemsize
        self._loops["read_part"](self.at, address_of(rows), len(rows), offset, size, address_of(out))
        return out

    def _write(self, rows: Rows, offset: int, values: Array) -> None:
        size = values.shape[1] * values.itemsize
        self._loops["write_part"](self.at, address_of(rows), len(rows), offset, size, address_of(values))


def _noted(step: int | None) -> int:
    """A step as rows hold it; -1: none."""
    return -1 if step is None else min(step, w.LAST_STEP)


def _aligned(size: int) -> tuple[Array, int]:
    """Memory, and where in it so many bytes begin at a huge page. Facts: what lies before and behind is not touched."""
    memory = np.empty(size + HUGE, np.uint8)
    start = address_of(memory)
    return memory, start + -start % HUGE


def _no_slots(count: int) -> npt.NDArray[np.uint64]:
    if 8 * count < BLOCK_BYTES:
        return np.zeros(count, np.uint64)
    memory, start = _aligned(8 * count)
    begin = start - address_of(memory)
    slots: npt.NDArray[np.uint64] = memory[begin : begin + 8 * count].view(np.uint64)
    slots.fill(0)
    return slots


CARRIER: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),
}
"""What holds stored values in numpy."""
