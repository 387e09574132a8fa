"""`cumprod`: running products along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from colonnade.ops.graph._scan import Scan
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Cumprod(Scan, GraphOp):
    """`out[i] = product of x[0] to x[i]` along the axis that the second operand names; integers wrap.

    exclusive: without x[i] itself.   reverse: from the end.
    """

    aten: ClassVar[str] = "cumprod"
    start: ClassVar[int] = 1
    exclusive: bool = False
    reverse: bool = False
