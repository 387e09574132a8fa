"""Tables as tensors, and back.

Legend: R rows of a table; D embedding_dim; S numbers of state of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from colonnade.train.place import Group, group_of
from colonnade.train.tables.store import Budget

PARTS = ("ids", "values", "states", "use", "updates", "evicted")
COUNTS = ("ids", "steps", "counts")
"""Of an admission that remembers ids."""
SETTINGS = "settings"
"""May be left out: the state is then taken for that of whatever settings there are."""
MOST_UPDATES = 2**31 - 1


def saved_group(group: Group, empty: bool = False) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of the group's tables, named by the tables' keys. empty: of no rows, for the names.

    ids: int64 [R].   values: [R, D], of the table's dtype.   states: float32 [R, S].   use: int64 [R, 2], the step of
    the last lookup and how many there were.   updates: of the table.   evicted: int64, not taken yet.
    settings: uint8, the text of the optimizer's.
    """
    for number, config in enumerate(group.configs):
        tensors = {
            **group.saved(number, empty),
            "updates": torch.tensor(int(group.updates[number]), dtype=torch.int64),
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

    group: Group
    tables: list[dict[str, torch.Tensor]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def reserve(self) -> None:
        """Make room for their rows and counts. Errors: BudgetError, before anything is replaced."""
        self.group.store.reserve(max(0, sum(len(t["ids"]) for t in self.tables) - self.group.store.num_rows))
        remembered: dict[int, tuple[Any, int]] = {}  # on a device, tables share what their admissions remember in
        for admitter, tensors in zip(self.group.admitters, self.tables, strict=True):
            waiting = None if admitter is None else admitter.remembers
            if waiting is not None:
                count = remembered.get(id(waiting), (None, 0))[1] + len(tensors["admission.ids"])
                remembered[id(waiting)] = waiting, count
        for store, count in remembered.values():
            store.reserve(max(0, count - store.num_rows))

    def run(self) -> None:
        """Replace them. Errors: as of `reserve`."""
        self.reserve()
        self.group.pending.end("a state was loaded")
        for table in self.group.tables:  # all before any: there is room for what replaces them, not for both
            table.clear()
        for admitter in self.group.admitters:
            if admitter is not None and admitter.remembers is not None:
                admitter.load({name: torch.empty(0, dtype=torch.int64) for name in COUNTS})
        for number, tensors in enumerate(self.tables):
            self.group.fill(number, tensors)
            self._remember(number, tensors)

    def _remember(self, number: int, tensors: Mapping[str, torch.Tensor]) -> None:
        group = self.group
        group.updates[number] = int(tensors["updates"])
        group.evicted[number] = [tensors["evicted"].cpu().numpy().copy()]
        admitter = group.admitters[number]
        if admitter is not None:
            given = {name: tensor.cpu() for name, tensor in tensors.items()}
            admitter.load({n.removeprefix("admission."): t for n, t in given.items() if n.startswith("admission.")})


def load_group(group: Group, state: Mapping[str, torch.Tensor]) -> Loading:
    """What a state holds for a group, checked."""
    made = Loading(group)
    layout = group.store.layout
    for config, admitter in zip(group.configs, group.admitters, strict=True):
        start = f"{config.stable_key}."
        own = {name[len(start) :]: tensor for name, tensor in state.items() if name.startswith(start)}
        made.tables.append(own)
        if any(part not in own for part in PARTS):
            continue
        count, gone = own["ids"].numel(), own["evicted"].numel()
        settings = config.optimizer.settings
        known = own.get(SETTINGS, torch.empty(0, dtype=torch.uint8))
        for part, dtype, shape in (
            ("ids", torch.int64, [count]),
            ("values", getattr(torch, config.dtype), [count, layout.embedding_dim]),
            ("states", torch.float32, [count, layout.num_states]),
            ("use", torch.int64, [count, 2]),
            ("updates", torch.int64, []),
            ("evicted", torch.int64, [gone]),
            (SETTINGS, torch.uint8, [known.numel()]),
        ):
            given = own.get(part, known)
            if given.dtype != dtype or list(given.shape) != shape:
                got = f"{given.dtype} {list(given.shape)}"
                made.problems.append(f"table {config.name!r}: {part} are {got}, want {dtype} {shape}")
        if made.problems:
            continue
        made_by = bytes(own[SETTINGS].tolist()).decode(errors="replace") if SETTINGS in own else settings
        if made_by != settings:
            made.problems.append(
                f"table {config.name!r}: state of {made_by}, want that of {settings}"
                f" (without {start + SETTINGS!r}, it is taken for that)"
            )
        if not 0 <= int(own["updates"]) <= MOST_UPDATES:
            made.problems.append(f"table {config.name!r}: {int(own['updates'])} updates, want 0 to {MOST_UPDATES}")
        if len(own["ids"].unique()) != count:
            made.problems.append(f"table {config.name!r}: ids that repeat")
        if admitter is not None and admitter.remembers is not None:
            made.problems += [f"table {config.name!r}: {problem}" for problem in _of_counts(own)]
    return made


def _of_counts(own: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """What is wrong with the counts of ids that wait to be admitted, where none is missing."""
    parts = {name: own.get(f"admission.{name}") for name in COUNTS}
    given = {name: tensor for name, tensor in parts.items() if tensor is not None}
    if len(given) < len(COUNTS):
        return
    count = given["ids"].numel()
    for name, tensor in given.items():
        if tensor.dtype != torch.int64 or list(tensor.shape) != [count]:
            yield f"admission.{name} are {tensor.dtype} {list(tensor.shape)}, want torch.int64 {[count]}"
    if len(given["ids"].unique()) != count:
        yield "admission.ids that repeat"


def moved(group: Group, seed: int, budget: Budget, device: torch.device) -> Group:
    """The same tables on another device. Errors: BudgetError."""
    made = group_of(group.configs, seed, budget, device)
    if group.store.num_rows or any(group.evicted) or any(admitter is not None for admitter in group.admitters):
        load_group(made, dict(saved_group(group))).run()
    else:
        made.updates[:] = group.updates
    made.frozen = group.frozen
    return made
