"""Ragged fields on their way to the device: the header says where they lie, and how many tiles they are cut into."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.backends.backend import layouts
from colonnade.backends.feed import FeedReader
from colonnade.backends.gpu.columns import Sources
from colonnade.backends.gpu.header import Header, prefix_of, words_of
from colonnade.backends.gpu.runner import GpuRunner
from colonnade.backends.gpu.staging import count_bucket
from colonnade.core import dims
from colonnade.core.batch import Layout
from colonnade.core.expr import Field
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Instruction, Output, Program, Ref, Weights
from tests.unit.backends.gpu.runner_case import FakeColumns, ReplayQueue, dependent, proven

B, N, M = (dims.symbol(name) for name in "BNM")
PROGRAM = Program(
    inputs=(
        Input("o", "int32", (dims.add(B, 1),)),
        Input("ids", "int64", (N,), offsets="o"),
        Input("p", "int64", (dims.add(B, 1),)),
        Input("texts", "string", (M,), offsets="p"),
        Input("x", "float32", (B, 1)),
    ),
    tables=(),
    columns=(
        Column("ids", Field("ids"), None, slots=(Slot("buf", 0, 1),)),
        Column("texts", Field("texts"), None, slots=(Slot("buf", 1, 1),)),
        Column("x", Field("x"), None, slots=(Slot("buf", 2, 1),)),
    ),
    buffers=(Buffer("buf", B, 3),),
    dense=(Instruction("y", "aten.mul.Tensor", (Ref("buf"), 2)),),
    outputs=(Output("y", Ref("y"), "float32", (B, 3)),),
)
ITEMS = 4


class RaggedColumns(FakeColumns):
    """Sums of ids, and bytes of strings, of each row; reads by the addresses in the header as a kernel does."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        units = (("o", 0, ITEMS), ("p", 0, ITEMS), (None, 1, ITEMS))
        self.header = Header(words_of(layout), prefix_of(layout), units)

    def workspace(self, tiles: int) -> tuple[int, int]:
        return 3 * tiles, tiles

    def launch(
        self,
        sources: Sources,
        capacity: int,
        outputs: Mapping[str, torch.Tensor],
        status: torch.Tensor,
        tiles: int = 0,
    ) -> None:
        words = sources.header.tolist()
        rows, at = words[0], self.header.words
        assert rows <= capacity and words[self.header.prefix + 3] <= tiles
        assert sources.work is not None and sources.work.numel() >= 3 * tiles
        assert sources.arrivals is not None and sources.arrivals[:tiles].tolist() == [0] * tiles
        o, p = numbers(words[at["o"]], rows + 1), numbers(words[at["p"]], rows + 1)
        ids, ends = numbers(words[at["ids"]], o[-1]), numbers(words[at["texts"]], p[-1] + 1)
        text = bytes((ctypes.c_uint8 * ends[-1]).from_address(words[at["texts"] + 1]))
        for row in range(rows):
            said = b"".join(text[ends[k] : ends[k + 1]] for k in range(p[row], p[row + 1]))
            outputs["buf"][row] = torch.tensor(
                [sum(ids[o[row] : o[row + 1]]), sum(said), sources.buffers["float32"][row]]
            )


def numbers(address: int, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(address))


def a_feed(rows: int, rng: np.random.Generator) -> dict[str, Any]:
    lengths, counts = rng.integers(0, 30, rows), rng.integers(0, 4, rows)
    texts = [rng.bytes(int(rng.integers(0, 30))) for _ in range(counts.sum())]
    return {
        "o": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        "ids": rng.integers(0, 1000, lengths.sum()),
        "p": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "texts": np.array([*texts, None], object)[:-1],
        "x": rng.standard_normal((rows, 1)).astype(np.float32),
    }


def expected(feed: Mapping[str, Any]) -> Any:
    o, p = feed["o"], feed["p"]
    rows = [
        [feed["ids"][o[r] : o[r + 1]].sum(), sum(b"".join(feed["texts"][p[r] : p[r + 1]])), feed["x"][r, 0]]
        for r in range(len(o) - 1)
    ]
    return 2 * np.array(rows, np.float32).reshape(-1, 3)


@pytest.mark.parametrize("independent", [proven, dependent])
def test_ragged_fields_reach_the_device(independent: Any) -> None:
    plans = layouts(PROGRAM)
    queues: list[ReplayQueue] = []

    def queue() -> ReplayQueue:
        queues.append(ReplayQueue())
        return queues[-1]

    runner = GpuRunner(
        PROGRAM,
        Weights({}, {}, {}),
        [RaggedColumns(plans[0])],
        device=torch.device("cpu"),
        id_policy="error",
        independent=independent,
        queue=queue,
    )
    reader = FeedReader(PROGRAM, plans, runner.dense_inputs)
    rng = np.random.default_rng(0)
    feeds = [a_feed(rows, rng) for rows in (4, 0, 1, 5, 6, 6, 40, 5, 23, 24)]
    for feed in 4 * feeds:
        room = runner.reserve()
        outcome = runner.run(reader.read(feed, room), room)
        room.close()
        np.testing.assert_array_equal(outcome.outputs["y"], expected(feed))
    assert sum(q.replays for q in queues) > 5


def test_counts_of_elements_share_buckets() -> None:
    found = [count_bucket(n) for n in range(5000)]
    assert all(n <= bucket <= max(64, 1.25 * n) for n, bucket in enumerate(found))
    assert len(set(found)) < 30
