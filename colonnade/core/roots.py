"""Square roots rounded to the nearest, as TensorFlow's are: torch's vectors may be a bit off."""

from __future__ import annotations

import numpy as np
import torch


def nearest_sqrt(x: torch.Tensor) -> torch.Tensor:
    """`sqrt(x)`, each rounded to the nearest number of x's dtype; NaN below 0."""
    if x.dtype == torch.bfloat16:
        return x.float().sqrt().bfloat16()
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.asarray(np.sqrt(x.numpy())))
