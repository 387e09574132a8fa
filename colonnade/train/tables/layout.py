"""What lies in a row: its key, what is known of its use, its values, its optimizer's state."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.train.loops import words as w

ALIGNMENT = 16


@dataclass(frozen=True)
class Layout:
    """Rows of `embedding_dim` values of a dtype and `num_states` float32 values of an optimizer's state.

    Units: offsets and sizes are bytes.
    """

    embedding_dim: int
    dtype: str = "float32"
    num_states: int = 0

    @property
    def values_bytes(self) -> int:
        """Size of the values."""
        return self.embedding_dim * w.ITEM_BYTES[self.dtype]

    @property
    def states(self) -> int:
        """Where the state lies."""
        return w.VALUES + self.values_bytes + -self.values_bytes % 4

    @property
    def row_bytes(self) -> int:
        """Size of a row."""
        size = self.states + 4 * self.num_states
        return size + -size % ALIGNMENT
