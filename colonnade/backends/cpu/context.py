"""What a call's context holds after its fixed words: addresses of outputs, of offsets, of ragged fields."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.backends.cpu import words as w


@dataclass(frozen=True)
class Context:
    """The names of what one compiled program reads and writes by address. Units: words in bytes from the start.

    outputs: buffers.   offsets: inputs that hold the offsets of ragged fields.   ragged: those fields.
    """

    outputs: tuple[str, ...]
    offsets: tuple[str, ...]
    ragged: tuple[str, ...]

    def output_word(self, name: str) -> int:
        """Where a buffer's address lies; its row stride follows."""
        return w.OUTPUTS + 16 * self.outputs.index(name)

    def offsets_word(self, name: str) -> int:
        """Where the address of an input of offsets lies."""
        return w.OUTPUTS + 16 * len(self.outputs) + 8 * self.offsets.index(name)

    def ragged_word(self, name: str) -> int:
        """Where the address of a ragged field's values lies; for strings that of their offsets, then of their bytes."""
        return self._ragged + 16 * self.ragged.index(name)

    @property
    def size(self) -> int:
        """Bytes of the whole context."""
        return self._ragged + 16 * len(self.ragged)

    @property
    def _ragged(self) -> int:
        return w.OUTPUTS + 16 * len(self.outputs) + 8 * len(self.offsets)
