"""`conv2d`: products with a small window that moves over rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from colonnade.core import facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one, want_dtype, want_rank
from colonnade.ops.graph._values import numbers
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, fresh, structural

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)
"""Channels before the places, as torch has them, and behind."""


@dataclass(frozen=True)
class Conv2d(GraphOp):
    """`out[b, i, j, o] = sum over k, l, c of x[b, i s + k d, j s + l d, c] * kernel[k, l, c, o]`.

    same: whether x is padded with zeros so that out has a place for every stride, more behind than before where their
    number is odd. Channels come in groups, as many as x has times the kernel's.
    Shapes: x [B, H, W, C], kernel [K, L, C / groups, O] -> [B, H', W', O].
    """

    strides: tuple[int, int] = structural(default=(1, 1))
    dilations: tuple[int, int] = structural(default=(1, 1))
    same: bool = structural(default=False)

    def infer(self, *args: Facts) -> Inferred:
        """Sizes of known places."""
        x, kernel = args
        for f, operand in ((x, "x"), (kernel, "kernel")):
            want_dtype("conv2d", f, ("float32",), operand)
            want_rank("conv2d", f, 4, operand)
        if x.shape is None or kernel.shape is None:
            return one(facts.facts("float32", None))
        channels, window = x.shape[3], kernel.shape[2]
        if isinstance(channels, int) and isinstance(window, int) and (window < 1 or channels % window):
            raise ShapeError("conv2d: channels are no multiple of the kernel's", got=f"{channels} and {window}")
        places = [self._places(k, x.shape[k + 1], kernel.shape[k]) for k in range(2)]
        return one(facts.facts("float32", (x.shape[0], *places, kernel.shape[3])))

    def _places(self, axis: int, size: Dim, window: Dim) -> Dim:
        """Of the result. Errors: ShapeError where the window is larger than x."""
        if self.same and self.strides[axis] == 1:
            return size
        if not isinstance(size, int) or not isinstance(window, int):
            return fresh(axis)
        if self.same:
            return -(-size // self.strides[axis])
        found = self._steps(axis, size, window)
        if found < 0:
            raise ShapeError("conv2d: the window is larger than what it moves over", got=f"{window} and {size}")
        return found

    def _steps(self, axis: int, size: int, window: int) -> int:
        """How often a window fits; a window that is too large by less than its strides fits no time, others -1 times.

        Source: TensorFlow's GetWindowedOutputSize, whose division is toward 0.
        """
        stride = self.strides[axis]
        room = size - (window - 1) * self.dilations[axis] - 1 + stride
        return -1 if room <= -stride else max(room // stride, 0)

    def _padding(self, sizes: tuple[int, ...], windows: tuple[int, ...]) -> tuple[int, ...]:
        """Zeros before and behind, the last dim first."""
        found: list[int] = []
        for size, window, stride, dilation in zip(sizes, windows, self.strides, self.dilations, strict=True):
            total = max(0, (-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size) if self.same else 0
            found = [total // 2, total - total // 2, *found]
        return tuple(found)

    def reference(self, *args: Value) -> Value:
        """By torch."""
        x, kernel = (numbers(v, "conv2d") for v in args)
        if x.ndim != 4 or kernel.ndim != 4 or kernel.shape[2] < 1 or x.shape[3] % kernel.shape[2]:
            raise GraphError("conv2d of other shapes", got=f"{tuple(x.shape)} and {tuple(kernel.shape)}")
        sizes, windows = tuple(x.shape[1:3]), tuple(kernel.shape[:2])
        steps = [1 if self.same else self._steps(k, sizes[k], windows[k]) for k in range(2)]
        if min(steps) < 0:
            raise GraphError("conv2d: the window is larger than what it moves over", got=f"{windows} and {sizes}")
        if not min(steps):
            whole = [-(-n // s) if self.same else k for n, s, k in zip(sizes, self.strides, steps, strict=True)]
            return torch.zeros(len(x), *whole, kernel.shape[3], dtype=x.dtype)
        spread = torch.nn.functional.pad(x.permute(FIRST), self._padding(sizes, windows))
        groups = x.shape[3] // kernel.shape[2]
        made = torch.conv2d(spread, kernel.permute(3, 2, 0, 1), None, self.strides, 0, self.dilations, groups)
        return made.permute(LAST).contiguous()

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.conv2d, channels first."""
        x, kernel = args
        if x.facts.shape is None or kernel.facts.shape is None:
            return None
        sizes, windows = x.facts.shape[1:], kernel.facts.shape[:3]
        if not all(isinstance(d, int) and d > 0 for d in (*sizes, *windows)):
            return None
        if not self.same and min(self._steps(k, int(sizes[k]), int(windows[k])) for k in range(2)) < 1:
            return None
        padding = self._padding(tuple(map(int, sizes[:2])), tuple(map(int, windows[:2])))
        spread: Any = Lowered("aten.permute.default", (x.value, FIRST))
        if any(padding):
            spread = Lowered("aten.constant_pad_nd.default", (spread, padding, 0.0))
        turned = Lowered("aten.permute.default", (kernel.value, (3, 2, 0, 1)))
        groups = int(sizes[2]) // int(windows[2])
        options = (("stride", self.strides), ("dilation", self.dilations), ("groups", groups))
        return Lowered("aten.permute.default", (Lowered("aten.conv2d.default", (spread, turned), options), LAST))
