"""A disagreement made small: first columns are dropped, then rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.testing.fuzz.cases import Model
from colonnade.testing.fuzz.check import Failure, Subject
from colonnade.testing.fuzz.feeds import restricted
from colonnade.testing.requests import Request

MOST_BUILDS = 30


@dataclass(frozen=True)
class Small:
    """The least model and request found on which a backend still disagrees in the same way."""

    model: Model
    failure: Failure
    request: Request | None

    def command(self) -> str:
        """What makes it again."""
        numbers = ",".join(str(c.number) for c in self.model.cases)
        backend = "" if self.failure.backend == "all" else f" --backends {self.failure.backend}"
        model = f"--seed {self.model.seed} --model {self.model.index} --columns {numbers}"
        return f"python -m colonnade.testing.fuzz {model}{backend}"

    def text(self) -> str:
        """The command, the model, the values of the rows, and what disagrees."""
        lines = [self.command(), *self.model.text().splitlines(), self.failure.text()]
        if self.request is not None:
            lines += [f"{name} = {_shown(value)}" for name, value in self.request.feed.items()]
        return "\n".join(lines)


def shrink(model: Model, failure: Failure, requests: Sequence[Request]) -> Small:
    """The small model of a failure. Facts: at most `MOST_BUILDS` models are built."""
    builds = iter(range(MOST_BUILDS))

    def fails(numbers: Sequence[int]) -> bool:
        return next(builds, None) is not None and _again(model.only(numbers), failure, requests) is not None

    kept = smallest([c.number for c in model.cases], fails)
    return _rows(model.only(kept), failure, requests)


def smallest(items: Sequence[int], fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """Items of which none can be dropped, as far as parts of halving size show it.

    Facts: `fails` holds of all of them.
    """
    kept = list(items)
    size = len(kept) // 2
    while size:
        for start in range(0, len(kept), size):
            part, rest = kept[start : start + size], kept[:start] + kept[start + size :]
            if len(part) < len(kept) and fails(part):
                kept = part
                break
            if rest and fails(rest):
                kept = rest
                break
        else:
            size //= 2
            continue
        size = min(size, len(kept) // 2)
    return kept


def _again(model: Model, failure: Failure, requests: Sequence[Request]) -> Failure | None:
    """The first failure of the same kind that a smaller model has."""
    with Subject(model) as subject:
        return _same(subject, failure, [restricted(r, model) for r in requests])


def _same(subject: Subject, failure: Failure, requests: Sequence[Request]) -> Failure | None:
    backend = "reference" if failure.backend == "all" else failure.backend
    named = failure.kind in ("import", "compile")  # an error's kind; a point's name differs from model to model
    for found in subject.check(backend, requests):
        if found.kind == failure.kind and (not named or found.name == failure.name):
            return found
    return None


def _rows(model: Model, failure: Failure, requests: Sequence[Request]) -> Small:
    with Subject(model) as subject:
        for whole in sorted((restricted(r, model) for r in requests), key=lambda r: r.rows):
            if (found := _same(subject, failure, [whole])) is None:
                continue
            if found.kind in ("import", "compile"):
                return Small(model, found, None)

            def fails(rows: Sequence[int], whole: Request = whole) -> bool:
                return _same(subject, failure, [_taken(model, whole, rows)]) is not None

            rows = smallest(range(whole.rows), fails)
            last = _taken(model, whole, rows)
            return Small(model, _same(subject, failure, [last]) or found, last)
    return Small(model, failure, None)


def _taken(model: Model, request: Request, rows: Sequence[int]) -> Request:
    chosen = np.asarray(rows, np.int64)
    single = {i.name for i in model.inputs if i.form == "single"}
    feed = {name: value if name in single else value[chosen] for name, value in request.feed.items()}
    return Request(request.name, len(rows), feed)


def _shown(value: NDArray[Any]) -> str:
    text = repr(value.tolist())
    return text if len(text) <= 600 else f"{text[:600]} ..."
