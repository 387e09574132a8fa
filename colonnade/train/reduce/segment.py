"""Pooling as torch differentiates it: looked-up rows in, concatenated outputs out, on the device where the rows lie.

Legend: F features; B batch rows; N elements of all features; U rows of a matrix; D embedding_dim; W an output's width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import torch

from colonnade.train.reduce.ops import pool
from colonnade.train.segments import Segment, layout_of

__all__ = ["Elements", "Segment", "SegmentPlan", "reference"]

Array = npt.NDArray[Any]
Hear = Callable[[Sequence[int]], None]
"""Told the numbers of outputs."""


@dataclass(frozen=True)
class Elements:
    """The elements of a batch. offsets: int64 [F, B + 1].   inverse: int32 [N], rows of the features' matrices.

    weighted: which features the weights are of.   sizes: of the features that are not pooled, in the order of their
    outputs (None: read from the offsets, which waits for a device).
    """

    offsets: torch.Tensor
    inverse: torch.Tensor
    weighted: tuple[bool, ...]
    sizes: tuple[int, ...] | None = None


class SegmentPlan:
    """How features are pooled: made once, run for every batch. widths: of the outputs."""

    def __init__(self, segments: Sequence[Segment], widths: Sequence[int]) -> None:
        self.segments, self.widths = tuple(segments), tuple(widths)
        self._texts: dict[tuple[bool, ...], str] = {}
        self._layout = layout_of(segments, widths, ())
        self._places = [self._layout.places[output] for output in range(len(widths))]

    def run(
        self,
        elements: Elements,
        weights: torch.Tensor | None,
        rows: Sequence[torch.Tensor],
        hear: Hear | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """The outputs, `[B, W]` or, not pooled, `[n, D]`.

        weights: float32 [N].   rows: float32 [U, D].   hear: told which outputs gradients come to, as they do.
        Facts: differentiable by weights and rows.
        """
        text = self.text_of(elements.weighted if weights is not None else ())
        offsets, batch = elements.offsets, elements.offsets.shape[1] - 1
        sizes = self.sizes_of(elements)
        flats = pool(
            [x.float() for x in rows],
            offsets,
            elements.inverse,
            None if weights is None else weights.float(),
            text,
            sizes,
        )
        outputs: list[torch.Tensor] = [offsets] * len(self.widths)
        rows_of = dict(zip(self._layout.unpooled, sizes, strict=True))
        for flat, values in zip(self._layout.flats, flats, strict=True):
            counts = [rows_of.get(output, batch) for output in flat.outputs]
            shapes = [(n, self.widths[output]) for n, output in zip(counts, flat.outputs, strict=True)]
            if hear is not None and values.requires_grad:
                parts = _Heard.apply(values, shapes, flat.outputs, hear)  # type: ignore[no-untyped-call]
            else:
                parts = _cut(values, shapes)
            for output, part in zip(flat.outputs, parts, strict=True):
                outputs[output] = part
        return tuple(outputs)

    def text_of(self, weighted: tuple[bool, ...]) -> str:
        """What the operators read the plan from."""
        found = self._texts.get(weighted)
        if found is None:
            found = self._texts[weighted] = layout_of(self.segments, self.widths, weighted).text
        return found

    def sizes_of(self, elements: Elements) -> list[int]:
        """The elements of each feature that is not pooled. Facts: waits for a device once, if there is any."""
        if elements.sizes is not None:
            return list(elements.sizes)
        features = self._layout.unpooled.values()
        lengths = (elements.offsets[:, -1] - elements.offsets[:, 0]).tolist() if features else []
        return [lengths[f] for f in features]


def _cut(values: torch.Tensor, shapes: Sequence[tuple[int, int]]) -> tuple[torch.Tensor, ...]:
    """Matrices that lie one behind the other in a flat tensor."""
    lengths = [n * width for n, width in shapes]
    parts = values.split(lengths) if len(lengths) > 1 else (values,)
    return tuple(part.view(shape) for part, shape in zip(parts, shapes, strict=True))


class _Heard(torch.autograd.Function):
    """`_cut`, whose backward pass tells which outputs gradients have come to: others have zeros from there on."""

    @staticmethod
    def forward(
        ctx: Any, values: torch.Tensor, shapes: Sequence[tuple[int, int]], outputs: Sequence[int], hear: Hear
    ) -> tuple[torch.Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.shapes, ctx.outputs, ctx.hear = shapes, outputs, hear
        return _cut(values, shapes)

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor | None) -> tuple[Any, ...]:
        known = [g for g in given if g is not None]
        if not known:
            return None, None, None, None
        ctx.hear([output for output, g in zip(ctx.outputs, given, strict=True) if g is not None])
        parts = [
            known[0].new_zeros(n * width) if g is None else g.reshape(-1)
            for g, (n, width) in zip(given, ctx.shapes, strict=True)
        ]
        return (torch.cat(parts) if len(parts) > 1 else parts[0]), None, None, None


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
