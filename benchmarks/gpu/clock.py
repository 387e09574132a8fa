"""Device work timed: replays of a CUDA graph over rotating inputs, or single calls between events.

Without a CUDA device the same calls are timed by the host's clock, so that every case runs anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from colonnade.testing.timing import Call, Timing

LEAST_SECONDS = 1e-3
"""What a timed replay lasts at least: the gap before a graph's first kernel is then under a hundredth of it."""
MOST_LOOPS = 64
WARM_UPS = 3
_COPY_BYTES = 2 << 30
_DRY_COPY_BYTES = 16 << 20
_COPY_RUNS = 10


@dataclass(frozen=True)
class Clock:
    """Times work on one device, `runs` times each. Units: seconds a call."""

    device: torch.device
    runs: int

    def graph(self, calls: Sequence[Call]) -> Timing:
        """The calls in turn, in a CUDA graph; each is to work on memory of its own, so that no cache holds its input.

        Facts: a call only enqueues work on the current stream.
        """
        first = self._host(calls[0], 1)
        if self.device.type != "cuda":
            return self._cycle(calls, first)
        graph = captured(calls)
        loops = _loops(min(_replay(graph) for _ in range(WARM_UPS)))
        if loops > 1:
            graph = captured([*calls] * loops)
            _replay(graph)
        count = len(calls) * loops
        return timing([_replay(graph) / count for _ in range(self.runs)], first, count)

    def events(self, calls: Sequence[Call]) -> Timing:
        """The calls in turn, one by one between two events: what a caller without a graph sees."""
        first = self._host(calls[0], 1)
        if self.device.type != "cuda":
            return self._cycle(calls, first)
        for _ in range(WARM_UPS):
            calls[0]()
        return timing([_between_events(calls[i % len(calls)]) for i in range(self.runs)], first, 1)

    def _cycle(self, calls: Sequence[Call], first: float) -> Timing:
        return timing([self._host(calls[i % len(calls)], 1) for i in range(self.runs)], first, 1)

    def _host(self, call: Call, repeats: int) -> float:
        began = time.perf_counter()
        for _ in range(repeats):
            call()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return (time.perf_counter() - began) / repeats


def captured(calls: Sequence[Call]) -> torch.cuda.CUDAGraph:
    """A CUDA graph of the calls, each run once before on a side stream."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in dict.fromkeys(calls):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def timing(values: Sequence[float], first: float, repeats: int) -> Timing:
    """Quantiles of seconds a call."""
    p20, p50, p80 = (float(q) for q in np.quantile(values, (0.2, 0.5, 0.8)))
    return Timing(p20, p50, p80, min(values), first, len(values), repeats)


@cache
def copy_bandwidth(device: torch.device) -> float:
    """Bytes read plus bytes written a second by a large copy within the device's memory: the median of some runs."""
    cuda = device.type == "cuda"
    source = torch.randn((_COPY_BYTES if cuda else _DRY_COPY_BYTES) // 4, device=device)
    target = torch.empty_like(source)
    found = Clock(device, _COPY_RUNS).events([lambda: target.copy_(source)])
    return 2 * source.numel() * 4 / found.p50


def _replay(graph: torch.cuda.CUDAGraph) -> float:
    return _between_events(graph.replay)


def _between_events(call: Call) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) * 1e-3


def _loops(seconds: float) -> int:
    return max(1, min(MOST_LOOPS, round(LEAST_SECONDS / max(seconds, 1e-9))))
