"""What lies in a row on a device: its key, its last step, how often it was looked up, its values, its state.

Units: offsets and sizes are bytes. What every step writes lies in one burst of memory, the first 32; values follow, so
that they can be read 16 at a time, and state of many numbers, too, where values fill whole 16. State of one or two
numbers lies before the values.
"""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.train.loops import words as w
from colonnade.train.tables.layout import Layout

ALIGNMENT = 16

ID, TABLE, STEP, COUNT, FEW_STATES, VALUES = 0, 8, 12, 16, 24, 32
"""int64; int32, -1 where the row is free; int32; int64; up to two numbers of state; then the values."""


@dataclass(frozen=True)
class Places:
    """Where the parts of rows of a layout lie. states: float32."""

    layout: Layout

    @property
    def _values_end(self) -> int:
        end = VALUES + self.layout.embedding_dim * w.ITEM_BYTES[self.layout.dtype]
        return end + -end % 4

    @property
    def _has_few(self) -> bool:
        return FEW_STATES + 4 * self.layout.num_states <= VALUES

    @property
    def states(self) -> int:
        """The optimizer's state."""
        return FEW_STATES if self._has_few else self._values_end

    @property
    def row_bytes(self) -> int:
        """Size of a row."""
        size = self._values_end + (0 if self._has_few else 4 * self.layout.num_states)
        return size + -size % ALIGNMENT
