"""A table: the rows that ids look up."""

from __future__ import annotations

from dataclasses import dataclass, field

from colonnade.core import quantize
from colonnade.core.expr import Expr


@dataclass(frozen=True)
class Table:
    """`rows` vectors of `embedding_dim` values of `dtype`; `source` (variable name) is outside equality.

    dtype: float32, or one of `quantize.NARROW`, which says how rows are stored; backends read them as float32.
    made: what its rows are made of, over variables by name, where it is no variable itself (`ir/made_table.py`).
    """

    name: str
    rows: int
    embedding_dim: int
    dtype: str = "float32"
    source: str = field(default="", compare=False)
    made: Expr | None = None

    @property
    def stored_shape(self) -> tuple[int, int]:
        """The shape of its rows as they are stored."""
        return self.rows, quantize.row_width(self.dtype, self.embedding_dim)

    @property
    def row_bytes(self) -> int:
        """Size of a row. Units: bytes."""
        return quantize.row_bytes(self.dtype, self.embedding_dim)

    @property
    def bytes(self) -> int:
        """Size of its rows. Units: bytes."""
        return self.rows * self.row_bytes
