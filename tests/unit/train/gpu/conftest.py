"""Where tests of engines run."""

from __future__ import annotations

import pytest
import torch

from colonnade.train import engine
from tests.unit.train.gpu.devices import DEVICES
from tests.unit.train.gpu.engines import interpreted


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """A device; interpreted kernels have that of the CPU, where tables that say so still are those of loops."""
    made = torch.device(request.param)
    if made.type == "cpu":
        monkeypatch.setattr(engine, "group_of", interpreted)
    return made
