"""Pooling and its gradients by the kernels, against the loops of the CPU."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
import triton
from hypothesis import example, given, settings
from hypothesis import strategies as st
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from colonnade.train.gpu import launches, segment, spreading
from colonnade.train.gpu.launches import FILES, Tuning, write_add_copies, write_pool, write_spread
from colonnade.train.gpu.module import CAPABILITIES, OPTIONS, Kernels
from colonnade.train.gpu.segment import GpuPooling
from colonnade.train.gpu.spreading import GpuSpreading
from colonnade.train.gpu.units import Units, groups_of
from colonnade.train.reduce import ops
from colonnade.train.reduce.cpu import cpu_pooling
from colonnade.train.reduce.segment import Elements, SegmentPlan
from colonnade.train.segments import Layout, Segment, layout_of, matrices_in
from tests.unit.train.gpu.devices import DEVICES

TINY = Tuning(32, 2, 16, 4, 16, 3, 16, 3, samples=16, hot=3, copies=2, most_hot=4)
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
    layout_seed: int | None = None,
) -> Drawn:
    """Features over two matrices; the pooled ones share an output, or two. layout_seed: in place of the seed."""
    rng, drawn_by = np.random.default_rng(seed), np.random.default_rng(seed if layout_seed is None else layout_seed)
    dims = dims or (int(drawn_by.choice([1, 4, 7, 8])), int(drawn_by.choice([3, 8, 20])))
    segments: list[Segment] = []
    widths, ends = [0, 0], [0, 0]
    for f, pooling in enumerate(poolings):
        matrix, output = f % len(dims), int(drawn_by.integers(2))
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
    flags = tuple(bool(x) for x in drawn_by.random(len(poolings)) < 0.6) if weighted else ()
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
    back = GpuSpreading(pooling)
    flat = back.spread(case.batch(device), shapes, outputs, there, rows, case.sizes, deterministic)
    made = matrices_in(flat, shapes)
    for ours, theirs in zip(made, want, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-4, equal_nan=True)
    if of_weights is not None:
        found = back.weigh(case.batch(device), rows, outputs, there, case.sizes)
        torch.testing.assert_close(found.cpu(), of_weights, rtol=1e-3, atol=1e-3, equal_nan=True)
    return made


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_kernels_do_what_the_loops_do(device: str, pooling: str) -> None:
    @settings(max_examples=4 if device == "cpu" else 30)
    @given(st.integers(0, 2**32), st.integers(0, 4), st.sampled_from([1, 3, 13]), st.booleans(), st.booleans())
    @example(0, 0, 1, True, False)
    @example(1, 1, 13, True, True)
    def run(seed: int, batch: int, longest: int, weighted: bool, deterministic: bool) -> None:
        # Each layout has kernels of its own: a device gets one, which is compiled once.
        layout_seed = seed if device == "cpu" else 0
        case = drawn(seed, (pooling, pooling, "sum"), batch, longest, weighted=weighted, layout_seed=layout_seed)
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
    monkeypatch.setattr(launches, "WIDEST", 8)
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
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("by", ["merged", "top", "copies"])
def test_hot_rows_are_added_in_copies(device: str, weighted: bool, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements of one row are merged; or added up within a piece where their row is one of the first; or neither."""
    monkeypatch.setattr(spreading, "LEAST_HOT", 1)
    monkeypatch.setattr(spreading, "SAMPLE_BLOCK", 8)
    tuning = {"merged": replace(TINY, merged=1), "top": TINY, "copies": replace(TINY, top=1, most_hot=8)}[by]
    case = drawn(4, ("sum", "mean", "max", "none", "sum"), 3, 9, dims=(8, 4), weighted=weighted)
    case.inverse[::2] = 1
    case.inverse[1::4] = 0
    text = write_spread([group.branch(0, 0) for group in groups_of(case.layout)], tuning, True, False)
    assert ("REPEATS=1, TOP=0" in text, "TOP=1" in text) == (by == "merged", by == "copies")
    check(case, device, tuning, deterministic=False)


def test_values_are_added_four_at_once_where_each_thread_has_some() -> None:
    """A thread that holds what another holds would add it once more."""
    branches = [groups_of(drawn(4, ("sum",), 3, 9, dims=(dim,)).layout)[0].branch(0, dim) for dim in (4, 8, 128, 416)]
    assert launches.write_spread(branches, Tuning(), True, True).count("WIDE=4") == 4
    assert launches.write_spread(branches, TINY, True, True).count("WIDE=4") == 2  # of rows that need 128 themselves
    assert launches.write_spread(branches, Tuning(), True, False).count("WIDE=1") == 4


def test_what_a_step_makes_begins_where_the_last_did() -> None:
    """Else code that was compiled for multiples of 16 bytes would be compiled anew for other numbers of rows."""
    for rows in (1, 2, 3, 4, 7):
        shapes = [torch.Size((rows, 5)), torch.Size((1, 3)), torch.Size((rows, 4))]
        hot = spreading._Hot.of(shapes, Tuning(), torch.device("cpu"))
        assert not any(x.data_ptr() % 16 for x in (hot.flat, hot.all, hot.found, *hot.sums, *hot.numbers))


