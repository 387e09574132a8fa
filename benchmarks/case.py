"""What a case is, and the runner, which gives no number on a red check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import colonnade.compiler as compiler
from colonnade.testing.bench import Bench, Measured, Refused
from colonnade.testing.models import cached
from colonnade.testing.sides import TensorFlowSide

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """A test model, timed whole and by its columns alone, for some batch sizes.

    model: a name of `colonnade.testing.models`.   what: parts that are kept (`whole`, `columns`).   path: of a
    SavedModel, in the place of a model by name.
    """

    name: str
    model: str
    batches: tuple[int, ...] = (1, 32, 256)
    what: tuple[str, ...] = ("whole", "columns")
    runs: int = 30
    quick: bool = False
    path: Path | None = None

    def setup(self, threads: int, progress: Progress) -> Bench:
        """The model made (or taken from the cache), compiled, and loaded in TensorFlow."""
        progress(f"{self.name}: make {self.model}")
        folder: Path = self.path or cached(self.model)
        executable = compiler.compile(folder, threads=threads, progress=progress)
        progress(f"{self.name}: load it in TensorFlow")
        oracle = TensorFlowSide(folder, executable.program, threads=threads, optimize=True)
        checker = TensorFlowSide(folder, executable.program, threads=threads)
        return Bench(self.name, executable, compiler.backend("cpu"), oracle, threads, checker=checker)


def run(
    cases: Sequence[Case], *, threads: int = 2, runs: int | None = None, quick: bool = False, progress: Progress
) -> Iterator[Measured | Refused]:
    """Every batch size of every case: set up, checked against TensorFlow, and only then timed.

    quick: only the smaller batch sizes, with few runs.
    """
    for case in cases:
        bench = case.setup(threads, progress)
        batches = case.batches[:2] if quick else case.batches
        count = runs or (7 if quick else case.runs)
        try:
            for found in bench.run(batches, count, progress=progress):
                if isinstance(found, Refused) or found.what in case.what:
                    yield found
        finally:
            bench.close()
