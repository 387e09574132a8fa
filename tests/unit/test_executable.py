from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.backends.host_runner import HostRunner
from colonnade.backends.reference import ReferenceBackend
from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Field
from colonnade.errors import FeedError, IdRangeError, OptionError, ShapeError
from colonnade.executable import Executable
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Instruction, Output, Program, Ref, Weights
from colonnade.ir.table import Table
from colonnade.ops.bucketize import Bucketize

B, C = dims.symbol("B"), dims.symbol("C")
BOUNDARIES = Const(np.arange(9, dtype=np.float32))
N = 4

PROGRAM = Program(
    inputs=(
        *(Input(f"f{i}", "float32", (B, 1)) for i in range(N)),
        Input("id", "int64", (B, 2)),
        Input("other", "int64", (C, 1)),
        Input("scale", "float32", (B, 1)),
    ),
    tables=(*(Table(f"t{i}", 10, 2) for i in range(N)), Table("u", 5, 3)),
    columns=(
        *(
            Column(f"c{i}", Apply(Bucketize(BOUNDARIES), Field(f"f{i}")), f"t{i}", slots=(Slot("x", 2 * i, 2),))
            for i in range(N)
        ),
        Column("bag", Field("id"), "u", "mean", slots=(Slot("x", 2 * N, 3),)),
        Column("lone", Field("other"), "u", slots=(Slot("o", 0, 3),)),
    ),
    buffers=(Buffer("x", B, 2 * N + 3), Buffer("o", C, 3)),
    dense=(
        Instruction("scaled", "aten.mul.Tensor", (Ref("x"), Ref("scale"))),
        Instruction("score", "aten.addmm.default", (Ref("b"), Ref("scaled"), Ref("w"))),
    ),
    outputs=(
        Output("score", Ref("score"), "float32", (B, 2)),
        Output("lone", Ref("o"), "float32", (C, 3)),
        Output("scale", Ref("scale"), "float32", (B, 1)),
        Output("bias", Ref("b"), "float32", (2,)),
    ),
    params=(("w", "float32", (2 * N + 3, 2)), ("b", "float32", (2,))),
)


def weights(seed: int = 0) -> Weights:
    rng = np.random.default_rng(seed)
    tables = {t.name: rng.standard_normal((t.rows, t.embedding_dim)).astype(np.float32) for t in PROGRAM.tables}
    params = {n: torch.from_numpy(rng.standard_normal(s).astype(np.float32)) for n, _, s in PROGRAM.params}
    return Weights(tables, params, {})


