"""`string_to_number`: text as numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import BOUNDS, one, want_dtype
from colonnade.ops.graph._values import array, tensor
from colonnade.ops.op import GraphOp, Inferred, Value

INTEGERS = re.compile(rb"[+-]?[0-9]+")
DECIMALS = re.compile(rb"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
HEXADECIMALS = re.compile(rb"[+-]?0[xX]([0-9a-fA-F]+(\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)([pP][+-]?[0-9]+)?")
SPACE = b" \t\n\v\f\r"


@dataclass(frozen=True)
class StringToNumber(GraphOp):
    """`out = number that the text x spells`, blanks around it ignored.

    Errors: GraphError on text that spells no number, the empty text among it, and on an integer that does not fit.
    """

    out_type: str = "float32"

    def infer(self, *args: Facts) -> Inferred:
        """The shape is kept."""
        (x,) = args
        want_dtype("string_to_number", x, ("string",))
        if self.out_type not in ("float32", "float64", "int32", "int64"):
            raise ShapeError(
                "string_to_number: no such dtype", got=self.out_type, want="float32, float64, int32, int64"
            )
        return one(facts.facts(self.out_type, x.shape))

    def reference(self, *args: Value) -> Value:
        """One string at a time."""
        (x,) = args
        source = array(x)
        made = np.empty(source.size, dtype=self.out_type)
        with np.errstate(over="ignore"):
            for k, text in enumerate(source.reshape(-1)):
                made[k] = self._number(text)
        return tensor(made.reshape(source.shape))

    def _number(self, text: bytes) -> float | int:
        kept = text.strip(SPACE)
        if self.out_type in BOUNDS:
            lo, hi = BOUNDS[self.out_type]
            if INTEGERS.fullmatch(kept) and lo <= int(kept) <= hi:
                return int(kept)
        elif DECIMALS.fullmatch(kept):
            return float(kept)
        elif HEXADECIMALS.fullmatch(kept):
            return float.fromhex(kept.decode())
        raise GraphError("string_to_number: text that spells no number", got=repr(text), want=self.out_type)
