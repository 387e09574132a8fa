"""`colonnade::pool` and `colonnade::spread`: pooling and its gradients as operators of torch.

Their outputs are few: the outputs of a plan lie one behind the other in a flat tensor for each set of matrices.
They are registered one by one: what `torch.library.custom_op` and its autograd do around lists of tensors took ten
times as long as a small step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from colonnade.core.fork import in_one_thread
from colonnade.core.stored import stored
from colonnade.errors import GradientError
from colonnade.train.reduce.cpu import cpu_pooling
from colonnade.train.segments import Layout, matrices_in, read_layout, starts_of

Tensors = Sequence[torch.Tensor]
NAMESPACE = "colonnade"
LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
LIBRARY.define(
    "pool(Tensor[] rows, Tensor offsets, Tensor inverse, Tensor? weights, str layout, SymInt[] sizes) -> Tensor[]"
)
LIBRARY.define(
    "spread(Tensor?[] given, Tensor[] rows, Tensor[] flats, Tensor offsets, Tensor inverse, Tensor? weights, "
    "str layout, SymInt[] sizes, bool of_weights, bool deterministic) -> Tensor[]"
)
pool = torch.ops.colonnade.pool.default
spread = torch.ops.colonnade.spread.default


def _flat_sizes(layout: Layout, batch: int, sizes: Sequence[int]) -> list[int]:
    """The numbers in each flat. sizes: elements of each feature that is not pooled."""
    rows_of = dict(zip(layout.unpooled, sizes, strict=True))
    return [rows_of.get(flat.outputs[0], batch) * flat.width for flat in layout.flats]


def _empty_flats(layout: Layout, offsets: torch.Tensor, sizes: Sequence[int]) -> list[torch.Tensor]:
    counts = _flat_sizes(layout, offsets.shape[1] - 1, sizes)
    return [torch.empty(n, dtype=torch.float32, device=offsets.device) for n in counts]


def _pool_cpu(
    rows: Tensors,
    offsets: torch.Tensor,
    inverse: torch.Tensor,
    weights: torch.Tensor | None,
    layout: str,
    sizes: Sequence[int],
) -> list[torch.Tensor]:
    """The flat outputs, float32.

    rows: float32 [U, D] each.   offsets: int64 [F, B + 1].   inverse: int32 [N].   weights: float32 [N].
    layout: the text of one.   sizes: elements of the features that are not pooled.
    """
    pooling = cpu_pooling(read_layout(layout))
    flats = pooling.empty(_flat_sizes(pooling.layout, offsets.shape[1] - 1, sizes))
    pooling.pool((offsets, inverse, weights), rows, flats)
    return flats


def _pool_cuda(
    rows: Tensors,
    offsets: torch.Tensor,
    inverse: torch.Tensor,
    weights: torch.Tensor | None,
    layout: str,
    sizes: Sequence[int],
) -> list[torch.Tensor]:
    from colonnade.train.gpu.segment import gpu_pooling  # a module of Triton, which a CPU does without

    found = read_layout(layout)
    flats = _empty_flats(found, offsets, sizes)
    gpu_pooling(found).pool((offsets, inverse, weights), rows, flats, sizes)
    return flats


def _pool_fake(
    rows: Tensors,
    offsets: torch.Tensor,
    inverse: torch.Tensor,
    weights: torch.Tensor | None,
    layout: str,
    sizes: Sequence[int],
) -> list[torch.Tensor]:
    return _empty_flats(read_layout(layout), offsets, sizes)


def _spread_cpu(
    given: Sequence[torch.Tensor | None],
    rows: Tensors,
    flats: Tensors,
    offsets: torch.Tensor,
    inverse: torch.Tensor,
    weights: torch.Tensor | None,
    layout: str,
    sizes: Sequence[int],
    of_weights: bool,
    deterministic: bool,
) -> list[torch.Tensor]:
    """The gradients of all rows, as `matrices_in` has them, and, wanted `of_weights`, those of the weights.

    given: the gradients of the flats (None: none).   deterministic: the same bits each time.
    """
    shapes = [x.shape for x in rows]
    flat = torch.zeros(starts_of(shapes)[-1], dtype=torch.float32, device=inverse.device)
    made = torch.zeros(inverse.shape, dtype=torch.float32, device=inverse.device) if of_weights else None
    grads = matrices_in(flat, shapes)
    batch = offsets, inverse, weights
    known = [stored(g) for g in given]  # torch sees to that in lists, but not where some may be missing
    cpu_pooling(read_layout(layout)).spread(batch, rows, flats, known, grads, made)
    return [flat] if made is None else [flat, made]


def _spread_cuda(
    given: Sequence[torch.Tensor | None],
    rows: Tensors,
    flats: Tensors,
    offsets: torch.Tensor,
    inverse: torch.Tensor,
    weights: torch.Tensor | None,
    layout: str,
    sizes: Sequence[int],
    of_weights: bool,
    deterministic: bool,
) -> list[torch.Tensor]:
    from colonnade.train.gpu.spreading import gpu_spreading

    spreading = gpu_spreading(read_layout(layout))
    batch = offsets, inverse, weights
    known = [stored(g) for g in given]  # torch sees to that in lists, but not where some may be missing
    flat = spreading.spread(batch, [x.shape for x in rows], flats, known, rows, sizes, deterministic)
    return [flat, spreading.weigh(batch, rows, flats, known, sizes)] if of_weights else [flat]


def _spread_fake(
    given: Sequence[torch.Tensor | None],
    rows: Tensors,
    flats: Tensors,
    offsets: torch.Tensor,
    inverse: torch.Tensor,
    weights: torch.Tensor | None,
    layout: str,
    sizes: Sequence[int],
    of_weights: bool,
    deterministic: bool,
) -> list[torch.Tensor]:
    flat = offsets.new_empty(starts_of([x.shape for x in rows])[-1], dtype=torch.float32)
    return [flat, offsets.new_empty(inverse.shape, dtype=torch.float32)] if of_weights else [flat]


class _Pooled(torch.autograd.Function):
    """Pooling that torch differentiates once: see `_Spread`."""

    @staticmethod
    def forward(
        ctx: Any,
        layout: str,
        sizes: Sequence[int],
        offsets: torch.Tensor,
        inverse: torch.Tensor,
        weights: torch.Tensor | None,
        *rows: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        with torch._C._AutoDispatchBelowAutograd():
            flats = pool(rows, offsets, inverse, weights, layout, sizes)
        ctx.set_materialize_grads(False)
        ctx.layout, ctx.sizes, ctx.num_rows = layout, sizes, len(rows)
        # What is saved may not be written in place, as `relu_` does: only what is read again is saved.
        nothing = torch.empty(0, dtype=torch.float32, device=offsets.device)
        of_weights = bool(ctx.needs_input_grad[4])
        read = read_layout(layout).read_back
        kept = [flat if of_weights or again else nothing for flat, again in zip(flats, read, strict=True)]
        ctx.save_for_backward(offsets, inverse, weights, *rows, *kept)
        return tuple(flats)

    @staticmethod
    @in_one_thread
    def backward(ctx: Any, *given: torch.Tensor | None) -> tuple[Any, ...]:
        offsets, inverse, weights, *saved = ctx.saved_tensors
        rows, flats = saved[: ctx.num_rows], saved[ctx.num_rows :]
        of_weights = bool(ctx.needs_input_grad[4])
        deterministic = torch.are_deterministic_algorithms_enabled()
        batch = (offsets, inverse, weights)
        made = spread(given, rows, flats, *batch, ctx.layout, ctx.sizes, of_weights, deterministic)
        # Rows that nothing was learned of have no gradient: one of zeros would let an optimizer's momentum move them.
        layouts = read_layout(ctx.layout).flats
        learned = {k for flat, g in zip(layouts, given, strict=True) if g is not None for k in flat.matrices}
        found = matrices_in(made[0], [x.shape for x in rows])
        grads = [grad if k in learned else None for k, grad in enumerate(found)]
        return None, None, None, None, made[-1] if of_weights else None, *grads


def _differentiated(*tensors: torch.Tensor | None) -> bool:
    """Whether torch follows what is made of them, backward or forward: a tangent is then an error, no silence."""
    followed = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
    return followed or forward_ad._current_level >= 0


class _Spread(torch.autograd.Function):
    """Gradients of pooling, which have none themselves: torch's `once_differentiable` says so of some uses alone."""

    @staticmethod
    def forward(ctx: Any, rest: tuple[Any, ...], counts: tuple[int, int], *tensors: Any) -> tuple[torch.Tensor, ...]:
        given, rows, flats = tensors[: counts[0]], tensors[counts[0] : sum(counts)], tensors[sum(counts) : -3]
        with torch._C._AutoDispatchBelowAutograd():
            return tuple(spread(given, rows, flats, *tensors[-3:], *rest))

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor | None) -> Any:
        raise GradientError(
            "gradients of looked-up rows or of weights are differentiated",
            want="a backward pass through pooling once",
            help="take such a penalty of a table of torch's own, or of what is made of the outputs",
        )


