"""What lies in a row: its key, what is known of its use, its values, its optimizer's state."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.train.loops import words as w

LINE = 64
KEY_BYTES = 16
"""What a key takes by itself."""


@dataclass(frozen=True)
class Layout:
    """Rows of `embedding_dim` values of a dtype and `num_states` float32 values of an optimizer's state.

    Units: offsets and sizes are bytes.   Facts: values and state end where the row does, but for less than a word.
    """

    embedding_dim: int
    dtype: str = "float32"
    num_states: int = 0

    @property
    def values_bytes(self) -> int:
        """Size of the values, in whole float32."""
        size = self.embedding_dim * w.ITEM_BYTES[self.dtype]
        return size + -size % 4

    @property
    def learned_bytes(self) -> int:
        """Size of values and state."""
        return self.values_bytes + 4 * self.num_states

    @property
    def values(self) -> int:
        """Where the values lie."""
        return (self.row_bytes - self.learned_bytes) // 8 * 8

    @property
    def states(self) -> int:
        """Where the state lies."""
        return self.values + self.values_bytes

    @property
    def row_bytes(self) -> int:
        """Size of a row: whole cache lines where that is at most a third more than what has to be kept."""
        size = w.HEADER_BYTES + self.learned_bytes
        lines = size + -size % LINE
        return lines if 3 * lines <= 4 * (KEY_BYTES + self.learned_bytes) else size + -size % 8
