"""A lane's memory: how it grows, and that nothing is under way in what it lets go of."""

from __future__ import annotations

import weakref

import pytest
import torch

from colonnade.backends.gpu.graphs import HostQueue, Work
from colonnade.backends.gpu.lanes import SPARE, Block, Lane
from colonnade.backends.gpu.memory import refusal
from colonnade.backends.gpu.staging import StagingPlan
from colonnade.backends.sizes import dim_function
from colonnade.errors import OptionError
from colonnade.ir.program import Program
from tests.unit.backends.gpu import runner_case as rc

REFUSED = refusal(Program((), (), (), (), (), ()))
MIB = 1 << 20


def test_a_block_doubles_where_that_is_little_and_takes_an_eighth_more_beyond() -> None:
    sizes: list[int] = []

    def allocate(num_bytes: int) -> torch.Tensor:
        sizes.append(num_bytes)
        return torch.empty(num_bytes, dtype=torch.uint8, device="meta")

    block = Block(allocate, REFUSED)
    for wanted, most in ((1, 256), (300, 768), (3 * MIB, 6 * MIB), (5 * MIB, 6 * MIB), (40 * MIB, 40 * MIB + SPARE)):
        before = block.tensor.numel()
        assert block.grow(wanted) == (wanted > before)
        assert wanted <= block.tensor.numel() == most
    assert len(sizes) == 4
    block.grow(10_000_000_001)
    assert 10_000_000_001 <= block.tensor.numel() <= 11_250_000_256


@pytest.mark.parametrize("at", ["first", "later"])
def test_no_memory_for_a_block(at: str) -> None:
    def allocate(num_bytes: int) -> torch.Tensor:
        if at == "first" or num_bytes > 1000:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7 MiB. GPU 0 has")
        return torch.empty(num_bytes, dtype=torch.uint8)

    with pytest.raises(OptionError, match=r"Tried to allocate 7 MiB") as caught:
        Block(allocate, REFUSED).grow(2000)
    assert "the device has too little memory for a request" in caught.value.message


class Late(HostQueue):
    """Does nothing before it is waited for, and holds no memory by itself."""

    def __init__(self) -> None:
        self.waiting: list[Work] = []
        self.made: list[weakref.ref[torch.Tensor]] = []

    def run(self, work: Work) -> None:
        self.waiting.append(work)

    def wait(self) -> None:
        for work in self.waiting:
            work()
        self.waiting.clear()

    def device_memory(self, num_bytes: int) -> torch.Tensor:
        return super().device_memory(num_bytes).fill_(0xFF)


class Counting(rc.FakeColumns):
    """Columns that count arrivals."""

    def workspace(self, tiles: int) -> tuple[int, int]:
        return 0, self.arrivals

    arrivals = 0


def test_arrivals_are_zero_before_anything_else_is_enqueued() -> None:
    """What is freed may be given to another stream at once: no fill of it may be under way then."""
    queue, columns = Late(), Counting(rc.LAYOUTS[0])
    plan = StagingPlan(rc.PROGRAM, rc.LAYOUTS, [columns.header], [], frozenset("B"))
    rows = [dim_function(b.rows) for b in rc.PROGRAM.buffers]
    lane = Lane(queue, plan, rc.PROGRAM.buffers, rows, [columns], REFUSED)
    assert not queue.waiting and not lane._arrivals.tensor.any()
    reader = rc.Case().reader
    for rows_of, arrivals in ((2, 100), (5, 5000)):
        columns.arrivals = arrivals
        prepared = lane.prepare(plan.bucket(reader.read(rc.a_feed(rows_of))))
        assert not queue.waiting
        (source,) = prepared.staged.sources
        assert source.arrivals is not None and len(source.arrivals) == arrivals and not source.arrivals.any()
