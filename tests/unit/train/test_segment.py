"""Pooling and its gradients: against the backends' reference, torch's autograd in float64, EmbeddingBag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.core.pooling import pool
from colonnade.errors import GradientError
from colonnade.train.reduce import cpu, ops
from colonnade.train.reduce.segment import Elements, Segment, SegmentPlan, reference

EPS = float(np.finfo(np.float32).eps)


@dataclass
class Drawn:
    """A batch: what is pooled, and how."""

    segments: list[Segment]
    widths: list[int]
    elements: Elements
    weights: torch.Tensor | None
    rows: list[torch.Tensor]


def drawn(seed: int, batch: int, longest: int, corners: bool = False) -> Drawn:
    """Features of every pooling over two matrices; two share an output."""
    rng = np.random.default_rng(seed)
    dims = [int(rng.choice([1, 4, 8, 11, 16])), int(rng.choice([3, 8, 24]))]
    poolings = ["sum", "mean", "sqrtn", "max", "none", "sum", "mean", "sqrtn", "max", "none"]
    segments, widths, at = [], [0], 0
    for f, pooling in enumerate(poolings):
        dim = dims[f % 2]
        if pooling == "none":
            widths.append(dim)
            segments.append(Segment(f % 2, dim, pooling, len(widths) - 1))
        else:
            segments.append(Segment(f % 2, dim, pooling, 0, at))
            at += dim
    widths[0] = at
    lengths = rng.integers(0, longest + 1, (len(segments), batch))
    lengths[rng.random(lengths.shape) < 0.2] = 0
    ends = lengths.cumsum().reshape(lengths.shape)
    offsets = np.zeros((len(segments), batch + 1), np.int64)
    offsets[:, 1:] = ends
    offsets[1:, 0] = ends[:-1, -1] if batch else 0
    total, sizes = int(lengths.sum()), [7, 5]
    inverse = rng.integers(0, 5, total).astype(np.int32)
    rows = [torch.from_numpy(rng.normal(size=(n, d)).astype(np.float32)) for n, d in zip(sizes, dims, strict=True)]
    if corners:
        for x in rows:
            x.view(-1)[::3] = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0])[
                torch.arange(len(x.view(-1)[::3])) % 5
            ]
    weights = torch.from_numpy(rng.choice([-1.0, 0.0, 0.5, 1.0, 2.25], total).astype(np.float32))
    weighted = tuple(f >= 5 for f in range(len(segments)))
    elements = Elements(torch.from_numpy(offsets), torch.from_numpy(inverse), weighted)
    return Drawn(segments, widths, elements, weights, rows)


def parts_of(case: Drawn, outputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return [outputs[s.output][:, s.at : s.at + s.embedding_dim] for s in case.segments]


@given(st.integers(0, 2**32), st.integers(0, 5), st.sampled_from([1, 3, 12, 300]), st.booleans())
def test_outputs_have_the_bits_of_the_backends(seed: int, batch: int, longest: int, corners: bool) -> None:
    case = drawn(seed, batch, longest, corners)
    made = parts_of(case, SegmentPlan(case.segments, case.widths).run(case.elements, case.weights, case.rows))
    for f, (segment, part) in enumerate(zip(case.segments, made, strict=True)):
        offsets = case.elements.offsets[f].numpy()
        vectors = case.rows[segment.rows][case.elements.inverse[offsets[0] : offsets[-1]].long()]
        weights = case.weights[int(offsets[0]) : int(offsets[-1])] if case.elements.weighted[f] else None
        if segment.pooling == "none":
            want = vectors if weights is None else vectors * weights[:, None]
        else:
            numbers = torch.repeat_interleave(torch.arange(batch), torch.from_numpy(np.diff(offsets)))
            want = pool(vectors, numbers, weights, segment.pooling, batch)
        # A CPU may multiply and add at once, where there are weights.
        exact = segment.pooling in ("none", "max") or weights is None
        rtol, atol = (0.0, 0.0) if exact else (1e-5, 1e-4)
        what = f"{segment} of {np.diff(offsets)} elements"
        torch.testing.assert_close(
            part, want, rtol=rtol, atol=atol, equal_nan=True, msg=lambda said, what=what: f"{said}\n{what}"
        )


@given(st.integers(0, 2**32), st.integers(0, 5), st.sampled_from([1, 3, 12, 300]))
def test_gradients_are_those_of_torch_in_double(seed: int, batch: int, longest: int) -> None:
    case = drawn(seed, batch, longest)
    rows = [x.clone().requires_grad_() for x in case.rows]
    weights = case.weights.clone().requires_grad_()
    outputs = SegmentPlan(case.segments, case.widths).run(case.elements, weights, rows)
    exact_rows = [x.double().requires_grad_() for x in case.rows]
    exact_weights = case.weights.double().requires_grad_()
    rng = torch.Generator().manual_seed(seed % 2**31)
    total, exact = torch.zeros(()), torch.zeros((), dtype=torch.float64)
    for f, (segment, part) in enumerate(zip(case.segments, parts_of(case, outputs), strict=True)):
        by = exact_weights if case.elements.weighted[f] else None
        offsets, inverse = case.elements.offsets[f].numpy(), case.elements.inverse.numpy()
        want = reference(segment, offsets, inverse, by, exact_rows[segment.rows])
        factors = torch.randn(want.shape, generator=rng)
        total, exact = total + (part * factors).sum(), exact + (want * factors).sum()
    total.backward()
    exact.backward()
    pairs = [*zip(rows, exact_rows, strict=True), (weights, exact_weights)]
    for ours, theirs in pairs:
        want = torch.zeros_like(theirs) if theirs.grad is None else theirs.grad
        scale = max(1.0, float(want.abs().max()) if want.numel() else 1.0)
        torch.testing.assert_close(ours.grad.double(), want, rtol=1e-4, atol=2e-5 * scale)


@dataclass
class Tall:
    """One feature of many batch rows, of a dim that takes blocks of several widths."""

    plan: SegmentPlan
    elements: Elements
    weights: torch.Tensor | None
    rows: torch.Tensor
    numbers: torch.Tensor

    @staticmethod
    def of(pooling: str, dim: int, lengths: list[int], weighted: bool = False) -> Tall:
        rng = np.random.default_rng(len(lengths) + dim)
        total, batch = sum(lengths), len(lengths)
        offsets = torch.tensor([0, *lengths]).cumsum(0)[None]
        inverse = torch.from_numpy(rng.integers(0, 40, total).astype(np.int32))
        rows = torch.from_numpy(rng.normal(size=(40, dim)).astype(np.float32))
        weights = torch.from_numpy(rng.uniform(0.5, 2, total).astype(np.float32)) if weighted else None
        numbers = torch.repeat_interleave(torch.arange(batch), torch.tensor(lengths))
        plan = SegmentPlan([Segment(0, dim, pooling, 0)], [dim])
        return Tall(plan, Elements(offsets, inverse, (weighted,)), weights, rows, numbers)

    def run(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The output, and the gradient of the rows under a random one of the output."""
        rows = self.rows.clone().requires_grad_()
        (out,) = self.plan.run(self.elements, self.weights, [rows])
        out.backward(torch.randn(out.shape, generator=torch.Generator().manual_seed(1)))
        assert rows.grad is not None
        return out.detach(), rows.grad


