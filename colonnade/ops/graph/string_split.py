"""`string_split`: strings as tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.facts import Facts, Order, Packed
from colonnade.errors import ShapeError
from colonnade.ops.graph._facts import want_dtype, want_rank
from colonnade.ops.graph._values import array
from colonnade.ops.op import GraphOp, Inferred, Value, fresh
from colonnade.ops.split import Split


@dataclass(frozen=True)
class StringSplit(GraphOp):
    """`(indices, tokens, shape)`: a sparse matrix; row i holds the tokens of x[i] between occurrences of `separator`.

    skip_empty: tokens without a byte are left out.
    Facts: every row has at least one token, where none is left out; rows of indices strictly increase; shape is (rows,
    most tokens of a row).
    """

    num_outputs: ClassVar[int] = 3
    separator: bytes
    skip_empty: bool = False

    def infer(self, *args: Facts) -> Inferred:
        """The number of tokens is decided by the data."""
        (x,) = args
        want_dtype("string_split", x, ("string",))
        want_rank("string_split", x, 1)
        if not self.separator:
            raise ShapeError("string_split by an empty separator", want="at least 1 byte")
        rows = x.shape[0] if x.shape is not None else fresh(2)
        count = fresh(0)
        hi = rows - 1 if isinstance(rows, int) else None
        first = facts.facts("int64", (count,), lo=0, hi=hi, order=Order.NONDECREASING)
        packed = Packed(1, (first, facts.facts("int64", (count,), lo=0)))
        indices = facts.facts("int64", (count, 2), lo=0, order=Order.STRICT, distinct=True, packed=packed)
        return Inferred(
            (indices, facts.facts("string", (count,)), facts.facts("int64", (2,), content=(rows, fresh(1))))
        )

    def reference(self, *args: Value) -> tuple[Value, Value, Value]:
        """By the column op `split`."""
        (x,) = args
        source = array(x)
        tokens, counts = Split(self.separator).expand(source)
        lengths = counts.numpy()
        rows = np.repeat(np.arange(len(source)), lengths)
        if self.skip_empty:
            kept = tokens != b""
            tokens, rows = tokens[kept], rows[kept]
            lengths = np.bincount(rows, minlength=len(source))
        columns = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        indices = np.stack([rows, columns], axis=1).astype(np.int64)
        shape = [len(source), int(lengths.max()) if len(lengths) else 0]
        return torch.from_numpy(indices), tokens, torch.tensor(shape, dtype=torch.int64)
