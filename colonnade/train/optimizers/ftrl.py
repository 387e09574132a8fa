"""FTRL-Proximal: what the gradients ask for together, shrunk towards zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade.backends.lanes import (
    add_lanes,
    div_lanes,
    lanes,
    load_lanes,
    max_lanes,
    mul_lanes,
    store_lanes,
    sub_lanes,
)
from colonnade.backends.memory import inlined, load_f32
from colonnade.train.loops.simd import finite_lanes, sqrt_lanes
from colonnade.train.loops.update import updating
from colonnade.train.optimizers.optimizer import LARGEST, Optimizer, Rate, State, refuse_unless

LR, L1, L2, BETA = 0, 4, 8, 12


@dataclass(frozen=True)
class Ftrl(Optimizer):
    """`n' = n + g^2; z += g - (sqrt(n') - sqrt(n)) / lr * w; w = -shrink(z, l1) / ((beta + sqrt(n')) / lr + 2 l2)`.

    `shrink(z, l1)` is z moved by l1 towards 0, and 0 within.   Source: McMahan et al., KDD 2013; TensorFlow's Ftrl.
    """

    loop: ClassVar[str] = "ftrl"
    least_rate: ClassVar[float] = 2.0**-126  # it divides by it
    lr: Rate = 0.001
    initial_accumulator_value: float = 0.1
    l1: float = 0.0
    l2: float = 0.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = (self.initial_accumulator_value, self.l1, self.l2, self.beta)
        refuse_unless(min(numbers) >= 0, self, "initial_accumulator_value, l1, l2 and beta >= 0")
        positive = self.initial_accumulator_value + self.l2 + self.beta > 0
        refuse_unless(positive, self, "one of initial_accumulator_value, l2 and beta above 0, as it divides by them")

    @property
    def states(self) -> tuple[State, ...]:
        return State("square_sum", self.initial_accumulator_value), State("linear")

    def scalars(self, step: int, lr: float) -> tuple[float, ...]:
        return lr, self.l1, self.l2, self.beta

    def reference(
        self, values_UD: torch.Tensor, states: tuple[torch.Tensor, ...], grads_UD: torch.Tensor, step: int, lr: float
    ) -> torch.Tensor:
        old = states[0].sqrt()
        states[0].add_(grads_UD.square()).clamp_(max=LARGEST)
        new = states[0].sqrt()
        states[1].add_(grads_UD - (new - old) / lr * values_UD)
        shrunk = states[1].sign() * (states[1].abs() - self.l1).clamp(min=0)
        return -shrunk / ((self.beta + new) / lr + 2 * self.l2)


@inlined
def _step(values: int, states: int, apart: int, grad: int, scalars: int, of_row: np.float32) -> None:
    g, lr, zero = load_lanes(grad), lanes(load_f32(scalars + LR)), lanes(np.float32(0))
    square = load_lanes(states)
    old = sqrt_lanes(square)
    square = finite_lanes(add_lanes(square, mul_lanes(g, g)))
    new = sqrt_lanes(square)
    moved = mul_lanes(div_lanes(sub_lanes(new, old), lr), load_lanes(values))
    linear = add_lanes(load_lanes(states + apart), sub_lanes(g, moved))
    store_lanes(states, square)
    store_lanes(states + apart, linear)
    l1, l2 = lanes(load_f32(scalars + L1)), load_f32(scalars + L2)
    above = max_lanes(zero, sub_lanes(linear, l1))
    below = max_lanes(zero, sub_lanes(sub_lanes(zero, linear), l1))
    divisor = add_lanes(div_lanes(add_lanes(lanes(load_f32(scalars + BETA)), new), lr), lanes(l2 + l2))
    store_lanes(values, div_lanes(sub_lanes(below, above), divisor))


updating("ftrl", 2, _step)
