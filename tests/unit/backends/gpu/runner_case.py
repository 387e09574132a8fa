"""A small program and columns that compute with torch what a kernel would: one field after the other into a buffer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from colonnade.backends.backend import layouts
from colonnade.backends.feed import FeedReader, Request
from colonnade.backends.gpu.columns import Sources
from colonnade.backends.gpu.graphs import HostQueue, Queue, Work
from colonnade.backends.gpu.header import Header
from colonnade.backends.gpu.padding import Dependent, Proven
from colonnade.backends.gpu.runner import GpuRunner
from colonnade.core import dims
from colonnade.core.batch import Layout, Packed
from colonnade.core.expr import Field
from colonnade.errors import IdRangeError
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import REQUIRE, Buffer, Input, Instruction, Output, Program, Ref, Weights

B = dims.symbol("B")
T = dims.symbol("T")
WIDTH = 5
FIELDS = (("x", "float32", 2), ("n", "int64", 1), ("s", "string", 1))

PROGRAM = Program(
    inputs=(
        *(Input(name, dtype, (B, width)) for name, dtype, width in FIELDS),
        Input("scale", "float32", (B, 1)),
        Input("more", "float32", (T,)),
        Input("label", "string", (B, 1)),
    ),
    tables=(),
    columns=(
        Column("x", Field("x"), None, "none", slots=(Slot("buf", 0, 2),)),
        Column("n", Field("n"), None, "none", slots=(Slot("buf", 2, 1),)),
        Column("s", Field("s"), None, "none", slots=(Slot("buf", 3, 2),)),
    ),
    buffers=(Buffer("buf", B, WIDTH),),
    dense=(
        Instruction("sizes", REQUIRE, (T, 3, "node 'more'")),
        Instruction("scaled", "aten.mul.Tensor", (Ref("buf"), Ref("scale"))),
        Instruction("score", "aten.addmm.default", (Ref("b"), Ref("scaled"), Ref("w"))),
        Instruction("positive", "aten.relu_.default", (Ref("buf"),)),
    ),
    outputs=(
        Output("score", Ref("score"), "float32", (B, 2)),
        Output("positive", Ref("positive"), "float32", (B, WIDTH)),
        Output("scale", Ref("scale"), "float32", (B, 1)),
        Output("label", Ref("label"), "string", (B, 1)),
        Output("bias", Ref("b"), "float32", (2,)),
    ),
    params=(("w", "float32", (WIDTH, 2)), ("b", "float32", (2,))),
)


def weights(seed: int = 0) -> Weights:
    rng = np.random.default_rng(seed)
    params = {n: torch.from_numpy(rng.standard_normal(s).astype(np.float32)) for n, _, s in PROGRAM.params}
    return Weights({}, params, {})


def a_feed(rows: int, seed: int = 0, longest: int = 9) -> dict[str, Any]:
    rng = np.random.default_rng([rows, seed])
    texts = [[rng.bytes(int(rng.integers(0, longest + 1)))] for _ in range(rows)]
    return {
        "x": rng.standard_normal((rows, 2)).astype(np.float32),
        "n": rng.integers(0, 100, (rows, 1)),
        "s": np.array(texts, object).reshape(rows, 1),
        "scale": rng.standard_normal((rows, 1)).astype(np.float32),
        "more": np.zeros(3, np.float32),
        "label": np.array([[b"l%d" % i] for i in range(rows)], object).reshape(rows, 1),
    }


def expected(feed: Mapping[str, Any], given: Weights) -> dict[str, Any]:
    texts = [t for (t,) in feed["s"]]
    parts = [*feed["x"].T, feed["n"][:, 0], [len(t) for t in texts], [t[0] if t else -1 for t in texts]]
    buffer = np.array(parts, np.float32).T.reshape(-1, WIDTH)
    w, b = (given.params[n].numpy() for n in "wb")
    return {
        "score": (buffer * feed["scale"]) @ w + b,
        "positive": np.maximum(buffer, 0),
        "scale": feed["scale"],
        "label": feed["label"],
        "bias": b,
    }


class FakeColumns:
    """Writes each field's numbers, and length and first byte of each string; a negative `n` is an id outside.

    Facts: what it does is captured like a kernel: nothing depends on the number of rows but values on the device.
    """

    header = Header({}, 8, ())

    def workspace(self, tiles: int) -> tuple[int, int]:
        return 0, 0

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.capacities: list[int] = []

    def launch(
        self,
        sources: Sources,
        capacity: int,
        outputs: Mapping[str, torch.Tensor],
        status: torch.Tensor,
        tiles: int = 0,
    ) -> None:
        self.capacities.append(capacity)
        rows, out = sources.header[0], outputs["buf"]
        is_row = torch.arange(capacity, device=out.device) < rows
        for name, offset in (("x", 0), ("n", 2)):
            place = self.layout.places[name]
            buffer = sources.buffers[place.dtype]
            index = rows * place.start + torch.arange(capacity * place.width, device=out.device)
            values = buffer[index.clamp(max=buffer.numel() - 1)].view(capacity, place.width)
            if name == "n":
                status += ((values[:, 0] < 0) & is_row).sum()
            write(out, offset, values.float(), is_row)
        element = torch.arange(capacity, device=out.device).clamp(max=rows - 1) + rows * self.layout.places["s"].start
        start, end = sources.string_offsets[element], sources.string_offsets[element + 1]
        first = torch.where(end > start, sources.string_data[start].long(), -1)
        write(out, 3, torch.stack((end - start, first), 1).float(), is_row)

    def diagnose(self, packed: Packed) -> IdRangeError:
        place = self.layout.places["n"]
        values = packed.buffers["int64"][packed.rows * place.start :][: packed.rows]
        return IdRangeError("ids outside", got=str(values[values < 0].tolist()))


def write(out: torch.Tensor, offset: int, values: torch.Tensor, is_row: torch.Tensor) -> None:
    target = out[:, offset : offset + values.shape[1]]
    target.copy_(torch.where(is_row[:, None], values, target))


class ReplayQueue(HostQueue):
    """The host's queue, as if it had graphs: a replay does the same work with the same memory again."""

    captures = True

    def __init__(self) -> None:
        self.captured_works = 0
        self.replays = 0
        self.allocated = 0

    def captured(self, work: Work) -> Work:
        self.captured_works += 1

        def replay() -> None:
            self.replays += 1
            work()

        return replay

    def device_memory(self, num_bytes: int) -> torch.Tensor:
        self.allocated += 1
        return super().device_memory(num_bytes).fill_(0xFF)  # NaNs, and numbers outside of all


