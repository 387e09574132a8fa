"""A CUDA queue without CUDA: what it leaves of the calling thread's state, and what a broken capture says."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from colonnade.backends.gpu import graphs
from colonnade.backends.gpu.graphs import CudaQueue
from colonnade.errors import OptionError

DEVICES = [torch.device("cuda", k) for k in (0, 1)]


class Stream:
    """What is known of a stream."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


class Thread:
    """The current device, and the current stream of each, as torch keeps them for a thread."""

    def __init__(self) -> None:
        self.device = 0
        self.streams = [Stream(d) for d in DEVICES]

    def set_stream(self, stream: Stream) -> None:
        assert stream.device.index is not None
        self.device = stream.device.index
        self.streams[self.device] = stream

    def set_device(self, device: int) -> None:
        self.device = device


class Graph:
    """A graph whose capture ends as `end` says."""

    end: Exception | None = None

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.seen: list[Stream] = []

    def replay(self) -> None:
        self.seen.append(self.thread.streams[self.thread.device])

    def capture_begin(self, **options: Any) -> None: ...

    def capture_end(self) -> None:
        if self.end is not None:
            raise self.end


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> Thread:
    made = Thread()
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: made.streams[device.index])
    monkeypatch.setattr(torch.cuda, "current_device", lambda: made.device)
    monkeypatch.setattr(torch.cuda, "set_stream", made.set_stream)
    monkeypatch.setattr(torch.cuda, "set_device", made.set_device)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    return made


@pytest.mark.parametrize("current", [0, 1])
def test_a_replay_leaves_the_current_device_and_streams(thread: Thread, current: int) -> None:
    queue, graph = CudaQueue(DEVICES[0]), Graph(thread)
    thread.device, streams = current, thread.streams[:]
    queue._replay(graph)  # type: ignore[arg-type]
    assert graph.seen == [queue._stream]
    assert (thread.device, thread.streams) == (current, streams)


def test_a_broken_capture_says_what_broke_it(thread: Thread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: Graph(thread))
    queue = CudaQueue(DEVICES[0])
    queue._anchor = Graph(thread)  # type: ignore[assignment]
    monkeypatch.setattr(Graph, "end", RuntimeError("the capture was invalidated"))

    def work() -> None:
        raise torch.OutOfMemoryError("no room")

    with pytest.raises(torch.OutOfMemoryError, match="no room"):
        queue.captured(work)
    with pytest.raises(RuntimeError, match="invalidated"):
        queue.captured(lambda: None)


def test_pinned_memory_that_the_host_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def zeros(*args: Any, **options: Any) -> torch.Tensor:
        raise RuntimeError("CUDA error: out of memory\nmore")

    monkeypatch.setattr(torch, "zeros", zeros)
    with pytest.raises(OptionError, match="1,000 bytes: CUDA error: out of memory") as caught:
        graphs.host_memory(DEVICES[0], 1000)
    assert "the host" in caught.value.message
