"""What lies in a row on a device: its key, its last step, its values, how often it was looked up, its state.

Units: offsets and sizes are bytes. The key and the step are the first 16, so that values can be read 16 at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.train.loops import words as w
from colonnade.train.tables.layout import Layout

ALIGNMENT = 16

ID, TABLE, STEP, VALUES = 0, 8, 12, 16
"""int64; int32, -1 where the row is free; int32; then the values."""


@dataclass(frozen=True)
class Places:
    """Where the parts of rows of a layout lie. count: int64.   states: float32."""

    layout: Layout

    @property
    def count(self) -> int:
        """How often the row was looked up."""
        end = VALUES + self.layout.embedding_dim * w.ITEM_BYTES[self.layout.dtype]
        return end + -end % 8

    @property
    def states(self) -> int:
        """The optimizer's state."""
        return self.count + 8

    @property
    def row_bytes(self) -> int:
        """Size of a row."""
        size = self.states + 4 * self.layout.num_states
        return size + -size % ALIGNMENT
