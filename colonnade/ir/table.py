"""A table: the rows that ids look up."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """`rows` vectors of `embedding_dim` values of `dtype`; `source` (variable name) is outside equality."""

    name: str
    rows: int
    embedding_dim: int
    dtype: str = "float32"
    source: str = field(default="", compare=False)

    @property
    def bytes(self) -> int:
        """Size of its rows. Units: bytes."""
        return (
            self.rows
            * self.embedding_dim
            * {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int8": 1}[self.dtype]
        )
