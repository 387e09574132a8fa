"""Plain gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade.backends.lanes import add_lanes, lanes, load_lanes, mul_lanes, store_lanes, sub_lanes
from colonnade.backends.memory import inlined, load_f32
from colonnade.train.loops.update import updating
from colonnade.train.optimizers.optimizer import LARGEST, Optimizer, Rate, State, refuse_unless

LR, DECAY = 0, 4


@dataclass(frozen=True)
class Sgd(Optimizer):
    """`w -= lr * (g + weight_decay * w)`.   Source: torch.optim.SGD."""

    loop: ClassVar[str] = "sgd"
    most: ClassVar[float] = LARGEST
    lr: Rate = 0.01
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unless(self.weight_decay >= 0, self, "weight_decay >= 0")

    @property
    def states(self) -> tuple[State, ...]:
        return ()

    def scalars(self, step: int, lr: float) -> tuple[float, ...]:
        return lr, self.weight_decay

    def reference(
        self, values_UD: torch.Tensor, states: tuple[torch.Tensor, ...], grads_UD: torch.Tensor, step: int, lr: float
    ) -> torch.Tensor:
        return values_UD - lr * (grads_UD + self.weight_decay * values_UD)


@inlined
def _step(values: int, states: int, apart: int, grad: int, scalars: int, of_row: np.float32) -> None:
    w = load_lanes(values)
    g = add_lanes(load_lanes(grad), mul_lanes(lanes(load_f32(scalars + DECAY)), w))
    store_lanes(values, sub_lanes(w, mul_lanes(lanes(load_f32(scalars + LR)), g)))


updating("sgd", 0, _step)
