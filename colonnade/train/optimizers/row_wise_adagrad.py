"""Row-wise Adagrad: one rate for each row, by the sum of the means of its squared gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade.backends.lanes import lanes, load_lanes, mul_lanes, store_lanes, sub_lanes
from colonnade.backends.memory import inlined, load_f32, store_f32
from colonnade.train.loops.update import updating
from colonnade.train.optimizers.optimizer import LARGEST, Optimizer, Rate, State, refuse_unless

LR, EPS = 0, 4


@dataclass(frozen=True)
class RowWiseAdagrad(Optimizer):
    """`s += mean(g^2); w -= lr * g / (sqrt(s) + eps)`, s one number a row."""

    loop: ClassVar[str] = "row_wise_adagrad"
    lr: Rate = 0.01
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unless(
            min(self.initial_accumulator_value, self.eps) >= 0, self, "initial_accumulator_value and eps >= 0"
        )

    @property
    def states(self) -> tuple[State, ...]:
        return (State("sum", self.initial_accumulator_value, per_value=False),)

    def scalars(self, step: int, lr: float) -> tuple[float, ...]:
        return lr, self.eps

    def reference(
        self, values_UD: torch.Tensor, states: tuple[torch.Tensor, ...], grads_UD: torch.Tensor, step: int, lr: float
    ) -> torch.Tensor:
        squares = grads_UD.double().square().mean(1, keepdim=True)
        states[0].copy_((states[0] + squares).clamp(max=LARGEST))
        return values_UD - lr * grads_UD / (states[0].sqrt() + self.eps)


@inlined
def _begin(states: int, grad: int, dim: int, scalars: int) -> np.float32:
    total = 0.0
    for k in range(dim):
        g = float(load_f32(grad + 4 * k))
        total += g * g
    added = np.float32(min(load_f32(states) + total / dim, LARGEST))
    store_f32(states, added)
    return np.float32(load_f32(scalars + LR) / (np.float32(np.sqrt(added)) + load_f32(scalars + EPS)))


@inlined
def _step(values: int, states: int, apart: int, grad: int, scalars: int, of_row: np.float32) -> None:
    store_lanes(values, sub_lanes(load_lanes(values), mul_lanes(lanes(of_row), load_lanes(grad))))


updating("row_wise_adagrad", 0, _step, _begin)
