"""E with large tables of 2^23 rows: all tables on the device, beside a budget that leaves the large ones out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

import colonnade.compiler as compiler
from benchmarks.gpu.ours import Ours
from benchmarks.gpu.rows import Check, Found, Refused, machine
from benchmarks.gpu.setting import Setting
from benchmarks.gpu.skeleton import LARGE, fill, skeleton
from benchmarks.gpu.whole import checked_calls, feed_of, unrounded
from colonnade.backends.feed import Feed
from colonnade.executable import Executable
from colonnade.ir.program import Program, Weights
from colonnade.testing.rows import Row
from colonnade.testing.timing import Call, alternate

CASE = "E"
WHAT = "co-running"
LEAST_SETS, ROWS_IN_TURN = 16, 1 << 14
"""Requests take turns, so that no cache holds what one reads: neither rows of tables nor, on any side, the requests."""
ROWS = 1 << 23
IN_DEVICE, POOLED_THERE, OVER_THE_BUS = (
    "all on the device",
    "large tables pooled by {threads} host thread(s)",
    "large tables over the bus",
)
"""Sides: where the large tables lie, and how those in host memory are read."""


def case(setting: Setting) -> Iterator[Found]:
    """Packed requests and dicts, with and without the budget."""
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
    threads = sorted({1, max(1, machine()["cores"] // 2), machine()["cores"]})
    pooled = {POOLED_THERE.format(threads=n): partial(_placed, small, "pooled", n) for n in threads}
    return {IN_DEVICE: plain, **pooled, OVER_THE_BUS: partial(_placed, small, "bus", 1)}


def _placed(small: int, way: str, threads: int, program: Program, weights: Weights) -> Executable:
    from colonnade.backends.gpu.backend import GpuBackend

    return Executable(program, weights, GpuBackend(table_budget=small, host_tables=way), threads=threads)


def _measured(
    setting: Setting, program: Program, sides: dict[str, Any], expected: Ours, rows: int, facts: dict[str, float]
) -> Iterator[Found]:
    sets = max(LEAST_SETS, min(ROWS_IN_TURN // rows, 4 * LEAST_SETS))
    feeds = [feed_of(program, rows, seed) for seed in range(sets)]
    wants = [expected.executable(feed) for feed in feeds]
    calls: dict[str, Call] = {}
    checks: dict[str, Check] = {}
    for side, executable in sides.items():
        forms: dict[str, list[Call]] = {
            "packed": [_packed_call(executable, feed) for feed in feeds],
            "dict of arrays": [partial(executable, feed) for feed in feeds],
        }
        for form, found in forms.items():
            name = f"{side}, {form}"
            calls[name] = in_turn(found)
            checks[name] = _worst([checked_calls(call, want) for call, want in zip(found, wants, strict=True)])
    yield from (Refused(CASE, WHAT, rows, name, c) for name, c in checks.items() if not c.ok)
    times = alternate({name: call for name, call in calls.items() if checks[name].ok}, setting.runs)
    yield Row(CASE, WHAT, rows, times, checks, facts={**facts, "requests in turn": sets})


def in_turn(calls: Sequence[Call]) -> Call:
    """Each call answers another request: the rows that one reads would else lie in caches for the next."""
    following = cycle(calls)
    return lambda: next(following)()


def _worst(checks: Sequence[Check]) -> Check:
    first = next((c for c in checks if not c.ok), checks[0])
    return replace(first, elements=sum(c.elements for c in checks), worst=max(c.worst for c in checks))


def _packed_call(executable: Executable, feed: Feed) -> Call:
    """Answers a request that lies packed in host memory."""
    request, runner = executable.reader.read(feed), executable.runner
    return lambda: runner.run(request).outputs
