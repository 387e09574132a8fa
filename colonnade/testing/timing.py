"""Calls timed side by side: in alternating blocks, after warm-up, with quantiles."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Call = Callable[[], Any]

WARM_UPS = 3
BLOCK = 5
"""Timed runs of one call before the next call's turn."""
SETTLE_SECONDS = 0.02
"""How long a block runs untimed: the other side's threads spin for a while before they sleep."""
LEAST_SECONDS = 2e-3
"""A run repeats short calls until it lasts about this long, so that the clock and a scheduler's tick do not decide."""
MOST_REPEATS = 100


@dataclass(frozen=True)
class Timing:
    """Seconds a call: quantiles over `runs` runs of `repeats` calls each; `first` is the very first call."""

    p20: float
    p50: float
    p80: float
    best: float
    first: float
    runs: int
    repeats: int


def alternate(calls: Mapping[str, Call], runs: int) -> dict[str, Timing]:
    """Time every call `runs` times, in alternating blocks: what disturbs the machine for a while disturbs all of them.

    Facts: a block begins with calls that are not timed. A server answers request after request by one engine; another
    engine's call in between would leave the caches to whatever that one touched.
    """
    first = {name: _seconds(call, 1) for name, call in calls.items()}
    repeats = {name: _repeats(call) for name, call in calls.items()}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    was_on = gc.isenabled()
    gc.disable()
    try:
        for begin in range(0, max(1, runs), BLOCK):
            for name, call in calls.items():
                _settle(call)
                for _ in range(min(BLOCK, max(1, runs) - begin)):
                    taken[name].append(_seconds(call, repeats[name]))
    finally:
        if was_on:
            gc.enable()
    return {name: quantiles(values, first[name], repeats[name]) for name, values in taken.items()}


def human_seconds(seconds: float) -> str:
    """Such as `12.3 us`."""
    if seconds == 0 or not math.isfinite(seconds):
        return "0 s" if seconds == 0 else "-"
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _settle(call: Call) -> None:
    end = time.perf_counter() + SETTLE_SECONDS
    call()
    while time.perf_counter() < end:
        call()


def _seconds(call: Call, repeats: int) -> float:
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - began) / repeats


def _repeats(call: Call) -> int:
    last = min(_seconds(call, 1) for _ in range(WARM_UPS))
    return max(1, min(MOST_REPEATS, round(LEAST_SECONDS / max(last, 1e-9))))


def quantiles(values: Sequence[float], first: float, repeats: int) -> Timing:
    """The quantiles of some seconds."""
    p20, p50, p80 = (float(q) for q in np.quantile(values, (0.2, 0.5, 0.8)))
    return Timing(p20, p50, p80, min(values), first, len(values), repeats)
