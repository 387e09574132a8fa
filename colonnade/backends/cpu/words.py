"""Where each word of a descriptor, a chain, a block and a call's context lies. Units: bytes from its start."""

from __future__ import annotations

# A chain: how a field's elements are read, and the steps done to them. A column's descriptor starts with one.
BASE = 0  # where in the context the address of the field's buffer lies
START = 8  # elements a batch row before the field
ITEM = 16  # bytes of one element
LOAD = 24  # LOAD_*
STEPS = 32  # number of steps
FIRST_STEP = 40  # address
ON_TOKENS = 48  # a filter: 1 where it looks at tokens rather than at elements
CHAIN_BYTES = 64

LOAD_DIRECT, LOAD_INT32, LOAD_STRING = range(3)

# The rest of a descriptor.
COPIES = 48  # number of further slots
TABLE = 56  # address of row 0
ROWS = 64  # rows of the table; UNCHECKED: every id is proven to lie in it
ROW_BYTES = 72
BUFFER = 80  # where in the context the address of the output lies; its row stride follows
OFFSET = 88  # bytes into an output row
DIM = 96  # embedding_dim
EMPTY = 104  # address of the row that stands for no element
FILTERS = 112  # number of filters
FIRST_FILTER = 120  # address of their chains
WIDTH = 128  # elements a batch row
POOLING = 136
WEIGHTS = 144  # address of their chain, or 0
SEPARATOR = 152  # address
SEPARATOR_WIDTH = 160  # 0: no split
ZERO = 168  # address of a row of zeros
FIRST_COPY = 184  # address of (buffer, offset) pairs
NUMBER = 192  # of the column
VALUE = 200  # a numeric column: VALUE_*
FAR = 208  # 1 where the table is larger than the caches: rows are prefetched
DESCRIPTOR_BYTES = 256
UNCHECKED = -1

POOL_SUM, POOL_MEAN, POOL_SQRTN, POOL_MAX, POOL_NONE = range(5)
VALUE_F32, VALUE_F64, VALUE_INT = range(3)

# A block: columns that run together.
KIND = 0
COLUMN = 8  # address of its first descriptor
COUNT = 16
BLOCK_BYTES = 32

SINGLE, POOLED, NUMERIC, SPREAD = range(4)

# A call's context.
BATCH = 0
BLOCKS = 8  # address
CHUNKS = 16  # parts that the batch rows of a block are cut into
CHUNK_ROWS = 24
ITEMS = 32  # blocks * chunks
ERRORS = 40  # address of a record a column, or 0: do not record
POLICY = 48  # 1: an id outside its table is an error, 0: a row of zeros
STREAM = 56  # 1: output rows are stored past the caches
NEXT = 64  # the next item to be claimed; on a cache line of its own
WORK = 144  # address of the engine
FAILED = 128  # 1 after an id outside its table, under the policy error
ZEROED = 136  # ids replaced by a row of zeros
SOURCES = 192  # addresses of the buffers, in the order of DTYPES, string data last
DTYPES = ("float32", "float64", "int32", "int64", "string")
STRING_DATA = SOURCES + 8 * len(DTYPES)
UNITS = 256  # addresses of the engine's parts (units.py)
OUTPUTS = 384  # address and row stride of each output

# An error record.
SEEN, ERROR_ROW, ERROR_VALUE, ERROR_BYTES = 0, 8, 16, 32
