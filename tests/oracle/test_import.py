"""The import without a pass, and the graph after every pass, equal TensorFlow; the IR check holds after each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from colonnade.errors import ColonnadeError
from colonnade.frontends.tensorflow.importer import import_saved_model
from colonnade.ir.graph import Graph
from colonnade.ir.interpret import interpret
from colonnade.ir.verify import verify
from colonnade.passes.base import run
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing import golden

# Pooled floats are summed in TensorFlow's order; the dense network's products are not, and `round` then may flip.
TOLERANCE = 1e-5
AFTER_EACH = ("corner-7", "missing-5")


def values(feed: Mapping[str, NDArray[np.generic]]) -> dict[str, torch.Tensor | NDArray[np.generic]]:
    return {k: v if v.dtype == object else torch.from_numpy(np.ascontiguousarray(v)) for k, v in feed.items()}


def check(graph: Graph, stored: golden.Golden, only: tuple[str, ...] = ()) -> int:
    """The graph's answers against the stored ones; gives the number of cases compared."""
    compared = 0
    for case in stored.cases:
        if case.raises or (only and case.name not in only):
            continue
        try:
            answer = interpret(graph, values(case.feed))
        except ColonnadeError as error:
            raise AssertionError(f"{case.name}: {error}") from error
        for key, expected in case.outputs.items():
            got = answer[key].numpy()  # type: ignore[union-attr]
            assert got.shape == expected.shape and got.dtype == expected.dtype, case.name
            if "score:0" in case.tensors:
                sure = np.abs(case.tensors["score:0"] - 0.5) > TOLERANCE
                np.testing.assert_array_equal(got[sure], expected[sure], err_msg=case.name)
            else:
                np.testing.assert_array_equal(got, expected, err_msg=case.name)
        compared += 1
    return compared


@pytest.mark.parametrize("name", golden.NAMES)
def test_the_import_and_every_pass_equal_tensorflow(name: str) -> None:
    stored = golden.load(name)
    graph = import_saved_model(stored.model).graph
    assert check(graph, stored) >= 6
    seen = []

    def observe(pass_name: str, after: Graph) -> None:
        verify(after)
        assert check(after, stored, AFTER_EACH) == len(AFTER_EACH)
        seen.append(pass_name)

    run(COLUMNS, graph, observe=observe)
    assert len(seen) == len(COLUMNS)
    assert check(graph, stored) >= 6


@pytest.mark.parametrize("name", golden.NAMES)
def test_the_passes_are_idempotent(name: str) -> None:
    graph = import_saved_model(golden.load(name).model).graph
    run(COLUMNS, graph)
    before = graph.histogram()
    run(COLUMNS, graph)
    assert graph.histogram() == before
