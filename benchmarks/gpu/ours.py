"""Our side: columns bound to one packed batch each, and whole requests in every form; all that touches a backend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

import colonnade.compiler as compiler
from colonnade.backends.arena import ALIGNMENT
from colonnade.backends.backend import layouts
from colonnade.backends.feed import Feed, FeedReader, PackedFeed, Request
from colonnade.core.batch import Packed
from colonnade.errors import ShapeError
from colonnade.executable import Executable
from colonnade.ir.program import Program, Weights
from colonnade.testing.timing import Call

Array = NDArray[Any]


class Ours:
    """A program compiled for a target: requests of every form, and its columns alone."""

    def __init__(self, program: Program, weights: Weights, target: str, threads: int = 1) -> None:
        self.program = program
        self.weights = weights
        self.executable = Executable(program, weights, compiler.backend(target), threads=threads)
        self.runner = self.executable.runner
        self.reader = self.executable.reader  # a room knows the layouts of its own program alone

    def request(self, feed: Feed) -> Request:
        """The request, read and packed."""
        return self.reader.read(feed)

    def packed_call(self, request: Request) -> Call:
        """Answers a request that lies packed in host memory."""
        return lambda: self.runner.run(request).outputs

    @contextmanager
    def in_place(self, feed: Feed) -> Iterator[Call | None]:
        """Answers a request that lies packed where the runner copies it from; None where it has no such place."""
        room = self.runner.reserve()
        if room is None:
            yield None
            return
        try:
            # The first answer makes the memory as large as it need be: what is read after it stays in its place.
            self.runner.run(self.reader.read(feed, room), room)
            request = self.reader.read(feed, room)
            yield lambda: self.runner.run(request, room).outputs
        finally:
            room.close()

    def profile(self, request: Request) -> dict[str, float]:
        """Seconds of each part of a request run piece by piece, where the runner can tell."""
        found = getattr(self.runner, "profile", None)
        return {} if found is None else {part: ns * 1e-9 for part, ns in found(request).items()}

    @property
    def notes(self) -> str:
        """What the runner says costs time."""
        return "; ".join(getattr(self.runner, "notes", ()))

    def call(self, feed: Feed | PackedFeed) -> Call:
        """Answers a request as a caller gives it."""
        return lambda: self.executable(feed)


@dataclass(frozen=True)
class Bound:
    """The columns bound to one batch: `call` enqueues them; `buffers` are what they write, NaN before."""

    call: Call
    buffers: Mapping[str, torch.Tensor]
    status: torch.Tensor


class ColumnsAlone:
    """The columns of a program with one batch symbol, on device memory of their own."""

    def __init__(self, program: Program, weights: Weights, target: str, threads: int = 1) -> None:
        found = layouts(program)
        if len(found) != 1:
            raise ShapeError("columns of one batch symbol are timed", got=f"{len(found)} layouts", want="1")
        self.program = program
        self.layout = found[0]
        self._reader = FeedReader(program, found)
        backend = compiler.backend(target)
        self._columns: Any = backend.compile(program, weights, self.layout, id_policy="error", threads=threads)

    def packed(self, feed: Feed) -> Packed:
        """The columns' fields of a request."""
        return self._reader.read(feed).packed[0]

    def bind(self, packed: Packed, device: torch.device) -> Bound:
        """One launch over a batch that lies on the device; by the cpu backend where there is no CUDA device."""
        buffers = {b.name: poisoned(packed.rows, b.width, device) for b in self.program.buffers}
        status = torch.zeros(1, dtype=torch.int64, device=device)
        columns = self._columns
        if device.type != "cuda":
            arrays = {name: buffer.numpy() for name, buffer in buffers.items()}
            return Bound(lambda: columns.run(packed, arrays), buffers, status)
        sources, tiles = columns.upload(packed)
        return Bound(lambda: columns.launch(sources, packed.rows, buffers, status, tiles), buffers, status)


def on_device(array: Array, device: torch.device) -> torch.Tensor:
    """A copy of a host array."""
    return torch.from_numpy(np.array(array)).to(device)


def poisoned(rows: int, width: int, device: torch.device) -> torch.Tensor:
    """float32 [rows, width] of NaN."""
    if device.type == "cuda":
        return torch.full((rows, width), float("nan"), device=device)
    block = torch.full((rows * width + ALIGNMENT // 4,), float("nan"))
    begin = -block.data_ptr() % ALIGNMENT // 4
    return block[begin : begin + rows * width].view(rows, width)


def record_batch(program: Program, feed: Mapping[str, Array]) -> pa.RecordBatch:
    """A request of dense inputs as an Arrow record batch."""
    return pa.RecordBatch.from_arrays(
        [_arrow(feed[i.name]) for i in program.inputs], names=[i.name for i in program.inputs]
    )


def _arrow(array: Array) -> pa.Array:
    if array.dtype == object:
        return pa.array(array.reshape(-1), type=pa.large_binary())
    flat = pa.array(np.ascontiguousarray(array).reshape(-1))
    width = array.size // max(1, len(array))
    return flat if width == 1 else pa.FixedSizeListArray.from_arrays(flat, width)


def bytes_in(request: Request) -> int:
    """What must cross the bus for a request. Units: bytes."""
    packed = sum(
        sum(b.nbytes for b in p.buffers.values()) + p.string_data.nbytes + p.string_offsets.nbytes
        for p in request.packed
    )
    return packed + sum(t.nbytes for t in request.tensors.values())


def bytes_out(outputs: Mapping[str, Any]) -> int:
    """What must cross the bus for an answer. Units: bytes."""
    return sum(int(np.asarray(v).nbytes) for v in outputs.values())