def a_feed(rows: int, others: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(rows)
    feed: dict[str, Any] = {f"f{i}": rng.uniform(-1, 10, (rows, 1)).astype(np.float32) for i in range(N)}
    feed["id"] = rng.integers(0, 5, (rows, 2))
    feed["other"] = rng.integers(0, 5, (others, 1))
    feed["scale"] = rng.standard_normal((rows, 1)).astype(np.float32)
    return feed


def expected(feed: Mapping[str, Any], w: Weights) -> np.ndarray[Any, Any]:
    parts = [w.tables[f"t{i}"][np.searchsorted(BOUNDARIES.array, feed[f"f{i}"][:, 0], side="right")] for i in range(N)]
    x = np.concatenate([*parts, w.tables["u"][feed["id"]].mean(1)], 1) * feed["scale"]
    return np.asarray(x @ w.params["w"].numpy() + w.params["b"].numpy())


@pytest.mark.parametrize("rows", [0, 1, 2, 65])
def test_answers(rows: int) -> None:
    w, feed = weights(), a_feed(rows)
    executable = Executable(PROGRAM, w, ReferenceBackend())
    got = executable(feed)
    assert list(got) == ["score", "lone", "scale", "bias"]
    assert all(type(v) is np.ndarray for v in got.values())
    np.testing.assert_allclose(got["score"], expected(feed, w), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(got["lone"], w.tables["u"][feed["other"][:, 0]])
    assert executable.program is PROGRAM and executable.weights is w


def test_torch_in_torch_out() -> None:
    w, feed = weights(), a_feed(5)
    feed["f2"] = torch.from_numpy(feed["f2"])
    got = Executable(PROGRAM, w, ReferenceBackend())(feed)
    assert all(type(v) is torch.Tensor and not v.is_inference() for v in got.values())
    np.testing.assert_allclose(got["score"].numpy(), expected({**feed, "f2": feed["f2"].numpy()}, w), rtol=1e-5)


def test_outputs_belong_to_the_caller() -> None:
    """Nothing that a later call does shows in them, and what is done to them shows nowhere."""
    w, feed = weights(), a_feed(4)
    executable = Executable(PROGRAM, w, ReferenceBackend())
    first = executable(feed)
    kept = {name: value.copy() for name, value in first.items()}
    for rows in (4, 9, 1, 4):
        executable(a_feed(rows, others=rows))
    for name, value in first.items():
        np.testing.assert_array_equal(value, kept[name])
        value[...] = -1
    second = executable(feed)
    for name, value in second.items():
        np.testing.assert_array_equal(value, kept[name])


def test_the_memory_of_a_buffer_comes_back_with_the_last_reference_to_it() -> None:
    executable = Executable(PROGRAM, weights(), ReferenceBackend())
    runner = executable._state.runner
    assert isinstance(runner, HostRunner)
    idle = runner.arenas._idle
    held = [executable(a_feed(8)) for _ in range(2)]
    part = next(iter(held[0].values()))[2:]
    held.clear()
    kept = part.copy()
    for rows in (3, 8, 20, 0):
        feed = a_feed(rows)
        np.testing.assert_allclose(executable(feed)["score"], expected(feed, weights()), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(part, kept)
    del part
    assert any(idle.values())


def test_a_swap_under_load_never_mixes_weights() -> None:
    sets = [weights(seed) for seed in range(3)]
    feed = a_feed(3)
    answers = [Executable(PROGRAM, w, ReferenceBackend())(feed)["score"].tobytes() for w in sets]
    executable = Executable(PROGRAM, sets[0], ReferenceBackend())
    seen: list[bytes] = []

    def call() -> None:
        seen.extend(executable(feed)["score"].tobytes() for _ in range(15))

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    for k in range(30):
        executable.swap(sets[k % 3])
    for caller in callers:
        caller.join()
    assert len(seen) == 45 and set(seen) <= set(answers)
    executable.swap(sets[1])
    assert executable(feed)["score"].tobytes() == answers[1]
    assert executable.report().calls == 46


def test_a_swap_computes_constants_anew() -> None:
    root = (
        Instruction("square", "aten.mul.Tensor", (Ref("b"), Ref("b"))),
        Instruction("root", "aten.sqrt.default", (Ref("square"),)),
        Instruction("more", "aten.add.Tensor", (Ref("score"), Ref("root"))),
    )
    outputs = (Output("more", Ref("more"), "float32", (B, 2)), Output("root", Ref("root"), "float32", (2,)))
    program = replace(PROGRAM, dense=(*PROGRAM.dense, *root), outputs=(*PROGRAM.outputs, *outputs))
    executable = Executable(program, weights(0), ReferenceBackend())
    for seed in (0, 1):
        executable.swap(weights(seed))
        got, size = executable(a_feed(3)), np.abs(weights(seed).params["b"].numpy())
        np.testing.assert_array_equal(got["root"], size)
        np.testing.assert_array_equal(got["more"], got["score"] + size)
        got["root"][:] = 7.0  # the caller's own
        np.testing.assert_array_equal(executable(a_feed(3))["root"], size)


def test_a_refused_swap_changes_nothing() -> None:
    executable = Executable(PROGRAM, weights(), ReferenceBackend())
    before = executable(a_feed(2))["score"]
    bad = weights(1)
    tables = {**bad.tables, "t0": bad.tables["t0"][:5]}
    del tables["t1"]
    with pytest.raises(ShapeError) as caught:
        executable.swap(Weights(tables, {"b": bad.params["b"].double()}, {}))
    assert caught.value.got.splitlines() == [
        "table 't0': float32[5, 2], want float32[10, 2]",
        "table 't1': missing, want float32[10, 2]",
        "parameter 'w': missing, want float32[11, 2]",
        "parameter 'b': float64[2], want float32[2]",
    ]
    np.testing.assert_array_equal(executable(a_feed(2))["score"], before)


def test_a_swap_says_what_no_weights_are() -> None:
    executable = Executable(PROGRAM, weights(), ReferenceBackend())
    before = executable(a_feed(2))["score"]
    good = weights(1)
    table, w, b = good.tables["t0"], good.params["w"], good.params["b"]
    tables = {**good.tables, "t0": table.astype(">f4"), "t1": table.tolist(), "t2": torch.from_numpy(table)}
    params = {"w": w.numpy(), "b": b.to("meta")}
    with pytest.raises(ShapeError) as caught:
        executable.swap(Weights(tables, params, {}))
    assert caught.value.got.splitlines() == [
        "table 't0': float32[10, 2] of the other byte order, want float32[10, 2]",
        "table 't1': a list, no numpy array, want float32[10, 2]",
        "table 't2': a Tensor, no numpy array, want float32[10, 2]",
        "parameter 'w': a ndarray, no torch tensor, want float32[11, 2]",
        "parameter 'b': float32[2] on meta, not the host, want float32[2]",
    ]
    with pytest.raises(ShapeError, match=r"as torch\.sparse_coo"):
        executable.swap(Weights(good.tables, {"w": w.to_sparse(), "b": b}, {}))
    with pytest.raises(OptionError, match="neither weights nor"):
        executable.swap(3)  # type: ignore[arg-type]
    np.testing.assert_array_equal(executable(a_feed(2))["score"], before)


def test_ids_outside_their_table() -> None:
    feed = a_feed(3)
    feed["id"][1] = [7, 1]
    feed["other"][2] = -1
    with pytest.raises(IdRangeError, match=r"'bag'.*row 1: id 7"):
        Executable(PROGRAM, weights(), ReferenceBackend())(feed)
    executable = Executable(PROGRAM, weights(), ReferenceBackend(), id_policy="zero")
    got = executable(feed)
    assert executable.report().zeroed_ids == 2
    assert not got["lone"][2].any()


def test_report() -> None:
    executable = Executable(PROGRAM, weights(), ReferenceBackend(), threads=2)
    for rows in (3, 4):
        executable(a_feed(rows))
    with pytest.raises(FeedError):
        executable({})
    report = executable.report()
    assert (report.backend, report.id_policy, report.calls, report.rows) == ("reference", "error", 2, 7)
    assert (report.num_columns, report.num_inputs) == (N + 2, N + 3)
    assert report.table_bytes == 4 * (N * 20 + 15)
    assert min(report.feed_seconds, report.columns_seconds, report.dense_seconds) > 0
    held, done, head, *tables, total = str(report).splitlines()
    assert held == f"{N + 2:,} columns of {N + 3:,} inputs on reference, id policy error"
    assert done.startswith("2 calls, 7 rows, 0 ids set to zero; feed ")
    assert head.split() == ["table", "rows", "dim", "dtype", "bytes", "place"]
    assert [line.split()[0] for line in tables] == [t.name for t in report.tables]
    assert total == f"{len(tables)} tables, {report.table_bytes:,} bytes"


@pytest.mark.parametrize(
    "options",
    [{"id_policy": "clamp"}, *({"threads": t} for t in (0, -1, "2", 2.0, True, [1], 100_000, 10**30))],
    ids=str,
)
def test_options(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        Executable(PROGRAM, weights(), ReferenceBackend(), **options)


def test_an_executable_leaves_torch_threads_alone() -> None:
    before = torch.get_num_threads()
    Executable(PROGRAM, weights(), ReferenceBackend(), threads=3)(a_feed(2))
    assert torch.get_num_threads() == before
