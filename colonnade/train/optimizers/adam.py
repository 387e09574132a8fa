"""Adam: running means of gradients and of their squares, corrected for their start."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade.backends.lanes import add_lanes, div_lanes, lanes, load_lanes, mul_lanes, store_lanes, sub_lanes
from colonnade.backends.memory import inlined, load_f32
from colonnade.train.loops.simd import finite_lanes, sqrt_lanes
from colonnade.train.loops.update import updating
from colonnade.train.optimizers.optimizer import LARGEST, Optimizer, Rate, State, refuse_unless

LR, DECAY, EPS, NEW1, OLD2, NEW2, ROOT, KEEP = (4 * k for k in range(8))


@dataclass(frozen=True)
class Adam(Optimizer):
    """`m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; w -= lr / c1 * m / (sqrt(v) / sqrt(c2) + eps)`.

    With `weight_decay * w` in g, and `c = 1 - beta^step`, counted for each table.   Source: torch.optim.Adam.
    """

    loop: ClassVar[str] = "adam"
    lr: Rate = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = 0 <= self.beta1 < 1 and 0 <= self.beta2 < 1 and min(self.eps, self.weight_decay) >= 0
        refuse_unless(fits, self, "betas from 0 to below 1, eps and weight_decay >= 0")

    @property
    def states(self) -> tuple[State, ...]:
        return State("mean"), State("mean_square")

    def scalars(self, step: int, lr: float) -> tuple[float, ...]:
        return self._numbers(step, lr, self.weight_decay, 1.0)

    def _numbers(self, step: int, lr: float, decay: float, keep: float) -> tuple[float, ...]:
        root = math.sqrt(1 - self.beta2**step)
        return (lr / (1 - self.beta1**step), decay, self.eps, 1 - self.beta1, self.beta2, 1 - self.beta2, root, keep)

    def reference(
        self, values_UD: torch.Tensor, states: tuple[torch.Tensor, ...], grads_UD: torch.Tensor, step: int, lr: float
    ) -> torch.Tensor:
        size, decay, eps, new1, old2, new2, root, keep = self.scalars(step, lr)
        grads_UD = grads_UD + decay * values_UD
        states[0].lerp_(grads_UD, new1)
        states[1].mul_(old2).add_(new2 * grads_UD.square()).clamp_(max=LARGEST)
        return keep * values_UD - size * states[0] / (states[1].sqrt() / root + eps)


@inlined
def _step(values: int, states: int, apart: int, grad: int, scalars: int, of_row: np.float32) -> None:
    w = load_lanes(values)
    g = add_lanes(load_lanes(grad), mul_lanes(lanes(load_f32(scalars + DECAY)), w))
    mean = load_lanes(states)
    mean = add_lanes(mean, mul_lanes(lanes(load_f32(scalars + NEW1)), sub_lanes(g, mean)))
    square = mul_lanes(lanes(load_f32(scalars + OLD2)), load_lanes(states + apart))
    square = add_lanes(square, mul_lanes(lanes(load_f32(scalars + NEW2)), mul_lanes(g, g)))
    store_lanes(states, mean)
    square = finite_lanes(square)
    store_lanes(states + apart, square)
    divisor = div_lanes(sqrt_lanes(square), lanes(load_f32(scalars + ROOT)))
    divisor = add_lanes(divisor, lanes(load_f32(scalars + EPS)))
    kept = mul_lanes(lanes(load_f32(scalars + KEEP)), w)
    store_lanes(values, sub_lanes(kept, div_lanes(mul_lanes(lanes(load_f32(scalars + LR)), mean), divisor)))


updating("adam", 2, _step)
