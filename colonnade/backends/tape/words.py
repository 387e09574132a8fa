"""Where each word of a tape and of a call's context lies. Units: bytes from its start, 8 a word.

A *base* is where operands lie: the scratch memory of the call, constants, or a tensor that a request brings or gets.
"""

from __future__ import annotations

# A step: a code, numbers, and operands, the result first.
CODE = 0
WIDTH = 8  # elements a row of the result
INNER = 16  # of a product: elements a row of its operand
RELU = 24  # of a product: 1 where negative results become 0
ADDED = 32  # of a product: 1 where it is added to what lies in its result
OPERANDS = 40
STEP_BYTES = 168

# An operand.
BASE = 0
OFFSET = 8  # from the base, of the first row
STRIDE = 16  # from row to row, in scratch memory and constants; tensors have their own
PITCH = 24  # from element to element: 0 where one stands for all
OPERAND_BYTES = 32

# A call's context: one for each thread, in a row; the first is the caller's.
COUNT = 0  # of steps
ROWS = 8
STEPS = 16  # address
TILE_ROWS = 24  # rows that pass through all steps at a time
CONTEXT_BYTES = 32
LEAD = 40  # address of contexts of another job, one for each thread, that is done for the rows of a tile first; or 0
LEAD_BYTES = 48  # of each
FILLED = 56  # address of a table of what that job writes: the number of entries, and these
NEXT = 64  # tile to claim, a cache line of its own with
SEAT = 72  # the context to claim
LED_TICKS = 80  # what a thread spent on the job that leads
TICKS = 88  # and on the steps
BASES = 160  # behind jobs.WORK: an address and the stride of its rows, for each base
BASE_BYTES = 16
SCRATCH, CONSTANTS, TENSORS = 0, 1, 2  # bases; tensors from there on

# An entry of what a leading job writes. It lies in scratch memory, where the rows of a tile follow one another.
OWN_WORD = 0  # where in this context its base lies
LEAD_WORD = 8  # where in the context of that job its address lies
SCRATCH_OFFSET = 16
ENTRY_BYTES = 24

ADD, SUB, MUL, DIV, MINIMUM, MAXIMUM, COMPARE, PRODUCT, SELECT, SIFT, GATHER = range(11)
COPY, COPY_WIDE, RELU_OF = range(11, 14)
UNARY, SOFTMAX, ARGMAX, FROM_I32, FROM_I64 = range(14, 19)
"""Codes of steps: of several operands; moving one; computing from one. A unary and a comparison have their kind in
`INNER`, softmax and argmax the elements of their operand, a sift the number of its ranges."""
SIGMOID, TANH, EXP, SQRT, NEG, ABS, ROUND = range(7)
EQ, NE, LT, LE, GT, GE = range(6)

TILE, LARGE_TILE = 36, 126
"""Most rows of a tile; and where a tape has a matrix that no CPU's own cache holds: it is read once a tile."""