@pytest.mark.parametrize("device", DEVICES)
def test_more_groups_than_one_launch_has(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "MOST_GROUPS", 2)
    check(drawn(8, ("sum", "mean", "max", "none"), 3, 4), device, TINY, deterministic=False)


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_bits_twice(device: str) -> None:
    case = drawn(6, ("sum", "max", "none"), *((3, 9) if device == "cpu" else (500, 300)), weighted=True)
    tuning = TINY if device == "cpu" else Tuning()
    first, second = (check(case, device, tuning, deterministic=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("dim", [4, 8, 64, 416])
@pytest.mark.parametrize("deterministic", [False, True])
def test_many_long_bags(dim: int, deterministic: bool) -> None:
    case = drawn(dim, ("sum", "mean", "sqrtn"), 200, 3000, dims=(dim,), distinct=2000)
    check(case, "cuda", Tuning(), deterministic=deterministic)


@pytest.mark.gpu
@pytest.mark.parametrize("deterministic", [False, True])
def test_a_plan_runs_where_its_rows_lie(deterministic: bool) -> None:
    case = drawn(11, POOLINGS, 300, 40, dims=(8, 20), weighted=True)
    assert case.weights is not None
    plan = SegmentPlan(case.layout.segments, case.layout.widths)
    found = []
    for device in ("cpu", "cuda"):
        offsets, inverse, weights = case.batch(device)
        rows = [x.requires_grad_() for x in on(device, [x.clone() for x in case.rows])]
        weights = weights.clone().requires_grad_()
        elements = Elements(offsets, inverse, case.layout.weighted, tuple(case.sizes))

        def loss(rows: list[torch.Tensor], weights: torch.Tensor, elements: Elements = elements) -> torch.Tensor:
            return sum(
                (x.sin().sum() for x in plan.run(elements, weights, rows)), torch.zeros((), device=weights.device)
            )

        text = plan.text_of(case.layout.weighted)
        torch.library.opcheck(ops.pool, (rows, offsets, inverse, weights, text, case.sizes))
        torch.use_deterministic_algorithms(deterministic)
        try:
            loss(rows, weights).backward()
            with torch.autocast(device, torch.bfloat16):
                torch.compile(loss, backend="aot_eager", fullgraph=True)(rows, weights).backward()
        finally:
            torch.use_deterministic_algorithms(False)
        found.append([x.grad.cpu() for x in (*rows, weights)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3, equal_nan=True)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")
def test_a_step_neither_copies_nor_waits() -> None:
    case = drawn(12, ("sum", "mean", "max"), 3000, 10, dims=(8, 20))
    rows = on("cuda", case.rows)
    pooling, (offsets, inverse, _) = GpuPooling(case.layout), case.batch("cuda")
    flats, back = on("cuda", case.empty(0.0)), GpuSpreading(pooling)
    shapes = [x.shape for x in rows]

    def step() -> None:
        pooling.pool((offsets, inverse, None), rows, flats, [])
        back.spread((offsets, inverse, None), shapes, flats, [None, *flats[1:]], rows, [], False)

    step()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


POINTERS = {
    **dict.fromkeys(("rows", "weights", "out", "partials", "given", "grads", "flat", "made", "factors"), "*fp32"),
    **dict.fromkeys(("inverse", "queue", "counters", "hot", "found", "matrices", "owners"), "*i32"),
    **dict.fromkeys(("offsets", "units", "listed", "keys", "sources"), "*i64"),
}
CONSTANTS = {
    "DIM": 24, "ROW": 24, "BLOCK": 32, "R": 16, "ALIGN": 4, "WEIGHTED": True, "MAX": False, "DIVIDED": True,
    "UNPOOLED": False, "E": 16, "SAMPLES": 2048, "LEAST": 8, "MOST": 64, "TOP": 8,
}  # fmt: skip


def check_compiled(run: Kernels, name: str, capability: int, warps: int = 1) -> None:
    kernel = getattr(run._module, name)
    constants = {n: v for n, v in CONSTANTS.items() if n in kernel.arg_names}
    types = {n: POINTERS.get(n.rstrip("0123456789"), "i32") for n in kernel.arg_names}
    source = ASTSource(kernel, types | dict.fromkeys(constants, "constexpr"), constants)
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=OPTIONS | {"num_warps": warps})
    assert ".local" not in made.asm["ptx"]


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_kernels_compile(capability: int) -> None:
    run = Kernels(FILES, interpret=False)
    check_compiled(run, "find_hot", capability, 8)
    for name in ("own_greatest", "spread_greatest", "weigh", "list_sources"):
        check_compiled(run, name, capability)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_kernels_of_plans_compile(capability: int) -> None:
    weighted = capability != 90
    case = drawn(0, ("mean", "sum", "none"), 1, 1, dims=(8, 300), weighted=weighted)
    groups = groups_of(case.layout)
    units = Units(groups, torch.device("cpu"))
    pool = write_pool(units.branches([g.dim for g in groups]), Tuning())
    for text in (pool, write_spread(units.branches([0] * len(groups)), Tuning(), weighted, capability >= 90)):
        run = Kernels(FILES, text, interpret=False)
        check_compiled(run, "bags", capability)
        check_compiled(run, "pieces", capability)
    check_compiled(
        Kernels(FILES, write_add_copies((8, 20, 416), Tuning()), interpret=False), "add_copies", capability, 4
    )
