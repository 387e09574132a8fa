"""Engines in a child of `fork`, whose parent has trained with all its threads: those do not live there."""

from __future__ import annotations

import copy
import faulthandler
import multiprocessing as mp
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import torch

from colonnade.core.fork import in_one_thread
from colonnade.core.ragged import Ragged
from colonnade.frontends.feature import Feature, FieldSpec
from colonnade.frontends.feature_set import FeatureSet
from colonnade.train.engine import EmbeddingEngine, EmbeddingFeature
from colonnade.train.eviction import ByAge
from colonnade.train.feature_engine import FeatureEngine
from colonnade.train.initializers import Normal
from colonnade.train.optimizers import Adam
from colonnade.train.table_config import TableConfig

IDS, BATCH = 100_000, 20_000
"""So many that torch and the loops take threads."""
OPTIONS: dict[str, Any] = {"initializer": Normal(0, 1), "optimizer": Adam(0.1)}


def batch_of(seed: int) -> dict[str, Ragged]:
    rng = np.random.default_rng(seed)
    offsets = torch.from_numpy(np.sort(rng.integers(0, IDS, BATCH - 1)))
    bags = torch.cat((torch.tensor([0]), offsets, torch.tensor([IDS])))
    return {name: Ragged.of(torch.from_numpy(rng.integers(0, IDS, IDS)), bags) for name in ("a", "b")}


def trained(
    engine: EmbeddingEngine, batches: list[dict[str, Ragged]], grads: list[torch.Tensor], ids: torch.Tensor
) -> list[torch.Tensor]:
    """Outputs of steps and of eval mode, and what the tables hold then; only the backward pass is torch's own."""
    made: list[torch.Tensor] = []
    for batch in batches:
        outputs = list(engine(batch).values())
        in_one_thread(torch.autograd.backward)(outputs, grads)
        assert engine.step()
        made += [out.detach() for out in outputs]
    engine.evict()
    engine.eval()
    made += engine(batches[0]).values()
    made += [engine.table(name).read(ids)[0] for name in ("a", "b")]
    engine.table("a").write(ids, made[-1])
    state = engine.state_dict()
    engine.load_state_dict(state)
    return made + list(engine.state_dict().values())


@in_one_thread
def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def ending_of_child(work: Callable[[], bool]) -> int:
    """0: the work gave true."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons say that this is dangerous: hence the test
        child = os.fork()
    if not child:
        faulthandler.dump_traceback_later(60, exit=True)
        try:
            os._exit(0 if work() and torch.get_num_threads() == 2 else 3)
        finally:
            os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def of_ids() -> list[int]:
    """How children that train end."""
    torch.set_num_threads(2)
    tables = [TableConfig("a", 16, **OPTIONS, eviction=(ByAge(1),)), TableConfig("b", 16, "bfloat16", **OPTIONS)]
    engine = EmbeddingEngine([EmbeddingFeature(t.name, t, "mean") for t in tables])
    batches, grads = [batch_of(seed) for seed in range(3)], [torch.randn(BATCH, 16) for _ in tables]
    ids = torch.arange(IDS)
    expected = trained(copy.deepcopy(engine), batches, grads, ids)
    return [ending_of_child(lambda: same(expected, trained(engine, batches, grads, ids))) for _ in range(2)]


def of_fields() -> list[int]:
    """How children that look features up end."""
    torch.set_num_threads(2)
    features = [Feature("x").mod(1000).embed("x", 16), Feature("n").dense(), Feature("y", "x").embed("x", 16, "none")]
    fields = [FieldSpec("x", "int64", ragged=1), FieldSpec("n", "float32")]
    engine = FeatureEngine(FeatureSet(features, fields), {"deep": ["x", "n"], "rows": ["y"]}, **OPTIONS)
    given = {"x": batch_of(0)["a"], "n": torch.rand(BATCH)}

    def outputs() -> list[torch.Tensor]:
        made = engine(given)
        return [made["deep"], made["rows"].values]

    expected = outputs()
    return [ending_of_child(lambda: same(expected, outputs()))]


def test_children_train_and_look_up_as_their_parents_do() -> None:
    with ProcessPoolExecutor(1, mp.get_context("spawn")) as executor:
        assert executor.submit(of_ids).result() == [0, 0]
        assert executor.submit(of_fields).result() == [0]
