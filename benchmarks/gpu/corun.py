"""E with large tables of 2^23 rows: all tables on the device, beside a budget that leaves the large ones out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import colonnade.compiler as compiler
from benchmarks.gpu.ours import Ours, record_batch
from benchmarks.gpu.rows import Found, Refused, Row
from benchmarks.gpu.setting import Setting
from benchmarks.gpu.skeleton import LARGE, fill, skeleton
from benchmarks.gpu.whole import checked_calls, feed_of, unrounded
from colonnade.executable import Executable
from colonnade.ir.program import Program, Weights
from colonnade.testing.timing import alternate

CASE = "E"
WHAT = "co-running"
ROWS = 1 << 23
IN_DEVICE, POOLED_THERE, OVER_THE_BUS = (
    "all on the device",
    "large tables pooled on the host",
    "large tables over the bus",
)
"""Sides: where the large tables lie, and how those in host memory are read."""


def case(setting: Setting) -> Iterator[Found]:
    """Dicts and record batches, with and without the budget."""
    program = skeleton(CASE, setting.large_rows(ROWS))
    setting.say(f"{CASE}: co-running: fill and compile")
    weights = fill(program, 0, setting.device)
    small = sum(t.bytes for t in program.tables if LARGE not in t.name)
    large = sum(t.bytes for t in program.tables) - small
    sides: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for side, make in _makers(setting, small).items():
        began = time.perf_counter()
        sides[side] = make(program, weights)
        seconds[f"compile s, {side}"] = time.perf_counter() - began
    expected = Ours(unrounded(program), weights, "cpu")
    facts = {"GB of large tables": large / 1e9, "GB of small ones": small / 1e9, **seconds}
    for rows in setting.sizes(32, 256, 2048):
        setting.say(f"{CASE}: co-running, batch {rows}")
        yield from _measured(setting, program, sides, expected, rows, facts)


def _makers(setting: Setting, small: int) -> dict[str, Callable[[Program, Weights], Executable]]:
    """What compiles each side. Facts: the cpu backend, in its place in dry runs, has one."""

    def plain(program: Program, weights: Weights) -> Executable:
        return compiler.compile(program, setting.target, weights=weights)

    if setting.dry:
        return {IN_DEVICE: plain}
    return {
        IN_DEVICE: plain,
        POOLED_THERE: partial(_placed, small, "pooled"),
        OVER_THE_BUS: partial(_placed, small, "bus"),
    }


def _placed(small: int, way: str, program: Program, weights: Weights) -> Executable:
    from colonnade.backends.gpu.backend import GpuBackend

    return Executable(program, weights, GpuBackend(table_budget=small, host_tables=way))


def _measured(
    setting: Setting, program: Program, sides: dict[str, Any], expected: Ours, rows: int, facts: dict[str, float]
) -> Iterator[Found]:
    feed = feed_of(program, rows)
    batch = record_batch(program, feed)
    want = expected.executable(feed)
    calls, checks = {}, {}
    for side, executable in sides.items():
        for form, request in (("dict of arrays", feed), ("record batch", batch)):
            name = f"{side}, {form}"
            calls[name] = partial(executable, request)
            checks[name] = checked_calls(calls[name], want)
    yield from (Refused(CASE, WHAT, rows, name, c) for name, c in checks.items() if not c.ok)
    times = alternate({name: call for name, call in calls.items() if checks[name].ok}, setting.runs)
    yield Row(CASE, WHAT, rows, times, checks, facts=facts)
