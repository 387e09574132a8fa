"""A loop over keys or rows in parts, which any thread may run: what it writes does not depend on who runs which.

Legend: a *call* is the address of words (below, in bytes); a loop's operands are int64, and each has a *stride*: by how
much it grows from one row to the next, or COUNT where it is how many there are.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from colonnade.backends import jobs
from colonnade.backends.atomics import atomic_add, callee
from colonnade.backends.memory import I64, intrinsic, kernel, load_i64, pointer
from colonnade.train.loops.entry import add_entry

COUNT = -1
OPERANDS = range(5, 10)
"""How many a shared loop may have."""
PART_ROWS = 1024

FUNCTION = 0  # address of the loop, a C function
VALUES, STRIDES = 8, 16  # addresses of its operands' values and strides
ROWS = 24  # how many in all
RESULT = 64  # what the parts gave, added up
NEXT = 256  # the first row that nobody has claimed
CALL_WORDS = NEXT // 8 + 8
# At WORK of jobs.py (144) lies the address of the worker.


def _calling(operands: int) -> Any:
    @intrinsic
    def call(typing: Any, function: Any, values: Any, strides: Any, begin: Any, count: Any) -> Any:
        """Call a loop of so many operands for `count` rows from `begin` on."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            function, values, strides, begin, count = args
            given = []
            for k in range(operands):
                at = ir.Constant(I64, 8 * k)
                value, stride = (
                    builder.load(pointer(builder, builder.add(start, at)), typ=I64, align=8)
                    for start in (values, strides)
                )
                counts = builder.icmp_signed("==", stride, ir.Constant(I64, COUNT))
                given.append(builder.select(counts, count, builder.add(value, builder.mul(stride, begin))))
            return builder.call(callee(builder, function, ir.FunctionType(I64, [I64] * operands)), given)

        return types.int64(*[types.int64] * 5), generate

    return call


def _sharing(operands: int) -> Any:
    call_loop = _calling(operands)

    @kernel
    def work(call: int) -> int:
        """Claim and run parts until none is left."""
        function, rows = load_i64(call + FUNCTION), load_i64(call + ROWS)
        values, strides = load_i64(call + VALUES), load_i64(call + STRIDES)
        while True:
            begin = atomic_add(call + NEXT, PART_ROWS)
            if begin >= rows:
                return 0
            atomic_add(call + RESULT, call_loop(function, values, strides, begin, min(PART_ROWS, rows - begin)))

    return work


for _operands in OPERANDS:
    add_entry(f"share_{_operands}", _sharing(_operands))
add_entry("run", jobs.run)
add_entry("helper", jobs.helper)