def _pool_autograd(
    rows: Tensors,
    offsets: torch.Tensor,
    inverse: torch.Tensor,
    weights: torch.Tensor | None,
    layout: str,
    sizes: Sequence[int],
) -> list[torch.Tensor]:
    if _differentiated(weights, *rows):
        return list(_Pooled.apply(layout, sizes, offsets, inverse, weights, *rows))  # type: ignore[no-untyped-call]
    with torch._C._AutoDispatchBelowAutograd():
        return pool(rows, offsets, inverse, weights, layout, sizes)  # type: ignore[no-any-return]


def _spread_autograd(
    given: Sequence[torch.Tensor | None],
    rows: Tensors,
    flats: Tensors,
    offsets: torch.Tensor,
    inverse: torch.Tensor,
    weights: torch.Tensor | None,
    *rest: Any,
) -> list[torch.Tensor]:
    batch = (offsets, inverse, weights)
    if _differentiated(weights, *given, *rows, *flats):
        tensors = (*given, *rows, *flats, *batch)
        return list(_Spread.apply(rest, (len(given), len(rows)), *tensors))  # type: ignore[no-untyped-call]
    with torch._C._AutoDispatchBelowAutograd():
        return spread(given, rows, flats, *batch, *rest)  # type: ignore[no-any-return]


for _key, _pool, _spreads in (("CPU", _pool_cpu, _spread_cpu), ("CUDA", _pool_cuda, _spread_cuda)):
    LIBRARY.impl("pool", _pool, _key)
    LIBRARY.impl("spread", _spreads, _key)
LIBRARY.impl("pool", _pool_autograd, "Autograd")
LIBRARY.impl("spread", _spread_autograd, "Autograd")
torch.library.register_fake(f"{NAMESPACE}::pool", _pool_fake, lib=LIBRARY)
torch.library.register_fake(f"{NAMESPACE}::spread", _spread_fake, lib=LIBRARY)
