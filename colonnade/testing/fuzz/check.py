"""One random model: TensorFlow's answers beside those of the backends."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from colonnade import compiler
from colonnade.backends.backend import Backend
from colonnade.errors import ColonnadeError, OptionError
from colonnade.executable import Executable
from colonnade.testing.fuzz.build import build
from colonnade.testing.fuzz.cases import Model
from colonnade.testing.fuzz.encode import encoded
from colonnade.testing.requests import Request
from colonnade.testing.sides import CRASHES, ColonnadeSide, TensorFlowSide
from colonnade.testing.verify import Verdict, verify

_T = TypeVar("_T")
FAILURES = (*CRASHES, AssertionError, ColonnadeError)
"""What importing or compiling a model may raise: all of these models are to be supported."""


def _interpreted() -> Backend:
    from colonnade.backends.gpu.backend import GpuBackend

    return GpuBackend(interpret=True)


def prepare(backends: Sequence[str]) -> None:
    """Load what must be loaded before TensorFlow: Triton crashes the process when it comes second."""
    if compiler.GPU in backends:
        _interpreted()


BACKENDS: Mapping[str, Callable[[], Backend]] = {**compiler.TARGETS, compiler.GPU: _interpreted}


@dataclass(frozen=True)
class Failure:
    """A disagreement. kind: import, compile, refused, answered, crashed, or that of a point (column, output ...)."""

    backend: str
    kind: str
    name: str
    request: str
    detail: str

    def text(self) -> str:
        """One line."""
        return f"{self.backend}: {self.kind} {self.name} {self.request}: {self.detail}"


@dataclass
class Counts:
    """What was compared."""

    rows: int = 0
    compared: int = 0
    no_oracle: int = 0
    both_refused: int = 0
    columns: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, other: Counts) -> None:
        """Take in another model's."""
        for name in ("rows", "compared", "no_oracle", "both_refused", "columns"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, value in other.seconds.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + value


class Subject:
    """A random model that is built, imported once and asked of any backend; a context manager.

    Facts: `failure` is what the import raised, `None` where it went well.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.failure: Failure | None = None
        self.counts = Counts()
        self._folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        self._compiled: dict[str, ColonnadeSide] = {}
        self._tensorflow: TensorFlowSide | None = None
        path = Path(self._folder.name) / "model"
        self._timed("tensorflow", lambda: build(model, path))
        try:
            self._timed("import", lambda: self._lower(path))
        except FAILURES as error:
            self.failure = Failure("all", "import", type(error).__name__, "", _line(error))

    def _lower(self, path: Path) -> None:
        self.program, self.weights, _, _ = compiler.lower(path)
        self.counts.columns = len(self.program.columns)
        self._tensorflow = TensorFlowSide(path, self.program, threads=1)

    def check(self, backend: str, requests: Sequence[Request]) -> list[Failure]:
        """The disagreements of a backend on these requests."""
        if self.failure is not None or self._tensorflow is None:
            return [self.failure] if self.failure else []
        try:
            side = self._timed(f"{backend} compile", lambda: self._side(backend))
        except FAILURES as error:
            return [Failure(backend, "compile", type(error).__name__, "", _line(error))]
        oracle = self._tensorflow
        asked = [encoded(self.model, request) for request in requests]
        verdict = self._timed(f"{backend} run", lambda: verify(side, oracle, self.program, self.weights, asked))
        self.counts.rows += verdict.rows
        self.counts.compared += sum(r.compared for r in verdict.results.values())
        self.counts.no_oracle += len(verdict.no_oracle)
        self.counts.both_refused += verdict.both_refused
        return failures_of(backend, verdict)

    def _side(self, backend: str) -> ColonnadeSide:
        if backend not in self._compiled:
            if backend not in BACKENDS:
                raise OptionError("no such backend", got=repr(backend), want=", ".join(BACKENDS))
            chosen = BACKENDS[backend]()
            self._compiled[backend] = ColonnadeSide(Executable(self.program, self.weights, chosen), chosen)
        return self._compiled[backend]

    def _timed(self, name: str, made: Callable[[], _T]) -> _T:
        began = time.perf_counter()
        try:
            return made()
        finally:
            self.counts.seconds[name] = self.counts.seconds.get(name, 0.0) + time.perf_counter() - began

    def close(self) -> None:
        """Give back what TensorFlow holds, and the folder."""
        if self._tensorflow is not None:
            self._tensorflow.close()
        self._folder.cleanup()

    def __enter__(self) -> Subject:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def failures_of(backend: str, verdict: Verdict) -> list[Failure]:
    """Everything in a verdict that is no agreement, the innermost points first."""
    found = [
        Failure(
            backend,
            r.point.kind,
            r.point.name,
            r.request,
            r.worst.problem or f"row {r.worst.row} element {r.worst.element}: got {r.worst.got}, want {r.worst.want}",
        )
        for kind in ("column", "concat", "before", "output")
        for r in verdict.of_kind(kind)
        if not r.ok
    ]
    found += [Failure(backend, "flip", f.output, f.request, f"row {f.row}") for f in verdict.flips if not f.excused]
    found += [Failure(backend, "answered", "", n.request, f"row {n.row}: {n.message}") for n in verdict.answered]
    found += [Failure(backend, "refused", "", n.request, f"row {n.row}: {n.message}") for n in verdict.refused]
    return found + [Failure(backend, "crashed", "", n.request, f"row {n.row}: {n.message}") for n in verdict.crashed]


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:600]
