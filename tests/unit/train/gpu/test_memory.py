"""Too little memory for tables on a device: an error that says so, before anything is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from colonnade.errors import BudgetError
from colonnade.train.admission import ByCount
from colonnade.train.gpu import store as module
from colonnade.train.gpu.store import Store
from tests.unit.train.gpu.engines import batch_of, both, state_of, step

TABLES: list[dict[str, Any]] = [{}, {"admission": ByCount(2)}]
SMALL, LARGE = ([1, 2], [1, 3]), (list(range(200)), list(range(400)))


class Device:
    """torch, whose memory is exhausted after so many allocations by a store that grows."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __getattr__(self, name: str) -> Any:
        found = getattr(torch, name)
        return self._limited(found) if name in ("empty", "zeros", "tensor") else found

    def _limited(self, make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def made(*args: Any, **options: Any) -> torch.Tensor:
            if self.left == 0:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
            self.left -= 1
            return make(*args, **options)

        return made


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> Device:
    """Memory for stores that grow: `left` allocations more."""
    memory = Device(-1)
    monkeypatch.setattr(module, "BLOCK_BYTES", 1 << 12)
    for name in ("_grow", "list_all"):
        grow = getattr(Store, name)

        def limited(self: Store, *given: int, grow: Callable[..., None] = grow) -> None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(module, "torch", memory)
                grow(self, *given)

        monkeypatch.setattr(Store, name, limited)
    return memory


def test_a_device_without_memory_is_an_error_before_anything_changes(device: torch.device, scarce: Device) -> None:
    one, other = both(device, TABLES)
    for engine in (one, other):
        step(engine, batch_of(SMALL))
    before, group = state_of(other), other.groups[0]
    assert before == state_of(one)
    refused = 0
    for left in range(20):
        scarce.left, used = left, other.budget.used
        try:
            step(other, batch_of(LARGE))
        except BudgetError as error:
            assert "the device has too little memory for tables" in str(error) and "evict rows" in str(error)
            assert "tables 't0', 't1'" in str(error) and isinstance(error.__cause__, torch.OutOfMemoryError)
            scarce.left = -1
            assert state_of(other) == before
            refused += 1
            assert used <= other.budget.used < used + 60_000  # what was there for one store stays
            continue
        break
    assert refused >= 4
    step(one, batch_of(LARGE))
    assert state_of(one) == state_of(other)
    assert 0 <= other.budget.used - group.bytes + 64 < 128


def test_an_error_that_is_none_of_memory_stays_what_it_is(device: torch.device, scarce: Device) -> None:
    _, other = both(device, TABLES[:1])

    def broken(*args: Any, **options: Any) -> torch.Tensor:
        raise RuntimeError("an illegal memory access was encountered")

    scarce._limited = lambda make: broken  # type: ignore[method-assign]
    used = other.budget.used
    with pytest.raises(RuntimeError, match="illegal memory access"):
        other(batch_of(SMALL[:1]))
    assert other.budget.used == used and len(other.table("t0")) == 0


def test_a_budget_is_an_error_before_anything_changes(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 1 << 12)
    _, other = both(device, TABLES, budget=25_000)
    step(other, batch_of(SMALL))
    before, used = state_of(other), other.budget.used
    for lists in (([1], list(range(600))), (list(range(600)), [1])):
        with pytest.raises(BudgetError, match="tables would take more memory than they may"):
            other(batch_of(lists))
        assert state_of(other) == before and used <= other.budget.used <= 25_000
    step(other, batch_of(SMALL))
    assert len(other.table("t1")) == 2
