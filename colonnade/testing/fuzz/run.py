"""Model after model until there are enough cases or someone stops it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from colonnade.testing.fuzz.cases import Model
from colonnade.testing.fuzz.check import Counts, Subject, prepare
from colonnade.testing.fuzz.draw import draw_model
from colonnade.testing.fuzz.feeds import requests, restricted
from colonnade.testing.fuzz.shrink import Small, shrink

SLOW = "gpu"
"""The backend that runs in an interpreter, at about a third of a second a column and request: few rows of few cases."""
SLOW_EVERY = 10
"""How many cases there are for each that the slow backend is asked, a model of their own beside the whole one."""
MOST_SHRUNK = 3
"""Disagreements of different kinds that are made small, for a model and a backend."""
Progress = Callable[[str, int], None]


@dataclass
class Result:
    """One model. failed: disagreements by backend; a backend that was not asked is absent."""

    model: Model
    counts: Counts
    failed: dict[str, int]
    small: list[Small]

    def join(self, other: Result) -> None:
        """Take in what other backends answered to cases of the same model."""
        self.counts.add(other.counts)
        self.failed |= other.failed
        self.small += other.small


@dataclass
class Outcome:
    """A run: its models, and whether it was interrupted."""

    seed: int
    results: list[Result] = field(default_factory=list)
    interrupted: bool = False
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing disagreed, and something was compared."""
        return bool(self.results) and not any(n for r in self.results for n in r.failed.values())

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "ok": self.ok,
            "seed": self.seed,
            "interrupted": self.interrupted,
            "seconds": self.seconds,
            "models": [_as_dict(r) for r in self.results],
        }


def run(
    seed: int,
    cases: int,
    backends: Sequence[str],
    *,
    first: int = 0,
    progress: Progress | None = None,
    report: Callable[[Result], None] | None = None,
) -> Outcome:
    """Check whole models until they hold `cases` cases. first: the number of the first model.

    progress(what, cases done): called as each part begins.   report: called with each model when it is done.
    Facts: the same arguments ask the same; KeyboardInterrupt ends the run with what was done.
    """
    prepare(backends)
    outcome = Outcome(seed)
    began = time.perf_counter()
    try:
        for model in _models(seed, cases, first):
            fast = [b for b in backends if b != SLOW]
            result = check_model(model, fast, progress=progress) if fast else Result(model, Counts(), {}, [])
            if SLOW in backends:
                result.join(check_model(model, (SLOW,), columns=_sample(model), progress=progress))
            outcome.results.append(result)
            if progress is not None:
                progress(f"model {model.index}", len(model.cases))
            if report is not None:
                report(result)
    except KeyboardInterrupt:
        outcome.interrupted = True
    outcome.seconds = time.perf_counter() - began
    return outcome


def run_one(seed: int, index: int, columns: Collection[int] | None, backends: Sequence[str]) -> Outcome:
    """One model again. columns: the cases to keep; None: all of them."""
    outcome = Outcome(seed)
    began = time.perf_counter()
    try:
        outcome.results.append(check_model(draw_model(seed, index), backends, columns=columns))
    except KeyboardInterrupt:
        outcome.interrupted = True
    outcome.seconds = time.perf_counter() - began
    return outcome


def check_model(
    whole: Model,
    backends: Sequence[str],
    *,
    columns: Collection[int] | None = None,
    progress: Progress | None = None,
) -> Result:
    """One model on every backend, disagreements made small. columns: the cases that are kept of it."""
    model = whole if columns is None else whole.only(columns)
    failed: dict[str, int] = {}
    small: list[Small] = []
    say = progress or (lambda what, done: None)
    prepare(backends)
    say(f"model {model.index}: build", 0)
    with Subject(model) as subject:
        for backend in backends:
            say(f"model {model.index}: {backend}", 0)
            asked = [restricted(r, model) for r in requests(whole, few=backend == SLOW)]
            failures = subject.check(backend, asked)
            failed[backend] = len(failures)
            kinds = {f.kind: f for f in reversed(failures)}
            for failure in list(kinds.values())[:MOST_SHRUNK]:
                if failure.backend == "all" and small:
                    continue
                say(f"model {model.index}: shrink {failure.kind} of {backend}", 0)
                small.append(shrink(model, failure, asked))
    return Result(model, subject.counts, failed, small)


def _sample(model: Model) -> list[int]:
    """The cases that the slow backend is asked: one in `SLOW_EVERY`, others in each model."""
    return [c.number for c in model.cases if (c.number + model.index) % SLOW_EVERY == 0]


def _models(seed: int, cases: int, first: int) -> Iterator[Model]:
    done, index = 0, first
    while done < cases:
        model = draw_model(seed, index)
        yield model
        done += len(model.cases)
        index += 1


def _as_dict(result: Result) -> dict[str, Any]:
    return {
        "model": result.model.index,
        "cases": len(result.model.cases),
        "failed": result.failed,
        **vars(result.counts),
        "disagreements": [
            {"command": s.command(), "kind": s.failure.kind, "detail": s.failure.detail, "text": s.text()}
            for s in result.small
        ],
    }
