"""Tables asked and taught by several threads: every bit is as by one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from colonnade.core.ragged import Ragged
from colonnade.train.compiled import SHARED_ROWS
from colonnade.train.engine import EmbeddingEngine, EmbeddingFeature
from colonnade.train.gradients import GradientPolicy
from colonnade.train.loops.share import PART_ROWS
from colonnade.train.optimizers import Adagrad, Adam
from colonnade.train.table_config import TableConfig


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def trained(threads: int, count: int) -> dict[str, torch.Tensor]:
    """An engine's outputs and state after steps in which some ids are new, some known, and many occur twice."""
    torch.set_num_threads(threads)
    tables = (
        TableConfig("a", 16, optimizer=Adagrad(0.1)),
        TableConfig("b", 5, dtype="bfloat16", optimizer=Adam(0.1)),
        TableConfig("c", 16, optimizer=Adagrad(0.2), repeats="mean"),
    )
    engine = EmbeddingEngine(
        [EmbeddingFeature(t.name, t) for t in tables], seed=1, gradients=GradientPolicy("skip_rows")
    )
    rng = np.random.default_rng(0)
    made: dict[str, torch.Tensor] = {}
    for step in range(3):
        ids = torch.from_numpy(rng.integers(-(2**63), 2**63 - 1, count) // (1 if step == 1 else 2**45))
        batch = {t.name: Ragged.of(ids, torch.arange(0, count + 1, count // 8)) for t in tables}
        outputs = engine(batch)
        sum((out * k).sum() for k, out in enumerate(outputs.values(), 1)).backward()
        assert engine.step()
        made |= {f"{name} {step}": out.detach().clone() for name, out in outputs.items()}
    engine.eval()
    made |= {f"{name} eval": out for name, out in engine(batch).items()}
    return made | engine.state_dict()


@pytest.mark.parametrize("count", [8 * (SHARED_ROWS // 8 - 1), 8 * (SHARED_ROWS // 4 + PART_ROWS // 8 + 1)])
def test_the_number_of_threads_changes_no_bit(threads: None, count: int) -> None:
    one = trained(1, count)
    for n in (2, 3):
        other = trained(n, count)
        assert list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in one)
