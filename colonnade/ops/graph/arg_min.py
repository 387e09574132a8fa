"""`arg_min`: where the smallest element of an axis is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from colonnade.ops.graph._arg import Arg
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class ArgMin(Arg, GraphOp):
    """The first position of the smallest element along the axis that the second operand names.

    Facts: NaN is the smallest, as torch has it; frontends for whom it is the largest replace it before.
    Errors: GraphError on an axis without elements.
    """

    aten: ClassVar[str] = "argmin"
    out_type: str = "int64"