LAYOUTS = layouts(PROGRAM)


def proven(program: Program) -> Proven | Dependent:
    return Proven("B")


def dependent(program: Program) -> Proven | Dependent:
    return Dependent("for the test", "everywhere")


class Case:
    """A runner, its reader, and the queues of its lanes."""

    def __init__(
        self,
        *,
        program: Program = PROGRAM,
        device: str = "cpu",
        independent: Callable[[Program], Proven | Dependent] = proven,
        replays: bool = False,
        id_policy: str = "error",
        num_lanes: int = 2,
        seed: int = 0,
        queue: Callable[[], Queue] | None = None,
    ) -> None:
        self.queues: list[ReplayQueue] = []
        self.weights = weights(seed)
        self.layouts = layouts(program)
        self.columns = FakeColumns(self.layouts[0])
        self.runner = GpuRunner(
            program,
            self.weights,
            [self.columns],
            device=torch.device(device),
            id_policy=id_policy,
            num_lanes=num_lanes,
            independent=independent,
            queue=self._queue if replays else queue,
        )
        self.reader = FeedReader(program, self.layouts, self.runner.dense_inputs)

    def _queue(self) -> ReplayQueue:
        self.queues.append(ReplayQueue())
        return self.queues[-1]

    def request(self, feed: Mapping[str, Any]) -> Request:
        return self.reader.read(feed)

    def answer(self, feed: Mapping[str, Any], packed_in_place: bool = True) -> dict[str, Any]:
        if not packed_in_place:
            return self.runner.run(self.reader.read(feed)).outputs
        room = self.runner.reserve()
        try:
            return self.runner.run(self.reader.read(feed, room), room).outputs
        finally:
            room.close()

    def check(self, feed: Mapping[str, Any], packed_in_place: bool = True) -> dict[str, Any]:
        got = self.answer(feed, packed_in_place)
        want = expected(feed, self.weights)
        assert list(got) == list(want)
        for name, value in want.items():
            assert got[name].shape == value.shape, name
            if name == "score":
                np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-4)
            else:
                np.testing.assert_array_equal(got[name], value, err_msg=name)
        return got