TALL = {
    "one each": [1] * 600,
    "one each but the last, none": [1] * 299 + [0],
    "one each but two and none": [1] * 270 + [2, 0] + [1] * 60,
    "one each, then many": [1] * 256 + [3, 0, 9, 10, 11, 17, 300] + [1] * 64,
    "none": [0] * 270,
}


@pytest.mark.parametrize("lengths", TALL.values(), ids=TALL)
@pytest.mark.parametrize("dim", [1, 4, 7, 8, 13, 16, 32, 47, 64, 100])
@pytest.mark.parametrize("pooling", ["sum", "mean", "sqrtn", "max", "none"])
def test_any_dim_and_many_batch_rows(pooling: str, dim: int, lengths: list[int]) -> None:
    for weighted in (False, True):
        case = Tall.of(pooling, dim, lengths, weighted)
        out, grad = case.run()
        vectors = case.rows.double()[case.elements.inverse.long()].requires_grad_()
        weights = None if case.weights is None else case.weights.double()
        if pooling == "none":
            want = vectors if weights is None else vectors * weights[:, None]
        else:
            want = torch.stack(
                [
                    reference(Segment(0, dim, pooling, 0), offsets, np.arange(len(vectors)), weights, vectors)[0]
                    for offsets in np.lib.stride_tricks.sliding_window_view(case.elements.offsets[0].numpy(), 2)
                ]
            )
        torch.testing.assert_close(out, want.detach().float(), rtol=1e-5, atol=1e-5)
        want.backward(torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).double())
        exact = torch.zeros(case.rows.shape, dtype=torch.float64)
        if vectors.grad is not None:
            exact.index_add_(0, case.elements.inverse.long(), vectors.grad)
        torch.testing.assert_close(grad.double(), exact, rtol=1e-4, atol=1e-4)
        if weights is None and pooling not in ("none", "max"):
            exact_bits = pool(case.rows[case.elements.inverse.long()], case.numbers, None, pooling, len(lengths))
            assert torch.equal(out, exact_bits)


