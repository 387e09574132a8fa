"""AdamW: Adam whose decay does not pass through its means."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.train.optimizers.adam import Adam


@dataclass(frozen=True)
class AdamW(Adam):
    """`w *= 1 - lr * weight_decay`, then Adam without decay.   Source: torch.optim.AdamW."""

    weight_decay: float = 0.01

    def scalars(self, step: int, lr: float) -> tuple[float, ...]:
        return self._numbers(step, lr, 0.0, 1 - lr * self.weight_decay)
