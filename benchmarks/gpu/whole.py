"""A whole model: requests in every form, the share of each part, the cpu backend and the dense rest alone beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.gpu.clock import Clock
from benchmarks.gpu.ours import Bound, ColumnsAlone, Ours, bytes_in, bytes_out, poisoned, record_batch
from benchmarks.gpu.rows import Check, Found, Refused
from benchmarks.gpu.setting import Setting
from benchmarks.gpu.skeleton import fill, skeleton
from colonnade.backends.backend import layouts
from colonnade.backends.cpu import CpuBackend
from colonnade.backends.dense import DensePlan
from colonnade.backends.feed import Feed, FeedReader, Request
from colonnade.core.expr import Apply, walk
from colonnade.ir.column import Column
from colonnade.ir.program import Output, Program, Ref, Weights
from colonnade.ops.split import Split
from colonnade.testing.bench import torch_threads
from colonnade.testing.compare import EPS, POOLED_FACTOR, difference
from colonnade.testing.points import columns_only
from colonnade.testing.requests import make_request
from colonnade.testing.rows import Row
from colonnade.testing.timing import Call, Timing, alternate

Array = NDArray[Any]

LARGE_ROWS = 1 << 17
PACKED, ARRAYS, ARROW, DENSE = "packed", "dict of arrays", "record batch", "dense in a CUDA graph, alone"
IN_PLACE = "packed where it is copied from"
CPU_PACKED, CPU_ARRAYS = "cpu backend, packed", "cpu backend, dict of arrays"
REFERENCE = "cpu backend"
MARGIN = 1e-3
"""A prediction is a rounded probability: this near to one half another order of sums may round the other way."""
SETS = 4
CALLS = 5
"""Answers compared of each side: the first two run piece by piece, those after them as a graph."""
MOST_TOKENS = 10
"""Of a string in an ordinary request."""
CPU_RUNS = 10


@dataclass
class Model:
    """A skeleton filled, with everything that is compiled of it once.

    scores: the model up to its rounding.   expected: the same by the cpu backend.
    """

    name: str
    program: Program
    weights: Weights
    ours: Ours
    columns: ColumnsAlone
    cpu: Ours | None
    scores: Ours
    expected: Ours

    @staticmethod
    def of(name: str, setting: Setting, large_rows: int = LARGE_ROWS) -> Model:
        """Fill and compile."""
        setting.say(f"{name}: fill and compile")
        program = skeleton(name, setting.large_rows(large_rows))
        weights = fill(program, 0, setting.device)
        return Model(
            name,
            program,
            weights,
            Ours(program, weights, setting.target),
            ColumnsAlone(columns_only(program), weights, setting.target),
            Ours(program, weights, "cpu", setting.threads) if setting.threads else None,
            Ours(unrounded(program), weights, setting.target),
            Ours(unrounded(program), weights, "cpu"),
        )


def unrounded(program: Program) -> Program:
    """The program with the probability in place of its rounding, which the last instruction is.

    Facts: a program that does not end in a rounding stays as it is.
    """
    if not program.dense or not program.dense[-1].op.startswith("aten.round"):
        return program
    last = program.dense[-1]
    (operand,) = last.args
    outputs = tuple(_renamed(o, last.output, operand) for o in program.outputs)
    return replace(program, dense=program.dense[:-1], outputs=outputs)


def _renamed(output: Output, old: str, operand: Ref) -> Output:
    return replace(output, value=operand) if output.value == Ref(old) else output


def feed_of(program: Program, rows: int, seed: int = 0) -> dict[str, Array]:
    """A random request."""
    return dict(make_request(program, "ordinary", rows, seed).feed)


def case(name: str) -> Callable[[Setting], Iterator[Found]]:
    """The case of a model."""

    def run(setting: Setting) -> Iterator[Found]:
        model = Model.of(name, setting)
        for rows in setting.sizes(1, 32, 256, 2048):
            yield from _measured(setting, model, rows)

    return run


def _measured(setting: Setting, model: Model, rows: int) -> Iterator[Found]:
    setting.say(f"{model.name}: whole, batch {rows}: check")
    feed = feed_of(model.program, rows)
    with model.ours.in_place(feed) as in_place:
        checks, calls = _checked_calls(model, feed, in_place)
        yield from (Refused(model.name, "whole", rows, side, c) for side, c in checks.items() if not c.ok)
        setting.say(f"{model.name}: whole, batch {rows}: time")
        sides = alternate({k: c for k, c in calls.items() if checks[k].ok}, setting.runs)
    request = model.ours.request(feed)
    parts, more = _parts(setting, model, rows, request, feed)
    yield from (Refused(model.name, "parts", rows, "columns", c) for c in more.values() if not c.ok)
    if model.cpu is not None:
        beside = {CPU_PACKED: model.cpu.packed_call(model.cpu.request(feed)), CPU_ARRAYS: model.cpu.call(feed)}
        with torch_threads(setting.threads):
            sides |= alternate(beside, min(CPU_RUNS, setting.runs))
    outputs = model.ours.executable(feed)
    facts = {
        "in kB": bytes_in(request) / 1e3,
        "out kB": bytes_out(outputs) / 1e3,
        "ones": float(np.mean([np.mean(np.asarray(v)) for v in outputs.values()])),
        "cpu threads": setting.threads,
        **{f"{part} us piece by piece": s * 1e6 for part, s in model.ours.profile(request).items()},
        **({"notes": model.ours.notes} if model.ours.notes else {}),
    }
    yield Row(model.name, "whole", rows, sides, {**checks, **more}, parts=parts, facts=facts)


def _checked_calls(
    model: Model, feed: Mapping[str, Array], in_place: Call | None
) -> tuple[dict[str, Check], dict[str, Call]]:
    calls = {
        PACKED: model.ours.packed_call(model.ours.request(feed)),
        ARRAYS: model.ours.call(feed),
        ARROW: model.ours.call(record_batch(model.program, feed)),
    }
    if in_place is not None:
        calls[IN_PLACE] = in_place
    want = model.expected.executable(feed)
    before = checked_scores(model.scores.executable(feed), want)
    checks = {side: checked_calls(call, want) for side, call in calls.items()}
    # What is rounded hides much: no side gets a number where the probabilities differ.
    return {side: check if before.ok else before for side, check in checks.items()}, calls


def checked_calls(call: Call, scores: Mapping[str, Any]) -> Check:
    """The answers of the first calls: a runner may answer later ones in another way than the first."""
    found = [checked_outputs(call(), scores) for _ in range(CALLS)]
    worst = max(c.worst for c in found)
    return Check(REFERENCE, sum(c.elements for c in found), sum(c.outside for c in found), worst, found[0].note)


def checked_scores(got: Mapping[str, Any], want: Mapping[str, Any]) -> Check:
    """Probabilities within a tenth of the margin; NaN on both sides would count as equal, and is ruled out after."""
    found = {name: difference(np.asarray(got[name]), np.asarray(score), MARGIN / 10) for name, score in want.items()}
    outside = sum(d.outside or (d.elements or 1 if d.problem else 0) for d in found.values())
    worst = max(d.worst for d in found.values())
    elements = max(1, sum(d.elements for d in found.values()))
    return Check(REFERENCE, elements, outside, worst if np.isfinite(worst) else 3e38, "probabilities")


def checked_outputs(got: Mapping[str, Any], scores: Mapping[str, Any]) -> Check:
    """Rounded probabilities against probabilities: equal but where one half is within the margin."""
    elements = outside = close = 0
    worst = 0.0
    for name, score in scores.items():
        want, value = np.asarray(score), np.asarray(got[name])
        if value.shape != want.shape:
            return Check(REFERENCE, want.size, want.size, note=f"{name}: shape {list(value.shape)}")
        near = np.abs(want - 0.5) < MARGIN
        # NaN is wrong everywhere, also where either answer would do.
        wrong = ~np.isfinite(value) | ((value != np.round(want)) & ~near)
        elements += want.size
        outside += int(wrong.sum())
        close += int(near.sum())
        worst = max(worst, float(np.abs(np.where(wrong, value - want, 0)).max(initial=0.0)))
    return Check(REFERENCE, elements, outside, worst if np.isfinite(worst) else 3e38, f"{close} near one half")


def checked_columns(model: Model, bound: Bound, feed: Mapping[str, Array], rows: int) -> Check:
    """Every slot against the cpu backend: single rows bit-equal, sums within their tolerance."""
    program = model.columns.program
    want = {b.name: np.full((rows, b.width), np.nan, np.float32) for b in program.buffers}
    backend, layout = CpuBackend(), layouts(program)[0]
    packed = FeedReader(program, [layout]).read(feed).packed[0]
    backend.compile(program, model.weights, layout, id_policy="error", threads=1).run(packed, want)
    bound.call()
    elements = outside = 0
    worst = 0.0
    for name, buffer in bound.buffers.items():
        got = buffer.cpu().numpy()
        for column in program.columns:
            for slot in (s for s in column.slots if s.output == name):
                at = slice(slot.offset, slot.offset + slot.width)
                allowed = _allowed(column, model.weights)
                found = difference(np.ascontiguousarray(got[:, at]), np.ascontiguousarray(want[name][:, at]), allowed)
                elements += found.elements
                outside += found.outside or (found.elements if found.problem else 0)
                worst = max(worst, found.worst)
        # Every slot of the buffer was compared, and NaN would equal NaN.
        written = np.isfinite(want[name])
        outside += int((~np.isfinite(got) & written).sum())
    return Check(REFERENCE, elements, outside, worst if np.isfinite(worst) else 3e38)


def _allowed(column: Column, weights: Weights) -> float:
    """8 * eps * n * sum |e| of as many rows as a string has tokens, each as large as the table has any; else 0."""
    if column.table is None or not any(isinstance(e, Apply) and isinstance(e.op, Split) for e in walk(column.ids)):
        return 0.0
    return 2 * POOLED_FACTOR * EPS * MOST_TOKENS**2 * float(np.abs(weights.tables[column.table]).max())


def _parts(
    setting: Setting, model: Model, rows: int, request: Request, feed: Feed
) -> tuple[dict[str, Timing], dict[str, Check]]:
    """Each part by itself: reading on the host, copies over the bus, columns and dense in graphs of their own."""
    clock = setting.clock
    feeds = [feed_of(model.columns.program, rows, seed) for seed in range(SETS)]
    bound = [model.columns.bind(model.columns.packed(f), setting.device) for f in feeds]
    check = checked_columns(model, bound[0], feeds[0], rows)
    parts = alternate({"read dict": lambda: model.ours.request(feed)}, setting.runs)
    parts["copy in"] = _copied(clock, bytes_in(request), to_device=True)
    if check.ok:
        parts["columns"] = clock.graph([b.call for b in bound])
    parts[DENSE] = clock.graph(_dense_calls(model, request, rows, setting.device))
    parts["copy back"] = _copied(clock, bytes_out(model.ours.executable(feed)), to_device=False)
    return parts, {"columns": check}


def _dense_calls(model: Model, request: Request, rows: int, device: torch.device) -> Sequence[Call]:
    plan = DensePlan(model.program, model.weights.params, device)
    tensors = {k: v.to(device) for k, v in request.tensors.items() if isinstance(v, torch.Tensor)}
    calls = []
    for _ in range(SETS):
        buffers = {b.name: poisoned(rows, b.width, device).normal_() for b in model.program.buffers}
        values = {**tensors, **buffers}
        calls.append(partial(plan.run, values, request.sizes))
    return calls


def _copied(clock: Clock, size: int, *, to_device: bool) -> Timing:
    """One copy between pinned and device memory, over rotating blocks."""
    cuda = clock.device.type == "cuda"
    calls: list[Call] = []
    for _ in range(SETS):
        host = torch.randint(0, 255, (size,), dtype=torch.uint8, pin_memory=cuda)
        there = torch.empty(size, dtype=torch.uint8, device=clock.device)
        source, target = (host, there) if to_device else (there, host)
        calls.append(partial(target.copy_, source, non_blocking=True))
    return clock.graph(calls)
