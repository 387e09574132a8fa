"""Columns and tape over a tile of rows at a time, against columns first and torch behind them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.backends.cpu import CpuBackend, flow
from colonnade.backends.cpu.flow import FlowRunner
from colonnade.backends.reference import ReferenceBackend
from colonnade.core import dims
from colonnade.core.expr import Field
from colonnade.errors import IdRangeError
from colonnade.executable import Executable
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import PLACE, Buffer, Input, Instruction, Output, Program, Ref, Weights
from colonnade.ir.table import Table

B = dims.symbol("B")
WIDTH = 40
ROWS = (1, 2, 5, 12, 13, 35, 36, 37, 72, 500)
SHAPES = {"m": (48, WIDTH), "b": (48,), "last": (1, 48)}


def line(output: str, op: str, *args: Any) -> Instruction:
    return Instruction(output, op if op == PLACE else f"aten.{op}", args)


N = dims.symbol("N")
PROGRAM = Program(
    inputs=(
        Input("i", "int64", (B, 1)),
        Input("r", "int64", (N,), offsets="r.offsets"),
        Input("r.offsets", "int64", (dims.add(B, 1),)),
        Input("f", "float32", (B, 3)),
        Input("g", "float32", (B, 4)),
    ),
    tables=(Table("small", 20, 8), Table("large", 500, 16)),
    columns=(
        Column("one", Field("i"), "small", "sum", slots=(Slot("x", 0, 8), Slot("y", 0, 8))),
        Column("many", Field("r"), "large", "mean", slots=(Slot("x", 8, 16),)),
        Column("numbers", Field("f"), None, "none", slots=(Slot("x", 24, 3),)),
    ),
    buffers=(Buffer("x", B, WIDTH), Buffer("y", B, 8)),
    dense=(
        line("part", "slice.Tensor", Ref("y"), 1, 0, 8),
        line("square", "mul.Tensor", Ref("part"), Ref("part")),
        line("z", PLACE, Ref("square"), Ref("x"), 27),
        line("z2", PLACE, Ref("g"), Ref("z"), 35),
        line("z3", PLACE, Ref("first"), Ref("z2"), 39),
        line("h", "linear.default", Ref("z3"), Ref("m"), Ref("b")),
        line("a", "relu_.default", Ref("h")),
        line("s", "linear.default", Ref("a"), Ref("last")),
        line("p", "sigmoid_.default", Ref("s")),
    ),
    outputs=(Output("a", Ref("a"), "float32", (B, 48)), Output("p", Ref("p"), "float32", (B, 1))),
    params=tuple((name, "float32", shape) for name, shape in SHAPES.items()),
)
PROGRAM = replace(PROGRAM, dense=(line("first", "slice.Tensor", Ref("g"), 1, 0, 1), *PROGRAM.dense))


def weights(seed: int = 0) -> Weights:
    torch.manual_seed(seed)
    tables = {t.name: torch.randn(t.rows, t.embedding_dim).numpy() for t in PROGRAM.tables}
    return Weights(tables, {name: torch.randn(shape) for name, shape in SHAPES.items()}, {})


def feed(rows: int, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 5, rows)
    return {
        "i": rng.integers(0, 20, (rows, 1)),
        "r": rng.integers(0, 500, int(lengths.sum())),
        "r.offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        "f": rng.standard_normal((rows, 3)).astype(np.float32),
        "g": rng.standard_normal((rows, 4)).astype(np.float32),
    }


def made(program: Program = PROGRAM, threads: int = 2, policy: str = "error") -> Executable:
    return Executable(program, weights(), CpuBackend(), id_policy=policy, threads=threads)


def flows(executable: Executable) -> bool:
    runner = executable.runner
    assert isinstance(runner, FlowRunner)
    return runner._flow is not None


def same(got: Mapping[str, Any], want: Mapping[str, Any]) -> None:
    assert got.keys() == want.keys()
    for name in want:
        assert (got[name].dtype, got[name].shape) == (want[name].dtype, want[name].shape)
        np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_answers_of_every_number_of_rows(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "PARALLEL_NANOSECONDS", 0)
    ours, plain = made(threads=threads), Executable(PROGRAM, weights(), ReferenceBackend())
    assert flows(ours)
    for rows in (0, *ROWS):
        given = feed(rows, rows)
        same(ours(given), plain(given))
    given = feed(500)
    whole, few = ours(given), ours({**feed(500), **_head(given, 7)})
    np.testing.assert_array_equal(whole["p"][:7], few["p"])
    torches = ours({name: torch.from_numpy(value) for name, value in given.items()})
    assert torch.equal(torches["p"], torch.from_numpy(whole["p"]))
    report = ours.report()
    assert report.columns_seconds > 0 and report.dense_seconds > 0


def test_many_rows_of_large_matrices_go_the_way_they_went(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "SMALL", 0)
    ours = made()
    given = feed(flow.FEW_ROWS + 1)
    few = {**given, **_head(given, flow.FEW_ROWS)}
    flowing = ours(few)
    assert len(ours.runner._flows) == 1  # type: ignore[attr-defined]
    ours.runner._flows.clear()  # type: ignore[attr-defined]
    many = ours(given)
    assert not ours.runner._flows  # type: ignore[attr-defined]
    for name, value in flowing.items():
        np.testing.assert_array_equal(many[name][: flow.FEW_ROWS], value)


def _head(given: dict[str, Any], rows: int) -> dict[str, Any]:
    offsets = given["r.offsets"][: rows + 1]
    return {"i": given["i"][:rows], "r": given["r"][: offsets[-1]], "r.offsets": offsets, "f": given["f"][:rows],
            "g": given["g"][:rows]}  # fmt: skip


def test_ids_outside_their_tables() -> None:
    given = feed(90)
    given["i"][77] = 20
    with pytest.raises(IdRangeError, match=r"id 20 in batch row 77"):
        made()(given)
    ours = made(policy="zero")
    plain = Executable(PROGRAM, weights(), ReferenceBackend(), id_policy="zero")
    same(ours(given), plain(given))
    assert ours.report().zeroed_ids == 1


def test_answers_are_the_callers_own() -> None:
    ours = made()
    first = ours(feed(40))
    kept = first["p"].copy()
    ours(feed(40, 9))
    np.testing.assert_array_equal(first["p"], kept)


def test_concurrent_callers() -> None:
    ours = made()
    feeds = [feed(rows, rows) for rows in ROWS]
    want = [ours(given)["p"] for given in feeds]
    wrong: list[int] = []

    def call(first: int) -> None:
        for k in range(60):
            at = (first + k) % len(feeds)
            if not np.array_equal(ours(feeds[at])["p"], want[at]):
                wrong.append(at)

    callers = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def _changed(why: str) -> Program:
    if why == "a buffer is an output":
        return replace(PROGRAM, outputs=(*PROGRAM.outputs, Output("y", Ref("y"), "float32", (B, 8))))
    if why == "an output is computed behind the tape":
        behind = line("u", "sum.dim_IntList", Ref("a"), (1,))
        outputs = (*PROGRAM.outputs, Output("u", Ref("u"), "float32", (B,)))
        return replace(PROGRAM, dense=(*PROGRAM.dense, behind), outputs=outputs)
    if why == "two outputs are one value":
        return replace(PROGRAM, outputs=(*PROGRAM.outputs, Output("q", Ref("p"), "float32", (B, 1))))
    if why == "an output is an input":
        return replace(PROGRAM, outputs=(*PROGRAM.outputs, Output("g", Ref("g"), "float32", (B, 4))))
    assert why == "columns of two batches"
    other = dims.symbol("C")
    return replace(
        PROGRAM,
        inputs=(*PROGRAM.inputs, Input("o", "int64", (other, 1))),
        columns=(*PROGRAM.columns, Column("o", Field("o"), "small", "sum", slots=(Slot("w", 0, 8),))),
        buffers=(*PROGRAM.buffers, Buffer("w", other, 8)),
        outputs=(*PROGRAM.outputs, Output("w", Ref("w"), "float32", (other, 8))),
    )


@pytest.mark.parametrize(
    "why",
    [
        "a buffer is an output",
        "an output is computed behind the tape",
        "two outputs are one value",
        "an output is an input",
        "columns of two batches",
    ],
)
def test_what_is_no_flow_is_answered_as_before(why: str) -> None:
    program = _changed(why)
    ours, plain = made(program), Executable(program, weights(), ReferenceBackend())
    assert not flows(ours)
    given = feed(50)
    if "o" in {i.name for i in program.inputs}:
        given["o"] = np.arange(9)[:, None]
    same(ours(given), plain(given))
