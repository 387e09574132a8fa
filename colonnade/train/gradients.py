"""What is done to gradients before an optimizer gets them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from colonnade.errors import OptionError

NOT_FINITE = ("error", "skip_rows", "skip_step", "clip")


@dataclass(frozen=True)
class GradientPolicy:
    """not_finite: where a row's gradient is NaN or infinite (or its square is, the optimizer takes it, and there are no
    limits): an `error` before anything changes, or `skip_rows` (those rows alone), `skip_step` (all rows of the step),
    `clip` (NaN becomes 0, the infinite max_value).

    max_value: of each number.   max_row_norm: of each row's.   max_norm: of all rows' together, scaled as torch's
    clip_grad_norm_ does.   None: not limited.
    """

    not_finite: str = "error"
    max_value: float | None = None
    max_row_norm: float | None = None
    max_norm: float | None = None

    def __post_init__(self) -> None:
        limits = [x for x in (self.max_value, self.max_row_norm, self.max_norm) if x is not None]
        if self.not_finite not in NOT_FINITE or any(not x > 0 for x in limits):
            want = f"not_finite one of {', '.join(NOT_FINITE)}, limits above 0"
            raise OptionError("a policy for gradients that cannot work", got=str(self), want=want)
        if self.not_finite == "clip" and self.max_value is None:
            raise OptionError("infinite gradients are clipped to max_value", got=str(self), want="a max_value")

    @property
    def limits(self) -> bool:
        """Whether gradients are limited."""
        return not (self.max_value is None and self.max_row_norm is None and self.max_norm is None)

    def limited(self, grads_UD: torch.Tensor) -> torch.Tensor:
        """The gradients of one group of rows, limited one by one and row by row."""
        if self.not_finite == "clip":
            grads_UD = torch.nan_to_num(grads_UD, nan=0.0, posinf=self.max_value, neginf=-float(self.max_value or 0))
        if self.max_value is not None:
            grads_UD = grads_UD.clamp(-self.max_value, self.max_value)
        if self.max_row_norm is not None:
            norms = grads_UD.double().norm(dim=1, keepdim=True)  # of squares that float32 may not hold
            grads_UD = grads_UD * (self.max_row_norm / (norms + 1e-6)).clamp(max=1).float()
        return grads_UD

    def factor(self, square_norms: list[float]) -> float:
        """What all gradients are multiplied by."""
        if self.max_norm is None:
            return 1.0
        return min(1.0, self.max_norm / (math.sqrt(sum(square_norms)) + 1e-6))
