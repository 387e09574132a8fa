"""What a run of the cases is told: where, how large, how often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from benchmarks.gpu.clock import Clock
from benchmarks.gpu.rows import Found

Say = Callable[[str], None]


@dataclass(frozen=True)
class Setting:
    """Where the cases run, and how large they are.

    dry: tiny sizes, and the cpu backend in place of the gpu one.   batches: in place of a case's own.
    seconds: of one closed loop.   threads: of the cpu backend beside; 0 leaves it out.
    """

    dry: bool = False
    batches: tuple[int, ...] = ()
    runs: int = 30
    seconds: float = 1.5
    threads: int = 1
    say: Say = print

    @property
    def device(self) -> torch.device:
        """Where sides that are not ours run."""
        return torch.device("cpu" if self.dry else "cuda")

    @property
    def target(self) -> str:
        """The backend that stands for ours."""
        return "cpu" if self.dry else "gpu"

    @property
    def clock(self) -> Clock:
        """Times device work."""
        return Clock(self.device, self.runs)

    def sizes(self, *usual: int) -> tuple[int, ...]:
        """The batch sizes: given, tiny, or usual."""
        return self.batches or ((3, 8) if self.dry else usual)

    def large_rows(self, usual: int) -> int:
        """The rows of a model's large tables."""
        return 1 << 10 if self.dry else usual


Case = Callable[[Setting], Iterator[Found]]
