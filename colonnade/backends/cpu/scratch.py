"""A worker's scratch memory on its stack. Units: bytes from its start."""

from __future__ import annotations

from colonnade.backends.cpu.rows import GROUP

ROW_TILE = 128
"""Batch rows of a tile of single columns."""
BLOCK_COLUMNS = 16
"""Most columns of a block."""
TILE = 512
"""Elements or tokens of a tile of any other column."""
WIDENED_COUNT, WIDENED_DIM = 2 * GROUP, 256
"""Rows of few bits that are turned into float32 at a time, and how many values of each."""
PAIR = 16
"""Bytes of a string in memory: address and length."""

VALUES = 0  # two buffers that the steps of a chain write in turn
MORE_VALUES = VALUES + TILE * PAIR
ELEMENTS = MORE_VALUES + TILE * PAIR  # strings before they are split
TOKENS = ELEMENTS + TILE * PAIR
KEEP = TOKENS + TILE * PAIR  # mask of elements or tokens
KEEP_ELEMENTS = KEEP + TILE  # mask of strings before they are split
LOOKED_UP = KEEP_ELEMENTS + TILE  # addresses of table rows; a long row may hold some over from the tile before
FACTORS = LOOKED_UP + (TILE + 4 * GROUP) * 8  # weights
ELEMENT_FACTORS = FACTORS + TILE * 4  # weights of strings before they are split
COUNTS = ELEMENT_FACTORS + TILE * 4  # lookups a batch row
MARKS = COUNTS + TILE * 4  # a token's element
CURSOR = MARKS + TILE * 4  # element, position in it
LEAD = CURSOR + 16  # a long row: rows still to be summed one by one, 0 once the sum is begun
WEIGHT = CURSOR + 24  # a long row: sum of weights
FIRST_ROW = CURSOR + 32  # the batch rows that a tile of elements belongs to: the first, their number
NUM_ROWS = CURSOR + 40
AHEAD = CURSOR + 48  # what the next item reads most of: address, number of cache lines
AHEAD_LINES = CURSOR + 56
ROWS_OF_BLOCK = CURSOR + 64  # addresses of table rows, [column, row]; of one column of the next block, too
ROW_PITCH = 8 * (ROW_TILE + 8)  # not a power of two: columns fall on different cache sets
DESTINATIONS = ROWS_OF_BLOCK + (BLOCK_COLUMNS + 1) * ROW_PITCH
WIDENED_ROWS = DESTINATIONS + 8 * BLOCK_COLUMNS  # addresses of rows that were turned into float32
WIDENED = WIDENED_ROWS + 8 * WIDENED_COUNT  # these rows, a part of each
OTHER_VALUES = WIDENED + 4 * WIDENED_DIM * WIDENED_COUNT  # two buffers for the chain of a second operand
MORE_OTHER_VALUES = OTHER_VALUES + TILE * PAIR
THIRD_VALUES = MORE_OTHER_VALUES + TILE * PAIR  # and for that of what it is joined with itself
MORE_THIRD_VALUES = THIRD_VALUES + TILE * PAIR
SCRATCH_BYTES = MORE_THIRD_VALUES + TILE * PAIR
