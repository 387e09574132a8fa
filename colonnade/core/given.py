"""Numbers as users give them."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np


def is_whole(value: object) -> bool:
    """Whether a value is a whole number, of Python or of numpy; True and False are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)


def is_positive(value: Any) -> bool:
    """Whether a value is a whole number of at least 1."""
    return is_whole(value) and bool(value >= 1)


def is_number(value: object) -> bool:
    """Whether a value is a real number, of Python or of numpy; NaN is one, True and False are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
