"""Where things lie in memory: a store's words, a table's words, and a row.

Units: offsets are bytes from the start of what a thing is part of; words are int64 unless said.
"""

from __future__ import annotations

# A store.
SLOTS = 0  # uint64 slots: 32 bits of tag, then row + 1 (0: empty)
MASK = 8  # the number of slots less one, a power of two less one
BLOCKS = 16  # addresses of the blocks of rows
SHIFT = 24  # a block has 1 << SHIFT rows
ROW_BYTES = 32
NUM_ROWS = 40  # rows handed out so far, free ones among them
FREE = 48  # the row that was freed last, -1: none; each says in the place of its id which was freed before it
NUM_FREE = 56
DIM = 64
FORM = 72  # of the values
STATES = 80  # where in a row its optimizer's state lies
NUM_STATES = 88  # float32 values of state in a row
TABLES = 96  # the tables' words
HOME = 104  # a hash, or a slot, shifted right so many bits is where the search for it begins
VALUES = 112  # where in a row its values lie, its optimizer's state behind them
STORE_WORDS = 16

FLOAT32, BFLOAT16, FLOAT16 = range(3)
FORMS = {"float32": FLOAT32, "bfloat16": BFLOAT16, "float16": FLOAT16}
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

# A table.
HASH_KEY = 0  # uint64, of the map's hash
DRAW_KEY = 8  # uint64, of the random numbers
KIND = 16  # of a new row's values
A, B, LOW, HIGH = 24, 32, 40, 48  # float64, what they are drawn from
DEFAULT = 56  # float64, every value of a row that is not there
FRESH_STATE = 64  # address of a new row's state, float32
LIVE = 72  # its rows
TABLE_WORDS = 10

CONSTANT, UNIFORM, NORMAL, TRUNCATED = range(4)

# A row.
ID = 0
TABLE = 8  # int32, the table's number in the store, -1: the row is free
STEP = 12  # int32, the last step in which it was looked up in training
COUNT = 16  # how often it was looked up in training
HEADER_BYTES = 24
LAST_STEP = 2**31 - 1
"""A later step is noted as this one."""
