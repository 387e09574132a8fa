"""Where each word of a descriptor, a chain, a block and a call's context lies. Units: bytes from its start."""

from __future__ import annotations

# A chain: how a field's elements are read, and the steps done to them. A column's descriptor starts with one.
START = 0  # elements a batch row before the field
BASE = 64  # where in the context the address of the field's buffer lies; of strings: of offsets, then of data
ITEM = 72  # bytes of one element
LOAD = 80  # LOAD_*
STEPS = 88  # number of steps
FIRST_STEP = 96  # address
ON_TOKENS = 128  # a filter: 1 where it looks at tokens rather than at elements
CHAIN_BYTES = 192

LOAD_DIRECT, LOAD_INT32, LOAD_STRING = range(3)

# The rest of a descriptor. A bucketized column reads nothing but its first cache line.
TREE = 8  # a single float32 column that is bucketized and looked up, and no more: address of its tree or grid, else 0
HEIGHT = 16  # of the tree; 0: a grid
TABLE = 24  # address of row 0
ROW_BYTES = 32
OFFSET = 40  # bytes into an output row
COPIES = 48  # number of further slots
ROWS = 56  # rows of the table; UNCHECKED: every id is proven to lie in it
BUFFER = 104  # where in the context the address of the output lies; its row stride follows
FILTERS = 112  # number of filters
EMPTY = 120  # address of the row that stands for no element
DIM = 128  # embedding_dim
FIRST_FILTER = 136  # address of the filters' chains
WIDTH = 144  # elements a batch row; RAGGED: the offsets say it
POOLING = 152
WEIGHTS = 160  # address of their chain, or 0
SEPARATOR = 168  # address
SEPARATOR_WIDTH = 176  # 0: no split
ZERO = 184  # address of a row of zeros
FIRST_COPY = 192  # address of (buffer, offset) pairs
NUMBER = 200  # of the column
VALUE = 208  # a numeric column: VALUE_*
FAR = 216  # 1 where the table is larger than the caches: rows are prefetched
OFFSETS = 224  # where in the context the address of the offsets lies, 0: the fields are dense
FORM = 248  # how the table's rows are stored: FORM_*
DESCRIPTOR_BYTES = 256
UNCHECKED = RAGGED = -1

FORM_F32, FORM_F16, FORM_BF16, FORM_INT8 = range(4)
POOL_SUM, POOL_MEAN, POOL_SQRTN, POOL_MAX, POOL_NONE, POOL_MARKS = range(6)
VALUE_F32, VALUE_F64, VALUE_INT = range(3)

# A block: columns that run together.
KIND = 0
COLUMN = 8  # address of its first descriptor
COUNT = 16
BLOCK_OFFSETS = 24  # that of all its columns
ADJACENT = 32  # 1 where each slot begins where the one of the column before ends
TAKEN = 40  # 1 where the block before writes its first slot, in rows where this is the second half of a cache line
TAKES = 48  # 1 where it does so for the block after it
READS = 56  # address of the small tables and boundaries that its rows read most of, or 0
READ_BYTES = 64
BLOCK_BYTES = 72

SINGLE, POOLED, NUMERIC, SPREAD = range(4)

# A call's context.
BATCH = 0
BLOCKS = 8  # address
CHUNKS = 16  # parts that the batch rows of a block are cut into
CHUNK_ROWS = 24
ITEMS = 32  # blocks * chunks
ERRORS = 40  # address of a record a column, or 0: do not record
POLICY = 48  # 1: an id outside its table is an error, 0: a row of zeros
STREAM = 56  # 1: whole cache lines of output rows are stored past the caches
NEXT = 64  # the next item to be claimed; on a cache line of its own
# At WORK of jobs.py (144) lies the address of the engine.
FAILED = 128  # 1 after an id outside its table, under the policy error
ZEROED = 136  # ids replaced by a row of zeros
WORKERS = 152  # threads that claim items: one that runs an item likely claims the one so many later next
# At FIRST and LAST of jobs.py (160, 168) lie the rows to be done, where a tape calls the engine.
SOURCES = 192  # addresses of the buffers, in the order of DTYPES, string data last
DTYPES = ("float32", "float64", "int32", "int64", "string")
STRING_DATA = SOURCES + 8 * len(DTYPES)
UNITS = 256  # addresses of the engine's parts (units.py)
OUTPUTS = 448  # address and row stride of each output; then addresses of offsets, then of ragged fields

# An error record.
SEEN, ERROR_ROW, ERROR_VALUE, ERROR_BYTES = 0, 8, 16, 32
