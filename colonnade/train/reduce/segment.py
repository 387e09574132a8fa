"""Pooling as torch differentiates it: looked-up rows in, concatenated outputs out.

Legend: F features; B batch rows; N elements of all features; U rows of a matrix; D embedding_dim; W an output's width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.memory import address_of
from colonnade.train.compiled import LOOPS
from colonnade.train.loops import segment as w

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Segment:
    """Where one feature's pooled rows come from and go to.

    rows: which matrix.   output: which one, from column `at` on.   feature: which one (None: as many as come before).

    Facts: an output of a feature that is not pooled is its own, `[n, D]`.
    """

    rows: int
    embedding_dim: int
    pooling: str
    output: int
    at: int = 0
    feature: int | None = None


@dataclass(frozen=True)
class Elements:
    """The elements of a batch. offsets: int64 [F, B + 1].   inverse: int32 [N], rows of the features' matrices.

    weighted: which features the weights are of.
    """

    offsets: Array
    inverse: Array
    weighted: tuple[bool, ...]


class SegmentPlan:
    """How features are pooled: made once, run for every batch. widths: of the outputs."""

    def __init__(self, segments: Sequence[Segment], widths: Sequence[int]) -> None:
        self.segments, self.widths = tuple(segments), tuple(widths)
        numbers = [i if s.feature is None else s.feature for i, s in enumerate(segments)]
        self._features = np.array(numbers, np.int64)
        self.unpooled = {s.output: f for f, s in zip(numbers, segments, strict=True) if s.pooling == "none"}
        self.loops = LOOPS.warm()
        self.dims = max((s.embedding_dim for s in segments), default=0)
        self._rows = np.array([s.rows for s in segments], np.int64)
        self._outputs = np.array([s.output for s in segments], np.int64)
        self._fixed = np.zeros((len(segments), w.FEATURE_BYTES // 8), np.int64)
        for word, values in (
            (w.DIM, [s.embedding_dim for s in segments]),
            (w.POOLING, [w.POOLINGS[s.pooling] for s in segments]),
            (w.STRIDE, [4 * widths[s.output] for s in segments]),
            (w.OUT, [4 * s.at for s in segments]),
        ):
            self._fixed[:, word // 8] = values

    def run(
        self, elements: Elements, weights: torch.Tensor | None, rows: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        """The outputs, `[B, W]` or, not pooled, `[n, D]`.

        weights: float32 [N].   rows: float32 [U, D].   Facts: differentiable by weights and rows.
        """
        made: tuple[torch.Tensor, ...] = _Pool.apply(self, elements, weights, *rows)  # type: ignore[no-untyped-call]
        return made

    def described(
        self, elements: Elements, weights: Array | None, rows: Sequence[int], outputs: Sequence[int]
    ) -> Array:
        """The features as the loops read them. rows, outputs: addresses."""
        made = self._fixed.copy()
        made[:, w.ROWS // 8] = np.array(rows, np.int64)[self._rows]
        made[:, w.OFFSETS // 8] = address_of(elements.offsets) + elements.offsets.strides[0] * self._features
        made[:, w.INVERSE // 8] = address_of(elements.inverse)
        made[:, w.OUT // 8] += np.array(outputs, np.int64)[self._outputs]
        if weights is not None:
            made[:, w.WEIGHTS // 8] = np.where(np.array(elements.weighted)[self._features], address_of(weights), 0)
        return made

    def aim(self, features: Array, rows: Sequence[int], outputs: Sequence[int], weights: int) -> None:
        """Say where gradients lie. rows, outputs, weights (0: not wanted): addresses."""
        features[:, w.GRADS // 8] = np.array(rows, np.int64)[self._rows]
        features[:, w.GRAD_OUT // 8] = np.array(outputs, np.int64)[self._outputs] + self._fixed[:, w.OUT // 8]
        features[:, w.GRAD_WEIGHTS // 8] = np.where(features[:, w.WEIGHTS // 8] == 0, 0, weights)

    def empty(self, elements: Elements) -> list[torch.Tensor]:
        """Memory of the outputs."""
        batch = elements.offsets.shape[1] - 1
        sizes = [batch] * len(self.widths)
        for output, f in self.unpooled.items():
            sizes[output] = int(elements.offsets[f, -1] - elements.offsets[f, 0])
        return [torch.empty(size, width) for size, width in zip(sizes, self.widths, strict=True)]


def _addresses(tensors: Sequence[torch.Tensor]) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: SegmentPlan, elements: Elements, weights: Any, *rows: Any) -> Any:
        rows = tuple(x.contiguous() for x in rows)
        outputs = plan.empty(elements)
        numbers = None if weights is None else weights.detach().contiguous().numpy()
        features = plan.described(elements, numbers, _addresses(rows), _addresses(outputs))
        plan.loops["pool"](address_of(features), 0, len(features), elements.offsets.shape[1] - 1)
        ctx.plan, ctx.elements, ctx.num_rows = plan, elements, len(rows)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(weights, *rows, *outputs)
        return tuple(outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        plan, elements = ctx.plan, ctx.elements
        weights, *saved = ctx.saved_tensors
        rows, outputs = saved[: ctx.num_rows], saved[ctx.num_rows :]
        numbers = None if weights is None else weights.detach().contiguous().numpy()
        features = plan.described(elements, numbers, _addresses(rows), _addresses(outputs))
        grads = [torch.zeros_like(x) for x in rows]
        given = [
            torch.zeros_like(out) if g is None else g.float().contiguous()
            for g, out in zip(grad_outputs, outputs, strict=True)
        ]
        of_weights = torch.zeros_like(weights) if ctx.needs_input_grad[2] else None
        plan.aim(features, _addresses(grads), _addresses(given), 0 if of_weights is None else of_weights.data_ptr())
        taken = np.empty(max(plan.dims, 1), np.uint8)
        batch = elements.offsets.shape[1] - 1
        plan.loops["spread"](address_of(features), len(features), batch, 0, 1, address_of(taken))
        # Rows that nothing was learned of have no gradient: one of zeros would let an optimizer's momentum move them.
        learned = {s.rows for s in plan.segments if grad_outputs[s.output] is not None}
        return (None, None, of_weights, *(grad if k in learned else None for k, grad in enumerate(grads)))


def reference(
    segment: Segment, offsets: Array, inverse: Array, weights: torch.Tensor | None, rows: torch.Tensor
) -> torch.Tensor:
    """One feature's part of its output, in the precision of its rows, by torch alone: also what it differentiates.

    offsets: int64 [B + 1].   inverse: int32 [N].
    """
    chosen = rows[torch.from_numpy(inverse[offsets[0] : offsets[-1]]).long()]
    if weights is not None:
        weights = weights[int(offsets[0]) : int(offsets[-1])].to(rows.dtype)
        chosen = chosen * weights[:, None]
    if segment.pooling == "none":
        return chosen
    made = []
    for start, end in zip(offsets[:-1] - offsets[0], offsets[1:] - offsets[0], strict=True):
        made.append(_pooled(segment.pooling, chosen[start:end], None if weights is None else weights[start:end]))
    return torch.stack(made) if made else rows.new_zeros(0, segment.embedding_dim)


def _pooled(pooling: str, chosen: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
    if len(chosen) == 0:
        return chosen.sum(0)
    if pooling == "max":
        return chosen.gather(0, chosen.argmax(0, keepdim=True))[0]
    total = chosen.sum(0)
    if pooling == "sum":
        return total
    ones = chosen.new_ones(len(chosen)) if weights is None else weights
    divisor = ones.sum() if pooling == "mean" else ones.square().sum().sqrt()
    return torch.zeros_like(total) if divisor == 0 else total / divisor
