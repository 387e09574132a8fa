"""What one step of training asks of a device does not grow with the kinds of tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from colonnade.core.ragged import Ragged
from colonnade.train import engine as module
from colonnade.train.engine import EmbeddingEngine, EmbeddingFeature
from colonnade.train.gpu.group import DeviceGroup
from colonnade.train.optimizers import Adagrad
from colonnade.train.table_config import TableConfig
from tests.unit.train.gpu.counting import Counts, counted


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "group_of", lambda *given: DeviceGroup(*given))


def engine_of(num_groups: int, num_sequences: int = 0) -> EmbeddingEngine:
    """Tables of as many widths, two of each, and sequences that read the first."""
    one = TableConfig("t", 1, optimizer=Adagrad(0.1))
    tables = [replace(one, name=f"t{dim}_{k}", embedding_dim=dim) for dim in range(1, num_groups + 1) for k in range(2)]
    features = [EmbeddingFeature(f"f{k}", table) for k, table in enumerate(tables)]
    sequences = [EmbeddingFeature(f"s{k}", tables[0], "none") for k in range(num_sequences)]
    outputs = {"deep": [f.name for f in features]} | {s.name: [s.name] for s in sequences}
    return EmbeddingEngine([*features, *sequences], outputs)


def batch_of(engine: EmbeddingEngine) -> dict[str, Ragged]:
    return {f.name: Ragged.of(torch.tensor([5, 6, 5]), torch.tensor([0, 2, 3])) for f in engine.features}


def counts_of(num_groups: int, monkeypatch: pytest.MonkeyPatch, num_sequences: int = 0) -> Counts:
    """Of a step whose keys all have rows."""
    engine = engine_of(num_groups, num_sequences)
    assert len(engine.groups) == num_groups
    packed = module.pack([f.name for f in engine.features], batch_of(engine))
    for _ in range(2):
        engine.lookup(packed)["deep"].sum().backward()
        engine.step()
    with counted(monkeypatch) as counts:
        engine.lookup(packed)["deep"].sum().backward()
        engine.step()
    return counts


MOST_LAUNCHES, MOST_OPERATORS, MOST_WAITS = 9, 8, 2
"""Of one step. It waits for how many distinct keys there are, and for whether gradients are finite."""


def test_nothing_grows_with_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = counts_of(1, monkeypatch), counts_of(3, monkeypatch)
    assert few == many
    launches, operators, waits = many.totals
    assert launches <= MOST_LAUNCHES and operators <= MOST_OPERATORS and waits <= MOST_WAITS, many


def test_sequences_are_waited_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    none, few, many = (counts_of(1, monkeypatch, num_sequences=n) for n in (0, 1, 3))
    assert few.launches == many.launches and few.waits == many.waits
    assert many.waits.total() == none.waits.total() + 1


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "group_of", lambda *given: DeviceGroup(*given))
        for n in (1, 2, 4):
            found = counts_of(n, patch)
            print(n, found.totals, found, sep="\n  ")
