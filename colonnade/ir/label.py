"""`label`: what integers of an output are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from colonnade.core.consts import Const
from colonnade.errors import GraphError
from colonnade.ops.op import Op

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Label(Op):
    """`out = values[i] where keys[i] == x`; where no key is x: the default, or an error where there is none.

    keys: distinct int64.   values: strings, one a key.
    """

    name: ClassVar[str] = "label"

    keys: Const
    values: Const
    default: bytes | None = None

    def problem(self) -> str:
        """What is wrong with it; empty where nothing is."""
        keys, values = self.keys.array, self.values.array
        if keys.dtype != np.int64 or values.dtype != object or keys.ndim != 1 or keys.shape != values.shape:
            return f"{keys.dtype}{list(keys.shape)} keys and {values.dtype}{list(values.shape)} values"
        return "keys that are not distinct" if len(np.unique(keys)) != len(keys) else ""

    def texts(self, x: Array, where: str) -> Array:
        """An object array of bytes. Errors: GraphError where an integer has no text."""
        keys, values = self.keys.array, self.values.array
        flat = np.asarray(x).reshape(-1).astype(np.int64)
        if len(keys) and keys[0] == 0 and np.array_equal(keys, np.arange(len(keys))):
            places, known = np.clip(flat, 0, len(keys) - 1), (flat >= 0) & (flat < len(keys))
        else:
            order = np.argsort(keys)
            places = order[np.minimum(np.searchsorted(keys, flat, sorter=order), len(keys) - 1)] if len(keys) else flat
            known = keys[places] == flat if len(keys) else np.zeros(len(flat), bool)
        if self.default is None and not known.all():
            missing = int(flat[~known][0])
            raise GraphError("an output is a text that there is not", where=where, got=str(missing))
        made = np.full(len(flat), self.default, object)
        made[known] = values[places[known]]
        return made.reshape(np.shape(x))
