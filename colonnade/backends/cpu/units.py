"""The parts that the engine is compiled in, and how they call each other: by addresses in the context of a call.

LLVM optimises a function together with all that it calls: one large function would be optimised once for every caller
above it. Parts that meet by address are optimised once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from colonnade.backends.cpu.intrinsics import call_five, call_six
from colonnade.backends.cpu.words import OUTPUTS, UNITS
from colonnade.backends.memory import kernel, load_i64

F = TypeVar("F", bound=Callable[..., Any])
Five = Callable[[int, int, int, int, int], int]
Six = Callable[[int, int, int, int, int, int], int]

OPERANDS: dict[str, int] = {}
"""Every part and its number of operands; its address lies in the context at its place here."""
FUNCTIONS: dict[str, Any] = {}
"""What is compiled for each part."""


def _declare(name: str, operands: int) -> int:
    OPERANDS[name] = operands
    word = UNITS + 8 * (len(OPERANDS) - 1)
    assert word < OUTPUTS, "the context has no room for another part: move OUTPUTS"
    return word


def _five(name: str) -> Five:
    word = _declare(name, 5)

    @kernel
    def part(call: int, a: int, b: int, c: int, d: int) -> int:
        return call_five(load_i64(call + word), call, a, b, c, d)

    return part


def _six(name: str) -> Six:
    word = _declare(name, 6)

    @kernel
    def part(call: int, a: int, b: int, c: int, d: int, e: int) -> int:
        return call_six(load_i64(call + word), call, a, b, c, d, e)

    return part


def implements(part: Five | Six) -> Callable[[F], F]:
    """Register a function as what is compiled for a part of the same name."""

    def register(function: F) -> F:
        FUNCTIONS[function.__name__] = kernel(function)
        return function

    return register


run_single = _five("run_single")
run_pooled = _five("run_pooled")
run_split = _five("run_split")
run_numeric = _five("run_numeric")
run_spread = _five("run_spread")
run_long_rows = _five("run_long_rows")
filter_elements = _six("filter_elements")
look_up_elements = _six("look_up_elements")
load_split = _five("load_split")
next_tokens = _five("next_tokens")
look_up_tokens = _six("look_up_tokens")
pool_rows = _five("pool_rows")
pool_weighted_rows = _five("pool_weighted_rows")
drain = _five("drain")
drain_weighted = _five("drain_weighted")
element_rows = _six("element_rows")
end_long_row = _five("end_long_row")
pool_narrow_rows = _five("pool_narrow_rows")
pool_narrow = _six("pool_narrow")
join = _six("join")
