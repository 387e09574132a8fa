"""Where tables lie: in the host's memory or a device's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import torch

from colonnade.train.group import TableGroup
from colonnade.train.table_config import TableConfig
from colonnade.train.tables.store import Budget
from colonnade.train.tables.table import DynamicTable

if TYPE_CHECKING:  # modules of Triton, which a CPU does without
    from colonnade.train.gpu.group import DeviceGroup
    from colonnade.train.gpu.table import DeviceTable

Group: TypeAlias = "TableGroup | DeviceGroup"
Table: TypeAlias = "DynamicTable | DeviceTable"


def place_of(config: TableConfig, engine: torch.device) -> torch.device:
    """Where a table lies in an engine that lies there."""
    device = engine if config.device in (None, engine.type) else torch.device(str(config.device))
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def group_of(configs: Sequence[TableConfig], seed: int, budget: Budget, device: torch.device) -> Group:
    """Tables that share a store, on a device."""
    if device.type == "cpu":
        return TableGroup(configs, seed, budget)
    from colonnade.train.gpu.group import DeviceGroup

    return DeviceGroup(configs, seed, budget, device)
