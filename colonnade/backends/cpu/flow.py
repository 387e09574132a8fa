"""Answers requests whose dense rest is one tape: columns and tape pass over the rows together, a tile at a time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy.typing as npt
import torch

from colonnade.backends.arena import Room
from colonnade.backends.backend import Outcome
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.columns import PARALLEL_NANOSECONDS, CpuColumns
from colonnade.backends.feed import Request
from colonnade.backends.host_runner import HostRunner
from colonnade.backends.pool import POOL
from colonnade.backends.tape.led import LedCall, LedTape, stride_of
from colonnade.backends.tape.lower import taped
from colonnade.backends.tape.products import ROWS
from colonnade.backends.tape.tape import LEAST_ROWS, TILES_A_THREAD, TapeCall
from colonnade.core import dims
from colonnade.ir.program import ITEM, Program, Ref, Weights

Array = npt.NDArray[Any]

MULTIPLICATIONS = 30
"""That a thread does in a nanosecond."""
FEW_ROWS, SMALL = 128, 1 << 16
"""Rows up to which one call is faster, and elements of matrices, which each tile reads, up to which it always is."""


@dataclass(frozen=True)
class _Flow:
    """What answers requests in one call. outputs: the result of the tape that each is.   rows: the symbol of rows."""

    columns: CpuColumns
    led: LedTape
    strides: Mapping[str, int]
    outputs: tuple[tuple[str, int], ...]
    rows: str

    @property
    def most(self) -> int:
        """Rows up to which it is the faster way."""
        tape = self.led.tape
        return tape.most if tape.work <= SMALL else min(tape.most, FEW_ROWS)

    def call(self) -> tuple[Any, LedCall]:
        """Contexts of the columns, and of the tape."""
        contexts = self.columns.led(self.strides)
        return contexts, LedCall(self.led, contexts.contexts)


class FlowRunner(HostRunner):
    """As a `HostRunner`; where the dense rest is one tape, buffers are as large as a tile of rows for each thread."""

    def __init__(self, program: Program, weights: Weights, columns: Sequence[CpuColumns], threads: int) -> None:
        super().__init__(program, weights, columns, partial(taped, threads=threads, tables=weights.tables))
        self._threads = threads
        self._flow = self._found(program, columns)
        self._flows: list[tuple[Any, LedCall]] = []

    def run(self, request: Request, room: Room | None = None) -> Outcome:
        """The answer to a request, with the time of `columns` and `dense`: of one call, in parts as threads spent it.

        Errors: those of `HostRunner.run`.
        """
        flow = self._flow
        if flow is None or not 0 < request.packed[0].rows <= flow.most:
            return super().run(request, room)
        packed = request.packed[0]
        began = time.perf_counter_ns()
        try:
            contexts, call = self._flows.pop()
        except IndexError:
            contexts, call = flow.call()
        work = flow.columns.place_led(packed, contexts)
        helpers, tile = self._share(flow, packed.rows, work)
        made = call.run(packed.rows, request.tensors, helpers, tile)
        spent, share = time.perf_counter_ns() - began, call.share
        failed, zeroed = (int(contexts.contexts[:, word // 8].sum()) for word in (w.FAILED, w.ZEROED))
        self._flows.append((contexts, call))
        if failed:
            return super().run(request, room)  # says what is wrong
        outputs = {name: torch.from_numpy(made[k]) if request.is_torch else made[k] for name, k in flow.outputs}
        columns = int(spent * share)
        return Outcome(outputs, zeroed, {"columns": columns, "dense": spent - columns})

    def _share(self, flow: _Flow, rows: int, work: float) -> tuple[int, int]:
        """The number of helpers, and the rows of a tile."""
        tape = flow.led.tape
        helpers, tile = 0, flow.led.tile
        if self._threads > 1 and rows > LEAST_ROWS and work + rows * tape.work / MULTIPLICATIONS > PARALLEL_NANOSECONDS:
            helpers = POOL.helpers(self._threads - 1, flow.led.code.helper)
            part = -(-rows // (TILES_A_THREAD * (helpers + 1)))
            tile = min(tile, max(LEAST_ROWS, part + -part % ROWS))
        return helpers, tile

    def _found(self, program: Program, columns: Sequence[CpuColumns]) -> _Flow | None:
        """None where something else reads or makes what the columns write, or what is answered."""
        lines = self._dense.rest[0]
        call = self._dense.op(lines[0].op) if lines else None
        if (
            len(columns) != 1
            or not isinstance(call, TapeCall)
            or self._dense.fresh != {o.name for o in program.outputs}
        ):
            return None
        tape, written = call.tape, columns[0].output_words
        items = [line for line in lines[1:] if line.op == ITEM and line.args[0] == Ref(lines[0].output)]
        results = {line.output: line.args[1] for line in items}
        read = {name for name, _, _ in tape.operands}
        rows = dims.symbol(tape.symbol)
        if len(results) != len(lines) - 1 or any(b.name not in written or b.rows != rows for b in program.buffers):
            return None
        if not written.keys() <= read or not read <= written.keys() | self._dense.inputs:
            return None
        if columns[0].layout.rows != rows:
            return None
        strides = {b.name: stride_of(b.width) for b in program.buffers}
        outputs = tuple((o.name, results[o.value.name]) for o in program.outputs)
        return _Flow(columns[0], LedTape(call, written), strides, outputs, tape.symbol)
