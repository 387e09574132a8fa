"""Pooling and its gradients by the kernels, against the loops of the CPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from colonnade.train.gpu import segment
from colonnade.train.gpu.module import CAPABILITIES, Kernels
from colonnade.train.gpu.segment import GpuPooling, Tuning
from colonnade.train.reduce.cpu import cpu_pooling
from colonnade.train.segments import Layout, Segment, layout_of
from tests.unit.train.gpu.devices import DEVICES

TINY = Tuning(values=32, short=2, piece=16, step=16, least_piece=4, programs=3, hot=3, copies=2)
POOLINGS = ("sum", "mean", "sqrtn", "max", "none")


@dataclass
class Drawn:
    """A batch on the CPU."""

    layout: Layout
    offsets: torch.Tensor
    inverse: torch.Tensor
    weights: torch.Tensor | None
    rows: list[torch.Tensor]
    sizes: list[int]

    def batch(self, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        weights = None if self.weights is None else self.weights.to(device)
        return self.offsets.to(device), self.inverse.to(device), weights

    def empty(self, fill: float) -> list[torch.Tensor]:
        rows_of = dict(zip(self.layout.unpooled, self.sizes, strict=True))
        batch = self.offsets.shape[1] - 1
        return [torch.full((rows_of.get(f.outputs[0], batch) * f.width,), fill) for f in self.layout.flats]


def drawn(
    seed: int,
    poolings: tuple[str, ...],
    batch: int,
    longest: int,
    *,
    dims: tuple[int, ...] = (),
    weighted: bool = False,
    corners: bool = False,
    distinct: int = 5,
) -> Drawn:
    """Features over two matrices; the pooled ones share an output, or two."""
    rng = np.random.default_rng(seed)
    dims = dims or (int(rng.choice([1, 4, 7, 8])), int(rng.choice([3, 8, 20])))
    segments: list[Segment] = []
    widths, ends = [0, 0], [0, 0]
    for f, pooling in enumerate(poolings):
        matrix, output = f % len(dims), int(rng.integers(2))
        if pooling == "none":
            widths.append(dims[matrix])
            segments.append(Segment(matrix, dims[matrix], pooling, len(widths) - 1, 0, f))
        else:
            segments.append(Segment(matrix, dims[matrix], pooling, output, ends[output], f))
            ends[output] += dims[matrix]
    widths[:2] = ends
    lengths = rng.integers(0, longest + 1, (len(poolings), batch))
    lengths[rng.random(lengths.shape) < 0.3] = 0
    offsets = np.zeros((len(poolings), batch + 1), np.int64)
    stops = lengths.cumsum().reshape(lengths.shape)
    offsets[:, 1:] = stops
    offsets[1:, 0] = stops[:-1, -1] if batch else 0
    total = int(lengths.sum())
    rows = [torch.from_numpy(rng.normal(size=(distinct + 2, d)).astype(np.float32)) for d in dims]
    for x in rows:
        x[-1] = torch.nan  # of no element
        if corners:
            special = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0])
            x.view(-1)[::3] = special[torch.arange(len(x.view(-1)[::3])) % 5]
    weights = torch.from_numpy(rng.choice([-1.0, 0.0, 0.5, 1.0, 2.25], total).astype(np.float32))
    flags = tuple(bool(x) for x in rng.random(len(poolings)) < 0.6) if weighted else ()
    layout = layout_of(segments, widths, flags)
    sizes = [int(lengths[f].sum()) for f in layout.unpooled.values()]
    inverse = torch.from_numpy(rng.integers(0, distinct, total).astype(np.int32))
    return Drawn(layout, torch.from_numpy(offsets), inverse, weights if weighted else None, rows, sizes)


def on(device: str, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [x.to(device) for x in tensors]


def pooled(case: Drawn, pooling: GpuPooling, device: str) -> list[torch.Tensor]:
    """The outputs, checked."""
    want, made = case.empty(7.0), on(device, case.empty(-5.0))
    cpu_pooling(case.layout).pool(case.batch("cpu"), case.rows, want)
    pooling.pool(case.batch(device), on(device, case.rows), made, case.sizes)
    for ours, theirs in zip(made, want, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-5, atol=1e-4, equal_nan=True)
    return want


def check(case: Drawn, device: str, tuning: Tuning, *, deterministic: bool) -> list[torch.Tensor]:
    """Outputs and gradients; one flat of three gets no gradient. Gives the gradients of rows."""
    pooling = GpuPooling(case.layout, tuning)
    flats = pooled(case, pooling, device)
    generator = torch.Generator().manual_seed(0)
    known = [None if k % 3 == 2 else torch.randn(x.shape, generator=generator) for k, x in enumerate(flats)]
    want = [torch.zeros_like(x) for x in case.rows]
    of_weights = None if case.weights is None else torch.zeros_like(case.weights)
    cpu_pooling(case.layout).spread(case.batch("cpu"), case.rows, flats, known, want, of_weights)
    there = [None if g is None else g.to(device) for g in known]
    rows, outputs = on(device, case.rows), on(device, flats)
    shapes = [x.shape for x in rows]
    made = pooling.spread(case.batch(device), shapes, outputs, there, rows, case.sizes, deterministic)
    for ours, theirs in zip(made, want, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-4, equal_nan=True)
    if of_weights is not None:
        found = pooling.weigh(case.batch(device), rows, outputs, there, case.sizes)
        torch.testing.assert_close(found.cpu(), of_weights, rtol=1e-3, atol=1e-3, equal_nan=True)
    return made


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_kernels_do_what_the_loops_do(device: str, pooling: str) -> None:
    @settings(max_examples=4 if device == "cpu" else 100)
    @given(st.integers(0, 2**32), st.integers(0, 4), st.sampled_from([1, 3, 13]), st.booleans(), st.booleans())
    @example(0, 0, 1, True, False)
    @example(1, 1, 13, True, True)
    def run(seed: int, batch: int, longest: int, weighted: bool, deterministic: bool) -> None:
        case = drawn(seed, (pooling, pooling, "sum"), batch, longest, weighted=weighted)
        check(case, device, TINY, deterministic=deterministic)

    run()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_values_that_are_no_numbers_stay(device: str, pooling: str) -> None:
    case = drawn(3, (pooling,), 4, 6, corners=True)
    pooled(case, GpuPooling(case.layout, TINY), device)


@pytest.mark.parametrize("device", DEVICES)
def test_one_bag_holds_all(device: str) -> None:
    case = drawn(1, ("mean", "sum"), 3, 0, dims=(8,))
    offsets = torch.tensor([[0, 0, 0, 0], [0, 0, 61, 61]])
    inverse = torch.arange(61, dtype=torch.int32) % 5
    case = Drawn(case.layout, offsets, inverse, None, case.rows, [])
    for deterministic in (False, True):
        check(case, device, TINY, deterministic=deterministic)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_wider_than_a_program(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "WIDEST", 8)
    for deterministic in (False, True):
        case = drawn(2, ("sum", "max", "mean"), 2, 9, dims=(13,), weighted=True)
        check(case, device, TINY, deterministic=deterministic)


@pytest.mark.parametrize("device", DEVICES)
def test_a_feature_in_several_outputs(device: str) -> None:
    segments = [Segment(0, 4, "sum", 0, 0, 0), Segment(0, 4, "mean", 0, 4, 0), Segment(0, 4, "max", 1, 0, 0)]
    case = drawn(5, ("sum",), 3, 9, dims=(4,), weighted=True)
    layout = layout_of(segments, [8, 4], (True,))
    case = Drawn(layout, case.offsets, case.inverse, case.weights, case.rows, [])
    for deterministic in (False, True):
        check(case, device, TINY, deterministic=deterministic)


@pytest.mark.parametrize("device", DEVICES)
def test_hot_rows_are_added_in_copies(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "LEAST_HOT", 1)
    monkeypatch.setattr(segment, "SAMPLES", 16)
    monkeypatch.setattr(segment, "SAMPLE_BLOCK", 8)
    case = drawn(4, ("sum", "mean", "sum"), 4, 9, dims=(8, 4), weighted=True)
    case.inverse[::2] = 1
    check(case, device, TINY, deterministic=False)


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_bits_twice(device: str) -> None:
    case = drawn(6, ("sum", "max", "none"), *((3, 9) if device == "cpu" else (500, 300)), weighted=True)
    tuning = TINY if device == "cpu" else Tuning()
    first, second = (check(case, device, tuning, deterministic=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("dim", [4, 8, 16, 32, 64, 128, 256, 416])
@pytest.mark.parametrize("deterministic", [False, True])
def test_many_long_bags(dim: int, deterministic: bool) -> None:
    case = drawn(dim, ("sum", "mean", "sqrtn"), 200, 3000, dims=(dim,), distinct=2000)
    check(case, "cuda", Tuning(), deterministic=deterministic)


POINTERS = {
    "rows": "*fp32", "offsets": "*i64", "inverse": "*i32", "weights": "*fp32", "out": "*fp32", "units": "*i64",
    "queue": "*i32", "counters": "*i32", "partials": "*fp32", "given": "*fp32", "grads": "*fp32", "hot": "*i32",
    "listed": "*i32", "found": "*i32", "members": "*i32", "owners": "*i32", "flat": "*fp32", "made": "*fp32",
    "keys": "*i64", "sources": "*i64", "factors": "*fp32", "count": "i32", "num": "i32", "step": "i32",
    "first": "i32", "end": "i32", "stride": "i32",
}  # fmt: skip
CONSTANTS = {
    "DIM": 24, "ROW": 24, "BLOCK": 32, "CHUNKS": 1, "R": 16, "SHORT": 8, "PIECE": 128, "ALIGN": 4, "WEIGHTED": True,
    "MAX": False, "DIVIDED": True, "UNPOOLED": False, "E": 16, "COPIES": 32, "HOT": True, "SAMPLES": 1024, "LEAST": 8,
}  # fmt: skip
NAMES = (
    "pool_bags", "pool_pieces", "spread_bags", "spread_pieces", "find_hot", "add_copies", "own_greatest",
    "spread_greatest", "weigh", "list_sources",
)  # fmt: skip


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("name", NAMES)
def test_kernels_compile(name: str, capability: int) -> None:
    run = Kernels(("pool", "spread"), interpret=False)
    given_ = {n: v for n, v in CONSTANTS.items() if n in getattr(run._module, name).arg_names}
    made = run.compiled(name, POINTERS, given_, capability)
    assert ".local" not in made.asm["ptx"]
