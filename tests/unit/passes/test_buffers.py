"""Where the columns lie that no concat takes."""

from __future__ import annotations

import torch

from colonnade.backends.cpu.backend import CpuBackend
from colonnade.backends.reference import ReferenceBackend
from colonnade.executable import Executable
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.reshape import Reshape
from colonnade.passes.assemble import assemble
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing.graphs import Builder, check_passes


def test_columns_of_a_batch_share_a_buffer_and_outputs_have_their_own() -> None:
    b = Builder()

    def column(key: str, batch: str, width: int):  # type: ignore[no-untyped-def]
        found = b.add(Gather(), b.table("t_" + key, 9, width), b.input(key, "int64", batch, 1), 0)
        return b.add(Reshape(), found, [-1, width])

    first, second, third = (column(key, "B", 2) for key in "pqr")
    fetched, other, lone = column("s", "B", 3), column("u", "C", 2), column("v", "C", 1)
    total = b.add(Add(), b.add(Add(), first, second), third)
    graph = b.done(total=total, fetched=fetched, other=b.add(Mul(), other, lone))
    feeds = [{k: torch.arange(n).reshape(n, 1) for k, n in zip("pqrsuv", (4, 4, 4, 4, 3, 3), strict=True)}]
    check_passes(graph, COLUMNS, feeds)
    program, weights = assemble(graph)
    assert sorted((x.name, x.width) for x in program.buffers) == [("column_s", 3), ("columns", 6), ("columns_2", 3)]
    slots = {c.name: [(s.output, s.offset, s.width) for s in c.slots] for c in program.columns}
    assert slots["s"] == [("column_s", 0, 3)]
    assert [slots[k] for k in "pqr"] == [[("columns", offset, 2)] for offset in (0, 2, 4)]
    answers = [Executable(program, weights, backend)(feeds[0]) for backend in (CpuBackend(), ReferenceBackend())]
    assert answers[0].keys() == answers[1].keys()
    for name, value in answers[0].items():
        assert torch.equal(value, answers[1][name])
