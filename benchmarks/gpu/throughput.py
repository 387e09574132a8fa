"""Requests a second with several callers: closed loops of threads, and what they reach at a 99th percentile of 5 ms."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.gpu.clock import timing
from benchmarks.gpu.ours import Ours
from benchmarks.gpu.rows import Check, Found, Refused
from benchmarks.gpu.setting import Setting
from benchmarks.gpu.whole import ARRAYS, LARGE_ROWS, PACKED, Model, checked_outputs, feed_of
from colonnade.testing.rows import Row
from colonnade.testing.timing import Call, Timing

CASE = "E"
WHAT = "throughput"
MOST_P99 = 5e-3
REQUESTS = 8
"""Different requests that the callers take turns with."""
CALLERS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Loop:
    """What a closed loop reached.   latencies: seconds of every request."""

    seconds: float
    latencies: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.latencies) / self.seconds

    @property
    def p99(self) -> float:
        """The 99th percentile of the latencies. Units: seconds."""
        return float(np.quantile(self.latencies, 0.99))

    @property
    def timing(self) -> Timing:
        """Quantiles of the latencies."""
        return timing(self.latencies, self.latencies[0], 1)


def closed_loop(calls: Sequence[Call], callers: int, seconds: float) -> Loop:
    """`callers` threads that make the next call as soon as the last is answered, for about `seconds`.

    Errors: the first that a call raised.
    """
    start = threading.Barrier(callers + 1)

    def work(k: int) -> list[float]:
        taken: list[float] = []
        start.wait()
        end = time.perf_counter() + seconds
        while not taken or time.perf_counter() < end:
            began = time.perf_counter()
            calls[(k + len(taken)) % len(calls)]()
            taken.append(time.perf_counter() - began)
        return taken

    with ThreadPoolExecutor(callers) as pool:
        futures = [pool.submit(work, k) for k in range(callers)]
        start.wait()
        began = time.perf_counter()
        latencies = tuple(x for future in futures for x in future.result())
        took = time.perf_counter() - began
    return Loop(took, latencies)


def case(setting: Setting) -> Iterator[Found]:
    """E from packed memory and from dicts, at two batch sizes."""
    model = Model.of(CASE, setting, LARGE_ROWS)
    for rows in setting.sizes(32, 256):
        feeds = [feed_of(model.program, rows, seed) for seed in range(REQUESTS)]
        wanted = [model.expected.executable(feed) for feed in feeds]
        for form, calls in _forms(model.ours, feeds).items():
            setting.say(f"{CASE}: throughput, batch {rows}, {form}")
            check = _checked(calls, wanted, max(_callers(setting)))
            if check.ok:
                yield from _loops(setting, rows, form, calls, check)
            else:
                yield Refused(CASE, WHAT, rows, form, check)


def _forms(ours: Ours, feeds: Sequence[Mapping[str, Any]]) -> dict[str, list[Call]]:
    return {
        PACKED: [ours.packed_call(ours.request(feed)) for feed in feeds],
        ARRAYS: [ours.call(feed) for feed in feeds],
    }


def _checked(calls: Sequence[Call], wanted: Sequence[Mapping[str, Any]], callers: int) -> Check:
    """Every request answered once by itself, and once among as many callers as there will be."""
    found: list[Check] = [checked_outputs(call(), want) for call, want in zip(calls, wanted, strict=True)]

    def checking(call: Call, want: Mapping[str, Any]) -> Callable[[], None]:
        return lambda: found.append(checked_outputs(call(), want))

    closed_loop([checking(call, want) for call, want in zip(calls, wanted, strict=True)], callers, 0.1)
    return Check(
        found[0].reference,
        sum(c.elements for c in found),
        sum(c.outside for c in found),
        max(c.worst for c in found),
        f"{len(found)} requests, {callers} callers",
    )


def _loops(setting: Setting, rows: int, form: str, calls: Sequence[Call], check: Check) -> Iterator[Row]:
    loops = {}
    for callers in _callers(setting):
        closed_loop(calls, callers, setting.seconds / 10)
        loops[callers] = closed_loop(calls, callers, setting.seconds)
    sides = {f"{form}, {callers} callers": loop.timing for callers, loop in loops.items()}
    fast = {callers: loop for callers, loop in loops.items() if loop.p99 <= MOST_P99}
    facts: dict[str, Any] = {}
    if fast:
        best = max(fast, key=lambda callers: fast[callers].rate)
        facts = {
            "requests/s at p99 <= 5 ms": fast[best].rate,
            "rows/s": fast[best].rate * rows,
            "callers": best,
            "p99 ms": fast[best].p99 * 1e3,
        }
    facts["requests/s, p99 ms by callers"] = "; ".join(
        f"{callers}: {loop.rate:.0f}, {loop.p99 * 1e3:.2f}" for callers, loop in loops.items()
    )
    yield Row(CASE, f"{WHAT}, {form}", rows, sides, {form: check}, facts=facts)


def _callers(setting: Setting) -> tuple[int, ...]:
    return CALLERS[:2] if setting.dry else CALLERS
