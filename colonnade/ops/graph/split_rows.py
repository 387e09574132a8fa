"""`split_rows`: strings as rows of tokens of equal length, which the host makes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.facts import Facts
from colonnade.errors import ShapeError
from colonnade.ops.graph._facts import one, want_dtype
from colonnade.ops.graph._on_host import OnHost
from colonnade.ops.graph._values import array
from colonnade.ops.op import GraphOp, Inferred, Value
from colonnade.ops.split import Split


@dataclass(frozen=True)
class SplitRows(OnHost, GraphOp):
    """`out[row, place]` is that token of string `row` between occurrences of `separator`, else `fill`.

    skip_empty: tokens without a byte are left out.   symbol: the name of the number of places, that of the row with the
    most tokens, where `width` gives none; a width cuts rows.
    Shapes: strings of any shape, read row-major; the result is `[strings, width]`.
    """

    separator: bytes
    skip_empty: bool
    fill: bytes
    symbol: str
    width: int | None = None

    def infer(self, *args: Facts) -> Inferred:
        """As many rows as strings; a request tells the number of places."""
        (x,) = args
        want_dtype("split_rows", x, ("string",))
        if not self.separator or (self.width is not None and self.width < 0):
            got = f"{self.separator!r}, {self.width}"
            raise ShapeError("split_rows: no such rows", got=got, want="a separator, a width >= 0")
        if x.size is None:
            return one(facts.facts("string", None))
        return one(facts.facts("string", (x.size, dims.symbol(self.symbol) if self.width is None else self.width)))

    def reference(self, *args: Value) -> Value:
        """By the column op `split`."""
        texts = array(args[0]).reshape(-1)
        tokens, counts = Split(self.separator).expand(texts)
        rows = np.repeat(np.arange(len(texts)), counts.numpy())
        if self.skip_empty:
            kept = tokens != b""
            tokens, rows = tokens[kept], rows[kept]
        lengths = np.bincount(rows, minlength=len(texts))
        places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        width = int(lengths.max(initial=0)) if self.width is None else self.width
        made = np.full((len(texts), width), self.fill, object)
        inside = places < width
        made[rows[inside], places[inside]] = tokens[inside]
        return made
