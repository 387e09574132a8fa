"""Adagrad: a rate of its own for each value, by the sum of its squared gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade.backends.lanes import add_lanes, div_lanes, lanes, load_lanes, mul_lanes, store_lanes, sub_lanes
from colonnade.backends.memory import inlined, load_f32
from colonnade.train.loops.simd import finite_lanes, sqrt_lanes
from colonnade.train.loops.update import updating
from colonnade.train.optimizers.optimizer import LARGEST, Optimizer, Rate, State, refuse_unless

LR, DECAY, EPS = 0, 4, 8


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """`s += g^2; w -= lr / (1 + (step - 1) * lr_decay) * g / (sqrt(s) + eps)`, with `weight_decay * w` in g.

    Source: torch.optim.Adagrad.
    """

    loop: ClassVar[str] = "adagrad"
    lr: Rate = 0.01
    lr_decay: float = 0.0
    weight_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = (self.lr_decay, self.weight_decay, self.initial_accumulator_value, self.eps)
        refuse_unless(min(numbers) >= 0, self, "lr_decay, weight_decay, initial_accumulator_value and eps >= 0")

    @property
    def states(self) -> tuple[State, ...]:
        return (State("sum", self.initial_accumulator_value),)

    def scalars(self, step: int, lr: float) -> tuple[float, ...]:
        return lr / (1 + (step - 1) * self.lr_decay), self.weight_decay, self.eps

    def reference(
        self, values_UD: torch.Tensor, states: tuple[torch.Tensor, ...], grads_UD: torch.Tensor, step: int, lr: float
    ) -> torch.Tensor:
        grads_UD = grads_UD + self.weight_decay * values_UD
        states[0].add_(grads_UD.square()).clamp_(max=LARGEST)
        return values_UD - lr / (1 + (step - 1) * self.lr_decay) * grads_UD / (states[0].sqrt() + self.eps)


@inlined
def _step(values: int, states: int, apart: int, grad: int, scalars: int, of_row: np.float32) -> None:
    w = load_lanes(values)
    g = add_lanes(load_lanes(grad), mul_lanes(lanes(load_f32(scalars + DECAY)), w))
    total = finite_lanes(add_lanes(load_lanes(states), mul_lanes(g, g)))
    store_lanes(states, total)
    divisor = add_lanes(sqrt_lanes(total), lanes(load_f32(scalars + EPS)))
    store_lanes(values, sub_lanes(w, div_lanes(mul_lanes(lanes(load_f32(scalars + LR)), g), divisor)))


updating("adagrad", 1, _step)
