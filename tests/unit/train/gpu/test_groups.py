"""All groups of tables on a device at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from colonnade.core.ragged import Ragged
from colonnade.errors import BudgetError
from colonnade.train.admission import ByCount
from colonnade.train.engine import EmbeddingEngine, EmbeddingFeature
from colonnade.train.gpu import groups
from colonnade.train.gpu import store as stores
from colonnade.train.gpu.group import DeviceGroup
from colonnade.train.gpu.module import CAPABILITIES, Kernels, written
from colonnade.train.gradients import GradientPolicy
from colonnade.train.initializers import Uniform
from colonnade.train.optimizers import Adagrad
from colonnade.train.table_config import TableConfig

SMALL, WIDE = 4, 33


def features_of(**options: object) -> list[EmbeddingFeature]:
    """Tables of two widths, and one that is on the CPU wherever the others are."""
    small = TableConfig("small", SMALL, initializer=Uniform(-1, 1), optimizer=Adagrad(0.1), **options)  # type: ignore[arg-type]
    tables = [small, replace(small, name="wide", embedding_dim=WIDE), replace(small, name="here", device="cpu")]
    return [EmbeddingFeature(f"f{k}", t) for k, t in enumerate(tables)]


def engine_of(device: torch.device, **options: object) -> EmbeddingEngine:
    return EmbeddingEngine(features_of(**options)).to(device)


def batch_of(counts: tuple[int, int, int], first: int = 0) -> dict[str, Ragged]:
    ids = [torch.arange(first, first + n) for n in counts]
    return {f"f{k}": Ragged.of(x, torch.tensor([0, len(x)])) for k, x in enumerate(ids)}


def lengths(engine: EmbeddingEngine) -> list[int]:
    return [len(engine.table(name)) for name in ("small", "wide", "here")]


@pytest.mark.parametrize("options", [{}, {"admission": ByCount(1)}], ids=str)
def test_a_batch_that_one_table_refuses_makes_no_row_in_another(
    device: torch.device, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "BLOCK_BYTES", 1 << 12)
    engine = engine_of(device, **options)
    assert [type(group) is DeviceGroup for group in engine.groups] == [True, True, False]
    engine(batch_of((5, 5, 5)))
    engine.budget.most = engine.budget.used + 20_000
    with pytest.raises(BudgetError):
        engine(batch_of((20, 100, 20)))
    assert lengths(engine) == [5, 5, 5]
    use = engine.groups[0].saved(0, False)["use"]
    assert use.tolist() == [[1, 1]] * 5
    engine(batch_of((6, 6, 6)))
    assert lengths(engine) == [6, 6, 6]


def test_stores_grow_and_are_found_again(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "BLOCK_BYTES", 1 << 12)
    engine = engine_of(device)
    for step in range(4):
        engine(batch_of((30, 12 * (step % 3), 1), 20 * step))
    assert lengths(engine) == [90, 12 + 24, 4]
    engine.eval()
    out = engine(batch_of((90, 10, 1)))
    want, there = engine.table("small").read(torch.arange(90))
    assert bool(there.all())
    torch.testing.assert_close(out["f0"][0], want.sum(0).to(out["f0"].device))


def test_batches_without_ids(device: torch.device) -> None:
    engine = engine_of(device)
    for counts in ((0, 0, 0), (0, 3, 0), (0, 0, 0), (2, 0, 0)):
        out = engine(batch_of(counts))
        sum(x.sum() for x in out.values()).backward()
        engine.step()
    assert lengths(engine) == [2, 3, 0]


def test_determinism_is_asked_for_when_keys_are_numbered(device: torch.device) -> None:
    engine = engine_of(device)
    torch.use_deterministic_algorithms(True)
    try:
        engine(batch_of((9, 9, 9), 100))
    finally:
        torch.use_deterministic_algorithms(False)
    assert engine.table("wide").ids().tolist() == list(range(100, 109))


POLICIES = [
    GradientPolicy("skip_rows"),
    GradientPolicy("skip_step"),
    GradientPolicy("clip", max_value=0.25),
    GradientPolicy("skip_rows", max_row_norm=0.5, max_norm=1.5),
]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_gradients_are_limited_as_on_the_cpu(device: torch.device, policy: GradientPolicy) -> None:
    one = EmbeddingEngine([replace(f, table=replace(f.table, device="cpu")) for f in features_of()], gradients=policy)
    other = EmbeddingEngine(features_of(), gradients=policy).to(device)
    for step in range(3):
        for engine in (one, other):
            out = engine(batch_of((4, 5, 3), step))
            x = out["f1"]
            factor = torch.full((WIDE,), 0.5, device=x.device)
            factor[7] = torch.inf if step == 1 else 3.0
            (sum(y.sum() for y in out.values()) + (x * factor).sum()).backward()
            engine.freeze("small", step == 2)
            learned = engine.step()
            assert learned != (step == 1 and policy.not_finite == "skip_step")
    for name in ("small", "wide", "here"):
        want, there = one.table(name).read(torch.arange(9))
        rows, known = other.table(name).read(torch.arange(9))
        assert there.tolist() == known.tolist()
        torch.testing.assert_close(rows.cpu(), want)


def test_code_is_the_same_whichever_tables_learn(device: torch.device) -> None:
    engine = engine_of(device)
    written.cache_clear()
    for names in (("f0", "f1"), ("f0",), ("f1",)):
        out = engine(batch_of((3, 3, 3)))
        sum(out[name].sum() for name in names).backward()
        assert engine.step()
        assert written.cache_info().currsize == 1


LONGS = ("stores", "parts", "tiles", "hashes", "ids", "packed_hashes", "packed_ids", "rows", "spare", "order", "bases")
SIGNATURE = {
    **dict.fromkeys((*LONGS, "looking", "making", "told"), "*i64"),
    **dict.fromkeys(("tables", "counts", "packed_tables", "packed_counts", "lacks", "found"), "*i32"),
    **dict.fromkeys(("num", "num_step"), "i32"),
    "barred": "*i1",
    "out": "*fp32",
}


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_kernels_compile(capability: int) -> None:
    kinds = [(form, values, form < 2, min(values, 8), form > 0, 8) for form, values in ((0, 4), (1, 32), (2, 8))]
    made = Kernels(groups.FILES, groups.write(kinds), interpret=False)
    made.compiled("arrange", SIGNATURE, {"LOOK": 32, "MAKE": 16, "GROUPS": 32}, capability)
    made.compiled("account_all", SIGNATURE, {"GROUPS": 32}, capability)
    for noted in (False, True):
        looking = {"NOTED": noted, "GIVES": noted, "BLOCK": groups.LOOKING}
        made.compiled("look_up_all", SIGNATURE, looking, capability)
        making = {"NORMAL": noted, "TRUNCATED": noted, "BLOCK": stores.MAKING, "SPARE": stores.SPARE}
        made.compiled("insert_all", SIGNATURE, making, capability)
