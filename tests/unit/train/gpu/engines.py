"""An engine on the CPU and one whose tables lie on a device, with a table for each policy, all in one store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from colonnade.core.ragged import Ragged
from colonnade.train.engine import EmbeddingEngine, EmbeddingFeature
from colonnade.train.gpu.group import DeviceGroup
from colonnade.train.initializers import Uniform
from colonnade.train.optimizers import Sgd
from colonnade.train.place import group_of
from colonnade.train.table_config import TableConfig

IDS = st.one_of(st.sampled_from([-1, 0, 2**63 - 1, -(2**63)]), st.integers(-4, 4), st.integers(-(2**63), 2**63 - 1))


def interpreted(configs: Any, seed: int, budget: Any, place: torch.device) -> Any:
    """A group of interpreted kernels, unless a table is said to be on the CPU."""
    loops = configs[0].device == "cpu"
    return group_of(configs, seed, budget, place) if loops else DeviceGroup(configs, seed, budget, place)


def both(device: torch.device, policies: Sequence[dict[str, Any]], **options: Any) -> list[EmbeddingEngine]:
    """The engines. policies: of the tables `t0`, `t1`, ...   options: of the engines."""
    made = []
    for place in ("cpu", None):
        tables = [
            TableConfig(f"t{n}", 2, "float32", Uniform(-1, 1), Sgd(0.5), default=-3.0, device=place, **policy)
            for n, policy in enumerate(policies)
        ]
        made.append(EmbeddingEngine([EmbeddingFeature(t.name, t, "none") for t in tables], **options))
    made[1].to(device)
    assert isinstance(made[1].groups[0], DeviceGroup) and len(made[1].groups) == 1
    return made


def batch_of(lists: Sequence[Sequence[int]]) -> dict[str, Ragged]:
    """Ids of each table."""
    parts = [torch.tensor(ids, dtype=torch.int64) for ids in lists]
    return {f"t{n}": Ragged.of(ids, torch.tensor([0, len(ids)])) for n, ids in enumerate(parts)}


def step(engine: EmbeddingEngine, batch: dict[str, Ragged]) -> dict[str, list[Any]]:
    """What is looked up; in training, it learns."""
    out = engine(batch)
    if engine.training:
        sum((0.25 * x * x).sum() for x in out.values()).backward()  # exact on every device
        engine.step()
    return {name: x.tolist() for name, x in out.items()}


def state_of(engine: EmbeddingEngine) -> dict[str, Any]:
    """The state without the order of rows."""
    made = {name: tensor.cpu().tolist() for name, tensor in engine.state_dict().items()}
    for name in [name for name in made if name.endswith(".ids")]:
        start = name.removesuffix("ids")
        order = np.argsort(np.array(made[name], np.int64))
        for part in ("ids", "values", "states", "use", "steps", "counts"):
            if start + part in made:
                made[start + part] = [made[start + part][k] for k in order]
    return made
