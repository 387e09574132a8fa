"""Random models: TensorFlow's answers on every backend; the fuzzer itself, where one is wrong."""

from __future__ import annotations

import io
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import colonnade.backends.gpu.backend  # noqa: F401  Triton must be loaded before TensorFlow
from colonnade.backends.reference import ReferenceBackend
from colonnade.ir.program import Program, Weights
from colonnade.testing.fuzz import check, draw_keras
from colonnade.testing.fuzz.__main__ import INTERRUPTED, Lines, app
from colonnade.testing.fuzz.cases import FORMS
from colonnade.testing.fuzz.draw import KINDS, MAX_CASES, MIN_CASES, STYLES, draw_model
from colonnade.testing.fuzz.draw_ops import LOOKUPS
from colonnade.testing.fuzz.feeds import requests, restricted
from colonnade.testing.fuzz.run import check_model, run
from colonnade.testing.fuzz.shrink import smallest

SEED = 208
MODELS = (0, 1, 3, 4, 5, 6, 22, 23)
"""With all that is drawn among them; `make fuzz` asks others."""
SMALL = 3
FEW = [c.number for c in draw_model(SEED, SMALL).cases if 0 < c.embedding_dim <= 8][:8]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """These tensors are small: several threads take longer, most of all beside other work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("index", MODELS)
def test_a_model_is_answered_as_tensorflow_does(index: int) -> None:
    model = draw_model(SEED, index)
    outcome = run(SEED, 1, ("reference", "cpu", "gpu"), first=index)
    assert outcome.ok, "\n\n".join(s.text() for r in outcome.results for s in r.small)
    (result,) = outcome.results
    assert result.model == model and set(result.failed) == {"reference", "cpu", "gpu"}
    # Some may be none: remainders, numbers and weighted counts stay in the dense rest; equal columns are one.
    assert result.counts.columns >= len(model.cases) * (1 if model.style in ("columns", "examples") else 0.6)


def test_there_are_two_hundred_cases_of_every_kind_some_without_an_answer() -> None:
    models = [draw_model(SEED, index) for index in MODELS]
    cases = [case for model in models for case in model.cases]
    assert len(cases) >= 200 and {c.kind for c in cases} == set(KINDS)
    assert {m.style for m in models} == set(STYLES) and {c.form for c in cases} >= {*LOOKUPS, *draw_keras.FORMS}
    assert {i.form for m in models for i in m.inputs} == set(FORMS)
    further = ("prep", "salt", "file", "label", "weights", "max_norm", "mask", "mode")
    assert all(any(getattr(c, name) for c in cases) for name in further)
    assert any(c.place >= 0 for c in cases) and any(c.parts > 1 for c in cases)


def test_the_same_seed_draws_the_same() -> None:
    for index in range(20):
        model = draw_model(SEED, index)
        assert model == draw_model(SEED, index) and MIN_CASES <= len(model.cases) <= MAX_CASES
        for one, other in zip(requests(model), requests(model), strict=True):
            for name in one.feed:
                np.testing.assert_array_equal(one.feed[name], other.feed[name])
    assert draw_model(SEED, 0).cases != draw_model(SEED + 1, 0).cases


def test_a_smaller_model_is_asked_the_same() -> None:
    whole = draw_model(SEED, 0)
    part = whole.only([3, 5])
    assert [c.number for c in part.cases] == [3, 5]
    for request in requests(whole):
        left = restricted(request, part)
        assert set(left.feed) == {i.name for i in part.inputs}
        assert all(left.feed[name] is request.feed[name] for name in left.feed)


@pytest.mark.parametrize("needed", [(0,), (49,), (3, 30), (7, 8, 21), tuple(range(50))])
def test_only_what_is_needed_is_left(needed: tuple[int, ...]) -> None:
    assert smallest(range(50), lambda items: set(needed) <= set(items)) == list(needed)


class _Wrong(ReferenceBackend):
    """A table has values that are off."""

    def compile(self, program: Program, weights: Weights, *rest: Any, **options: Any) -> Any:
        name = next(c.table for c in program.columns if c.table in weights.tables)
        table = np.array(weights.tables[str(name)])
        table += 1
        changed = replace(weights, tables={**weights.tables, str(name): table})
        return super().compile(program, changed, *rest, **options)


def test_a_disagreement_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "BACKENDS", {"reference": _Wrong})
    result = check_model(draw_model(SEED, SMALL), ("reference",), columns=FEW[:3])
    assert result.failed["reference"]
    small = result.small[0]
    assert len(small.model.cases) == 1 and small.request is not None and small.request.rows == 1
    assert f"--seed {SEED} --model {SMALL} --columns {small.model.cases[0].number} " in small.text()
    again = check_model(draw_model(SEED, SMALL), ("reference",), columns=[c.number for c in small.model.cases])
    assert again.failed["reference"]


def test_progress_is_lines_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    lines = Lines(Console(file=out), 40)
    for what, done in (("model 0: build", 0), ("model 0", 25), ("model 1: build", 0)):
        lines(what, done)
    said = [line.split(" s: ")[1] for line in out.getvalue().splitlines()]
    assert said == ["model 0: build", "model 0 is done", "model 1: build"]
    assert [line.split()[0] for line in out.getvalue().splitlines()] == ["0/40", "25/40", "25/40"]


def test_a_termination_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*_: Any, **__: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("colonnade.testing.fuzz.run.check_model", ended)
    try:
        result = CliRunner().invoke(app, ["--seed", str(SEED), "--cases", "1", "--backends", "reference"])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert result.exit_code == INTERRUPTED and "0 cases in 0 models" in result.output and "interrupted" in result.output


def test_an_interrupted_run_keeps_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(model: Any, backends: Sequence[str], **_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("colonnade.testing.fuzz.run.check_model", stop)
    outcome = run(SEED, 100, ("reference",))
    assert outcome.interrupted and not outcome.results and not outcome.ok
