"""The table of column kinds: what it says works is TensorFlow's answer, what it says does not is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import compiler
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.errors import ColonnadeError
from colonnade.executable import Executable
from colonnade.ir.table_types import TYPES, with_types
from colonnade.testing.fuzz.draw import _ATTRIBUTES as FUZZ_KINDS
from colonnade.testing.kinds.saved import feed_of, output_of, save_model
from colonnade.testing.kinds.table import BACKENDS, STYLES, cells, gap_of, kinds, page
from colonnade.testing.oracle import TensorFlowModel

ROWS = (0, 1, 2, 9)
SEEDS = (0, 1)
NOT_COLUMNS = 2
"""Cells of a style that the dense rest answers: numbers as they are, and what replaces ids in a way of its own."""
WORKING = {style: [c for c in cells() if c.style == style and c.gap is None] for style in STYLES}
REFUSED = [c for c in cells() if c.gap is not None]


class Built:
    """The model of all cells of a style, its program, and TensorFlow's answers."""

    def __init__(self, style: str, folder: Path) -> None:
        self.cells = WORKING[style]
        path = save_model(self.cells, folder / "model")
        self.program, self.weights, self.explanation, _ = compiler.lower(path)
        self.asked: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []
        with TensorFlowModel(path, optimize=False) as oracle:
            for rows in ROWS:
                for seed in SEEDS:
                    feed = feed_of(self.cells, rows, seed)
                    self.asked.append((feed, oracle.run(feed)))

    def executable(self, backend: str) -> Executable:
        chosen = GpuBackend(interpret=True) if backend == "gpu" else compiler.backend(backend)
        return Executable(self.program, self.weights, chosen)


_BUILT: dict[str, Built] = {}


@pytest.fixture
def built(style: str, tmp_path_factory: pytest.TempPathFactory) -> Built:
    if style not in _BUILT:
        _BUILT[style] = Built(style, tmp_path_factory.mktemp("kinds"))
    return _BUILT[style]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("style", STYLES)
def test_what_works_is_tensorflows_answer(style: str, backend: str, built: Built) -> None:
    executable = built.executable(backend)
    assert len(executable.program.columns) >= len(built.cells) - NOT_COLUMNS
    working = [output_of(c) for c in built.cells if gap_of(c.kind, style, backend) is None]
    assert working
    wrong = []
    for feed, expected in built.asked:
        got = executable(feed)
        for name in working:
            want = expected[name]
            same = got[name].shape == want.shape and np.allclose(got[name], want, 1e-6, 1e-6, equal_nan=True)
            if not same and name not in wrong:
                wrong.append(name)
    assert not wrong


@pytest.mark.parametrize("style", [STYLES[0]])
def test_an_artifact_of_every_kind_answers_alike(style: str, built: Built, tmp_path: Path) -> None:
    executable = built.executable("cpu")
    executable.save(tmp_path / "artifact")
    loaded = compiler.load(tmp_path / "artifact")
    gpu = Executable(loaded.program, loaded.weights, GpuBackend(interpret=True))
    feed, _ = built.asked[-1]
    got, of_gpu = loaded(feed), gpu(feed)
    for name, want in executable(feed).items():
        np.testing.assert_array_equal(got[name], want, err_msg=name)
        np.testing.assert_allclose(of_gpu[name], want, 1e-6, 1e-6, equal_nan=True, err_msg=name)


def test_what_does_not_work_is_refused(tmp_path: Path) -> None:
    compiled = []
    for number, cell in enumerate(REFUSED):  # one after the other: the table may have none
        path = save_model([cell], tmp_path / f"model{number}")
        try:
            compiler.lower(path)
        except ColonnadeError:
            continue
        compiled.append(f"{cell.style} {cell.kind}")  # the table has to say `ok`
    assert not compiled


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("style", [STYLES[0]])
def test_tables_of_every_type_answer_alike(style: str, dtype: str, built: Built) -> None:
    program, weights, _ = with_types(built.program, built.weights, dtype)
    feed, _ = built.asked[-1]
    expected = Executable(program, weights, compiler.backend("reference"))(feed)
    for backend in BACKENDS[1:]:
        chosen = GpuBackend(interpret=True) if backend == "gpu" else compiler.backend(backend)
        got = Executable(program, weights, chosen)(feed)
        for name, want in expected.items():
            np.testing.assert_allclose(got[name], want, 1e-6, 1e-6, equal_nan=True, err_msg=name)


def test_the_page_is_current() -> None:
    assert (Path(__file__).parents[2] / "docs" / "kinds.md").read_text() == page()


def test_the_fuzzers_kinds_are_in_the_table() -> None:
    assert {kind.split()[0].rstrip(",") for kind in kinds()} >= set(FUZZ_KINDS)