@pytest.fixture
def threads() -> Iterator[None]:
    """Gives back the number of torch's threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_any_number_of_threads_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "PARALLEL_BYTES", -1)
    found = []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        case = drawn(11, 150, 30)
        rows = [x.requires_grad_() for x in case.rows]
        weights = case.weights.requires_grad_()
        outputs = SegmentPlan(case.segments, case.widths).run(case.elements, weights, rows)
        sum(x.square().sum() for x in outputs).backward()
        found.append([*outputs, *(x.grad for x in rows), weights.grad])
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def test_outputs_that_are_kept_stay_and_their_memory_comes_back() -> None:
    case = Tall.of("sum", 100, [2] * 3000)
    assert cpu.LEAST_LENT < 4 * 100 * 3000
    first = case.run()[0]
    before = first.clone()
    case.rows += 1
    second = case.run()[0]
    assert torch.equal(first, before) and not torch.equal(first, second)
    assert first.data_ptr() != second.data_ptr()
    place = second.data_ptr()
    del second
    assert case.run()[0].data_ptr() == place


def test_the_same_bits_twice() -> None:
    found = []
    for _ in range(2):
        case = drawn(3, 50, 30)
        rows = [x.requires_grad_() for x in case.rows]
        sum(x.square().sum() for x in SegmentPlan(case.segments, case.widths).run(case.elements, None, rows)).backward()
        found.append([x.grad for x in rows])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


BAGS = {
    "three": ([0, 1, 2], [0, 2, 2, 3, 3], [[3, 30], [0, 0], [3, 30], [0, 0]], [[1.5, 15], [0, 0], [3, 30], [0, 0]]),
    "empty": ([], [0, 0, 0], [[0, 0], [0, 0]], [[0, 0], [0, 0]]),
    "no rows": ([], [0], [], []),
}


@pytest.mark.parametrize("name", BAGS)
@pytest.mark.parametrize("pooling", ["sum", "mean", "max"])
def test_empty_bags_are_zeros_as_in_embedding_bag(name: str, pooling: str) -> None:
    ids, offsets, sums, means = BAGS[name]
    rows = torch.tensor([[k + 1.0, 10.0 * (k + 1)] for k in range(4)], requires_grad=True)
    elements = Elements(torch.tensor([offsets]), torch.tensor(ids, dtype=torch.int32), (False,))
    (out,) = SegmentPlan([Segment(0, 2, pooling, 0)], [2]).run(elements, None, [rows])
    want = {"sum": sums, "mean": means, "max": [[2.0, 20.0], *sums[1:]] if name == "three" else sums}[pooling]
    assert out.tolist() == torch.tensor(want).reshape(-1, 2).tolist()
    out.sum().backward()
    if len(offsets) > 1:
        dense = torch.nn.EmbeddingBag.from_pretrained(rows.detach().clone(), freeze=False, mode=pooling)
        their = dense(torch.tensor(ids, dtype=torch.int64), torch.tensor(offsets[:-1]))
        assert torch.equal(their, out)
        their.sum().backward()
        torch.testing.assert_close(dense.weight.grad, rows.grad)
    else:
        assert not rows.grad.any()


def test_gradients_that_are_views_and_of_half_precision_are_taken() -> None:
    case = drawn(5, 4, 6)
    plan = SegmentPlan(case.segments, case.widths)
    grads = []
    for half in (False, True):
        rows = [x.detach().clone().requires_grad_() for x in case.rows]
        outputs = plan.run(case.elements, case.weights, rows)
        first = outputs[0].bfloat16() if half else outputs[0]
        first.sum().backward()  # one number, seen as [B, W]
        grads.append([x.grad for x in rows])
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("pooling", ["sum", "none"])
def test_gradients_that_torch_would_compute_later_are_taken(pooling: str, count: int) -> None:
    """Such as the imaginary part of a conjugate, which is stored with the other sign, and zeros that have no memory."""

    def pooled(rows: torch.Tensor) -> torch.Tensor:
        elements = Elements(torch.arange(count + 1)[None], torch.arange(count, dtype=torch.int32), (False,))
        return SegmentPlan([Segment(0, 1, pooling, 0)], [1]).run(elements, None, [rows])[0]

    def loss(out: torch.Tensor) -> torch.Tensor:
        return (torch.complex(torch.ones(count, 1), out).conj() * torch.complex(*torch.ones(2, count, 1))).imag.sum()

    ours, theirs = (torch.ones(count, 1, requires_grad=True) for _ in range(2))
    loss(pooled(ours)).backward()
    loss(theirs * 1).backward()
    assert torch.equal(ours.grad, theirs.grad) and theirs.grad.tolist() == [[-1.0]] * count
    for late, want in ((torch._neg_view(torch.ones(count, 1)), -1.0), (torch._efficientzerotensor(count, 1), 0.0)):
        rows = torch.ones(count, 1, requires_grad=True)
        pooled(rows).backward(late)
        assert rows.grad.tolist() == [[want]] * count


@pytest.fixture
def wide() -> Iterator[None]:
    """Another default dtype, as a process may have set."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("wide")
