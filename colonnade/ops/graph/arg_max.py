"""`arg_max`: where the largest element of an axis is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from colonnade.ops.graph._arg import Arg
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class ArgMax(Arg, GraphOp):
    """The first position of the largest element along the axis that the second operand names.

    Facts: NaN is the largest, as torch has it; frontends for whom it is the smallest replace it before.
    Errors: GraphError on an axis without elements.
    """

    aten: ClassVar[str] = "argmax"
    out_type: str = "int64"
