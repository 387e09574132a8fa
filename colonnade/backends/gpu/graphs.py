"""Queues of work: a CUDA stream with its graphs, and the same on the host, where work is done at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol

import torch

from colonnade.errors import OptionError

Work = Callable[[], object]
Mark = Callable[[], float]
"""Once the queue has been waited for: when the work before the mark was done. Units: nanoseconds."""

_CAPTURE = threading.Lock()
"""One capture at a time in a process: a device's allocator and random state are shared by all streams."""


def host_memory(device: torch.device, num_bytes: int) -> torch.Tensor:
    """Zeros on the host that the device copies from and to while Python goes on.

    Errors: OptionError where the host has no such memory.
    """
    if device.type != "cuda":
        return torch.zeros(num_bytes, dtype=torch.uint8)
    try:
        return torch.zeros(num_bytes, dtype=torch.uint8, pin_memory=True)
    except RuntimeError as error:
        raise OptionError(
            "the host has too little memory that a device can copy from",
            got=f"{num_bytes:,} bytes: {str(error).partition(chr(10))[0]}",
            help="send smaller batches, or let go of outputs sooner",
        ) from error


class Queue(Protocol):
    """Does work in order. Facts: one thread at a time.

    captures: whether work can be kept as a graph.
    """

    captures: bool
    device: torch.device

    def run(self, work: Work) -> None:
        """Begin the work after all before it."""

    def captured(self, work: Work) -> Work:
        """What does the same work, with the same memory; the work has been run before. Errors: RuntimeError."""

    def wait(self) -> None:
        """Return once all is done."""

    def mark(self) -> Mark:
        """A point in time between the work before and after."""

    def device_memory(self, num_bytes: int) -> torch.Tensor:
        """Bytes on the device. Facts: zeros."""


class HostQueue:
    """Work on the host, done at once."""

    captures = False
    device = torch.device("cpu")

    def run(self, work: Work) -> None:
        """Do the work."""
        work()

    def captured(self, work: Work) -> Work:
        """The work itself."""
        return work

    def wait(self) -> None:
        """Nothing is ever under way."""

    def mark(self) -> Mark:
        """Now."""
        now = float(time.perf_counter_ns())
        return lambda: now

    def device_memory(self, num_bytes: int) -> torch.Tensor:
        """Bytes."""
        return torch.zeros(num_bytes, dtype=torch.uint8)


class CudaQueue:
    """A CUDA stream, and the memory that its graphs share: they never run at the same time."""

    captures = True

    def __init__(self, device: torch.device) -> None:
        self.device = torch.device("cuda", torch.cuda.current_device()) if device.index is None else device
        self._stream = torch.cuda.Stream(self.device)
        self._pool = torch.cuda.graph_pool_handle()
        self._anchor: torch.cuda.CUDAGraph | None = None
        """A graph of one small operation: torch gives a pool up with its last graph, and cannot begin it again."""
        self._origin: torch.cuda.Event | None = None

    def run(self, work: Work) -> None:
        """Enqueue the work."""
        with torch.cuda.stream(self._stream):
            work()

    def captured(self, work: Work) -> Work:
        """A replay of the work's CUDA graph.

        Facts: the calling thread has run the work before, on this queue: kernels are loaded and workspaces made.
        """
        if self._anchor is None:
            self._anchor = self._graph_of(lambda: torch.zeros(1, dtype=torch.float32, device=self.device))
        return partial(self._replay, self._graph_of(work))

    def _replay(self, graph: torch.cuda.CUDAGraph) -> None:
        # As `torch.cuda.stream`, which takes 10 us more to find out what this process's device is.
        before, current = torch.cuda.current_stream(self.device), torch.cuda.current_device()
        torch.cuda.set_stream(self._stream)
        try:
            graph.replay()
        finally:
            torch.cuda.set_stream(before)
            if current != self.device.index:  # setting a stream makes its device the current one
                torch.cuda.set_device(current)

    def _graph_of(self, work: Work) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with _CAPTURE, torch.cuda.stream(self._stream):
            # Other threads go on allocating and copying meanwhile.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            is_done = False
            try:
                work()
                is_done = True
            finally:
                with suppress(*(() if is_done else (RuntimeError,))):  # a broken capture is not to hide what broke it
                    graph.capture_end()
        return graph

    def wait(self) -> None:
        """Return once the stream is empty; other Python threads run meanwhile."""
        self._stream.synchronize()

    def mark(self) -> Mark:
        """An event."""
        event = torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        if self._origin is None:
            self._origin = event
        origin = self._origin
        return lambda: 1e6 * origin.elapsed_time(event)

    def device_memory(self, num_bytes: int) -> torch.Tensor:
        """Bytes that every stream may use from now on."""
        made = torch.zeros(num_bytes, dtype=torch.uint8, device=self.device)
        torch.cuda.current_stream(self.device).synchronize()
        return made


class _Precision:
    """Matrix products in float32 as it is while any thread is inside: the setting is the process's, not a thread's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._restore: Work | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._inside == 0:
                self._restore = _refuse_tf32()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0 and self._restore is not None:
                    self._restore()


def _refuse_tf32() -> Work | None:
    """What restores the setting, where it had to be changed.

    Facts: torch has an old and a new interface to it, and refuses to read by the old one what the new one has set.
    """
    setting = torch.backends.cuda.matmul
    if setting.fp32_precision != "tf32":
        return None
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:
        setting.fp32_precision = "ieee"
        return lambda: setattr(setting, "fp32_precision", "tf32")
    torch.set_float32_matmul_precision("highest")
    return lambda: torch.set_float32_matmul_precision(before)


full_precision = _Precision()
"""A context in which no float32 product is rounded to TF32. Graphs captured in it keep that."""