def test_the_default_dtype_of_the_process_is_not_that_of_pooling() -> None:
    case = drawn(10, 4, 6)
    rows = [x.requires_grad_() for x in case.rows]
    outputs = SegmentPlan(case.segments, case.widths).run(case.elements, case.weights, rows)
    assert all(x.dtype == torch.float32 for x in outputs)
    exact = [x.detach().double().requires_grad_() for x in case.rows]
    total = torch.zeros(())
    for f, (segment, part) in enumerate(zip(case.segments, parts_of(case, outputs), strict=True)):
        by = case.weights if case.elements.weighted[f] else None
        want = reference(segment, case.elements.offsets[f].numpy(), case.elements.inverse.numpy(), by, exact[f % 2])
        torch.testing.assert_close(part.double(), want, rtol=1e-5, atol=1e-5)
        total = total + want.sum()
    total.backward()
    sum(x.double().sum() for x in outputs).backward()
    for ours, theirs in zip(rows, exact, strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-5)


def test_the_operators_are_what_torch_wants() -> None:
    case = drawn(7, 4, 6)
    plan = SegmentPlan(case.segments, case.widths)
    rows = [x.requires_grad_() for x in case.rows]
    weights = case.weights.requires_grad_()
    text, sizes = plan.text_of(case.elements.weighted), plan.sizes_of(case.elements)
    given = (rows, case.elements.offsets, case.elements.inverse, weights, text, sizes)
    torch.library.opcheck(ops.pool, given)
    flats = [x.detach() for x in ops.pool(*given)]
    known = [None, *(torch.ones_like(x) for x in flats[1:])]
    rows, weights = [x.detach() for x in rows], weights.detach()
    torch.library.opcheck(ops.spread, (known, rows, flats, *given[1:3], weights, text, sizes, True, False))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiling_around_it_breaks_no_graph(backend: str) -> None:
    case = drawn(8, 4, 6)
    plan, sizes = SegmentPlan(case.segments, case.widths), None

    def loss(rows: list[torch.Tensor], weights: torch.Tensor, offsets: torch.Tensor, inverse: torch.Tensor) -> Any:
        elements = Elements(offsets, inverse, case.elements.weighted, sizes)
        return sum(x.sin().sum() for x in plan.run(elements, weights, rows))

    sizes = tuple(plan.sizes_of(case.elements))
    grads = []
    for function in (loss, torch.compile(loss, backend=backend, fullgraph=True)):
        rows = [x.detach().clone().requires_grad_() for x in case.rows]
        weights = case.weights.detach().clone().requires_grad_()
        for _ in range(2):  # gradients of two passes are added
            function(rows, weights, case.elements.offsets, case.elements.inverse).backward()
        grads.append([x.grad for x in (*rows, weights)])
    assert all(torch.allclose(a, b) for a, b in zip(*grads, strict=True))


