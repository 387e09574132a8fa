"""`join_shards`: the parts of a table as one, its rows in the order of their ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import ShapeError
from colonnade.ops.graph._facts import one, want_rank, want_same_dtype
from colonnade.ops.graph._values import array, like
from colonnade.ops.op import GraphOp, Inferred, Value

Strategy = Literal["div", "mod"]


def sizes(rows: int, parts: int) -> tuple[int, ...]:
    """The rows of each part: the first ones have one more where they do not divide."""
    return tuple(rows // parts + (k < rows % parts) for k in range(parts))


@dataclass(frozen=True)
class JoinShards(GraphOp):
    """`out[i]` is row i of the table whose parts the operands are.

    strategy: `div`, one part after the other; `mod`, row i is row i // n of part i % n.
    Shapes: [R_k, D] n times, R_k as `sizes` has them -> [sum of R_k, D].
    """

    strategy: Strategy = "div"

    def infer(self, *args: Facts) -> Inferred:
        """All is known. Errors: ShapeError where the parts do not fit the strategy."""
        dtype = want_same_dtype("join_shards", args)
        for f in args:
            want_rank("join_shards", f, 2)
        found = [f.shape for f in args if f.shape is not None]
        rows = [s[0] for s in found if isinstance(s[0], int)]
        if self.strategy not in ("div", "mod") or len(rows) != len(args) or len({s[1] for s in found}) != 1:
            raise ShapeError("join_shards: no strategy, or no matrices of one width", got=f"{self.strategy}, {found}")
        if tuple(rows) != sizes(sum(rows), len(rows)):
            raise ShapeError("join_shards: parts of sizes that no table has", got=str(rows))
        return one(facts.facts(dtype, (sum(rows), found[0][1])))

    def reference(self, *args: Value) -> Value:
        """By `rows`."""
        parts = [array(x) for x in args]
        return like(args[0], self.rows(parts, 0, sum(map(len, parts))))

    def rows(self, parts: Sequence[npt.NDArray[Any]], start: int, stop: int) -> npt.NDArray[Any]:
        """Rows `start .. stop` of the table, copied."""
        made = np.empty((stop - start, parts[0].shape[1]), parts[0].dtype)
        if self.strategy == "mod":
            count = len(parts)
            for k, part in enumerate(parts):
                first = start + (k - start) % count
                wanted = made[first - start :: count]
                wanted[:] = part[first // count :][: len(wanted)]
            return made
        begin = 0
        for part in parts:
            low, high = max(start, begin), min(stop, begin + len(part))
            if low < high:
                made[low - start : high - start] = part[low - begin : high - begin]
            begin += len(part)
        return made
