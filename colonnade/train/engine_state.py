"""Tables as tensors, and back.

Legend: R rows of a table; D embedding_dim; S numbers of state of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from colonnade.train.group import TableGroup
from colonnade.train.tables.store import Rows

PARTS = ("ids", "values", "states", "use", "updates", "evicted")
SETTINGS = "settings"
"""May be left out: the state is then taken for that of whatever settings there are."""


def saved_group(group: TableGroup, empty: bool = False) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of the group's tables, named by the tables' keys. empty: of no rows, for the names.

    ids: int64 [R].   values: [R, D], of the table's dtype.   states: float32 [R, S].   use: int64 [R, 2], the step of
    the last lookup and how many there were.   updates: of the table.   evicted: int64, not taken yet.
    settings: uint8, the text of the optimizer's.
    """
    store = group.store
    for number, config in enumerate(group.configs):
        rows = np.empty(0, np.int64) if empty else store.rows_of(number)
        values = torch.from_numpy(store.values(rows))
        if config.dtype == "bfloat16":
            values = values.view(torch.bfloat16)
        use = np.stack((store.steps(rows), store.counts(rows)), 1)
        tensors = {
            "ids": torch.from_numpy(store.ids(rows).copy()),
            "values": values,
            "states": torch.from_numpy(store.states(rows)),
            "use": torch.from_numpy(use),
            "updates": torch.tensor(int(group.updates[number])),
            "evicted": torch.from_numpy(group.evicted_ids(number)),
            SETTINGS: torch.tensor(list(config.optimizer.settings.encode()), dtype=torch.uint8),
        }
        admitter = group.admitters[number]
        if admitter is not None:
            tensors |= {f"admission.{name}": tensor for name, tensor in admitter.state().items()}
        for name, tensor in tensors.items():
            yield f"{config.stable_key}.{name}", tensor


@dataclass
class Loading:
    """What is about to replace a group's tables. problems: why it cannot."""

    group: TableGroup
    tables: list[dict[str, torch.Tensor]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Replace them."""
        self.group.pending.clear()
        self.group.store.reserve(max(0, sum(len(t["ids"]) for t in self.tables) - self.group.store.num_rows))
        for number, tensors in enumerate(self.tables):
            self.group.tables[number].clear()
            self._fill(number, tensors)

    def _fill(self, number: int, tensors: Mapping[str, torch.Tensor]) -> None:
        group, store = self.group, self.group.store
        ids = tensors["ids"].contiguous().numpy()
        keys = store.keys(number, ids)
        rows: Rows = np.full(len(ids), -1, np.int64)
        store.insert(keys, rows)
        values = tensors["values"].contiguous()
        store.set_values(rows, (values.view(torch.uint16) if values.dtype == torch.bfloat16 else values).numpy())
        store.set_states(rows, tensors["states"].numpy())
        use: Any = tensors["use"].numpy()
        store.use(rows, use[:, 0], use[:, 1])
        group.updates[number] = int(tensors["updates"])
        group.evicted[number] = [tensors["evicted"].numpy().copy()]
        admitter = group.admitters[number]
        if admitter is not None:
            admitter.load({n.removeprefix("admission."): t for n, t in tensors.items() if n.startswith("admission.")})


def load_group(group: TableGroup, state: Mapping[str, torch.Tensor]) -> Loading:
    """What a state holds for a group, checked."""
    made = Loading(group)
    layout = group.store.layout
    for config in group.configs:
        start = f"{config.stable_key}."
        own = {name[len(start) :]: tensor for name, tensor in state.items() if name.startswith(start)}
        made.tables.append(own)
        if any(part not in own for part in PARTS):
            continue
        count = len(own["ids"])
        for part, dtype, shape in (
            ("ids", torch.int64, [count]),
            ("values", getattr(torch, config.dtype), [count, layout.embedding_dim]),
            ("states", torch.float32, [count, layout.num_states]),
            ("use", torch.int64, [count, 2]),
        ):
            if own[part].dtype != dtype or list(own[part].shape) != shape:
                got = f"{own[part].dtype} {list(own[part].shape)}"
                made.problems.append(f"table {config.name!r}: {part} are {got}, want {dtype} {shape}")
        settings = config.optimizer.settings
        made_by = bytes(own[SETTINGS].tolist()).decode(errors="replace") if SETTINGS in own else settings
        if made_by != settings:
            made.problems.append(
                f"table {config.name!r}: state of {made_by}, want that of {settings}"
                f" (without {start + SETTINGS!r}, it is taken for that)"
            )
        if len(own["ids"].unique()) != count:
            made.problems.append(f"table {config.name!r}: ids that repeat")
    return made