def test_autocast_leaves_pooling_in_full_precision() -> None:
    case = drawn(9, 4, 6)
    plan = SegmentPlan(case.segments, case.widths)
    rows = [x.requires_grad_() for x in case.rows]
    with torch.autocast("cpu", torch.bfloat16):
        outputs = plan.run(case.elements, case.weights, rows)
        loss = sum((x @ torch.ones(x.shape[1], 2)).sum() for x in outputs)
    assert all(x.dtype == torch.float32 for x in outputs)
    loss.backward()
    assert all(x.grad.dtype == torch.float32 and x.grad.any() for x in rows)


def test_matrices_of_outputs_without_gradient_learn_nothing() -> None:
    rows = [torch.ones(2, 3, requires_grad=True) for _ in range(3)]
    segments = [Segment(0, 3, "sum", 0), Segment(1, 3, "sum", 1), Segment(1, 3, "sum", 2), Segment(2, 3, "sum", 2, 3)]
    offsets = torch.tensor([[f, f + 1] for f in range(4)])
    elements = Elements(offsets, torch.zeros(4, dtype=torch.int32), (False,) * 4)
    outputs = SegmentPlan(segments, [3, 3, 6]).run(elements, None, rows)
    outputs[1].sum().backward()
    assert rows[0].grad is None and rows[2].grad is None
    assert rows[1].grad.tolist() == [[1.0] * 3, [0.0] * 3]


def bags(weights: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Two bags of weighted rows, and their means."""
    elements = Elements(torch.tensor([[0, 1, 3]]), torch.tensor([0, 1, 2], dtype=torch.int32), (True,))
    return SegmentPlan([Segment(0, 2, "mean", 0)], [2]).run(elements, weights, [rows])[0]


@pytest.mark.parametrize("linear", [False, True])
def test_a_gradient_of_a_gradient_is_an_error_whoever_asks(linear: bool) -> None:
    weights, rows = torch.rand(3, requires_grad=True), torch.rand(3, 2, requires_grad=True)

    def loss(weights: torch.Tensor) -> torch.Tensor:
        out = bags(weights, rows)
        return out.sum() if linear else out.square().sum()

    (grad,) = torch.autograd.grad(loss(weights), weights, create_graph=True)
    with pytest.raises(GradientError, match="are differentiated"):
        (grad.sum() + weights.sum()).backward(retain_graph=True)
    for of in (weights, rows):
        with pytest.raises(GradientError, match="are differentiated"):
            torch.autograd.grad(grad.sum() + weights.sum(), of, allow_unused=True, retain_graph=True)
    with pytest.raises(GradientError, match="are differentiated"):
        torch.autograd.functional.hessian(loss, weights)


def test_a_graph_of_the_gradients_alone_changes_nothing() -> None:
    found = []
    for graph in (False, True):
        weights, rows = torch.tensor([1.0, 2, 3], requires_grad=True), torch.ones(3, 2, requires_grad=True)
        found.append(torch.autograd.grad(bags(weights, rows).square().sum(), (weights, rows), create_graph=graph))
    assert all(torch.equal(*both) for both in zip(*found, strict=True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what torch imports for tangents
@pytest.mark.parametrize("learns", [False, True])
def test_a_tangent_is_an_error(learns: bool) -> None:
    rows = torch.rand(3, 2, requires_grad=learns)
    with torch.autograd.forward_ad.dual_level():
        bags(torch.rand(3), rows)
        weights = torch.autograd.forward_ad.make_dual(torch.rand(3), torch.ones(3))
        with pytest.raises(NotImplementedError, match="forward mode AD"):
            bags(weights, rows)


@pytest.mark.parametrize("pooling", ["sum", "mean", "sqrtn", "none", "max"])
def test_outputs_may_be_written_in_place_where_no_gradient_reads_them(pooling: str) -> None:
    elements = Elements(torch.tensor([[0, 2, 5]]), torch.tensor([0, 1, 2, 1, 0], dtype=torch.int32), (False,))
    table = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    plan, grads = SegmentPlan([Segment(0, 4, pooling, 0)], [4]), []
    for written in (False, True):
        rows = table.clone().requires_grad_()
        out = plan.run(elements, None, [rows])[0]
        made = torch.relu_(out) if written else torch.relu(out)
        if written and pooling == "max":
            with pytest.raises(RuntimeError, match="inplace"):
                made.square().sum().backward()
            return
        made.square().sum().backward()
        grads.append(rows.grad)
    assert torch.equal(*grads)
