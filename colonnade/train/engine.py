"""`EmbeddingEngine`: the embedding layer of a model that is trained. Ids in, pooled rows out.

Legend: F features; B batch rows; N ids of all features; W width of an output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from colonnade.core.eager import uncompiled
from colonnade.core.fork import Lock, in_one_thread
from colonnade.core.given import is_whole
from colonnade.core.ragged import Ragged
from colonnade.errors import GradientError, OptionError, listed
from colonnade.train.engine_state import SETTINGS, load_group, moved, saved_group
from colonnade.train.gradients import GradientPolicy
from colonnade.train.ids import PackedIds, check, pack
from colonnade.train.lookup import Lookups
from colonnade.train.optimizers import Schedule
from colonnade.train.place import Group, Table, group_of, place_of
from colonnade.train.reduce.segment import Elements, Segment, SegmentPlan
from colonnade.train.segments import POOLINGS
from colonnade.train.table_config import TableConfig
from colonnade.train.tables.store import Budget


@dataclass(frozen=True)
class EmbeddingFeature:
    """A feature whose ids are looked up in a table. pooling: sum, mean, sqrtn, max, or none (a row for each id).

    lists: whether its batch rows hold lists, each of which is pooled by itself: its output is its own, a row a list.
    """

    name: str
    table: TableConfig
    pooling: str = "sum"
    lists: bool = False


class EmbeddingEngine(torch.nn.Module):
    """Looks up and pools features, and keeps and updates the tables' rows.

    outputs: by name, the features whose pooled rows are concatenated (None: one output a feature, of its name).
    seed: of the values of new rows.   gradients: what is done to them.   budget: bytes that tables may take.
    evict_every: after how many steps eviction runs (0: when it is called).
    Errors: OptionError that lists all that does not fit together.

    Facts: lookups, steps and evictions of several threads take turns; tables are for one thread while none of these
    runs. In a child of `fork` torch takes one thread for each, whatever the parent did; a backward pass and a network
    are torch's own: `torch.set_num_threads(1)` first. The module has no parameters; `step` is its optimizer's. In eval
    mode no table changes. `to` moves the tables with all that is known of them, all or none, and forgets what was
    learned since the last step; outputs lie where the tables do.
    """

    def __init__(
        self,
        features: Sequence[EmbeddingFeature],
        outputs: Mapping[str, Sequence[str]] | None = None,
        *,
        seed: int = 0,
        gradients: GradientPolicy | None = None,
        budget: int | None = None,
        evict_every: int = 0,
    ) -> None:
        super().__init__()
        self.features = tuple(features)
        self.outputs = {f.name: (f.name,) for f in features} if outputs is None else dict(outputs)
        _check(self.features, self.outputs)
        _check_settings(seed, budget, evict_every)
        seed = int(seed)
        self.gradients = gradients or GradientPolicy()
        self.seed, self.evict_every = seed, evict_every
        self.budget = Budget(budget)
        self.steps = 0
        self._turn = Lock()
        self.device = torch.device("cpu")
        self.groups = [
            group_of(configs, seed, self.budget, place_of(configs[0], self.device))
            for configs in _grouped(self.features)
        ]
        self._places = {c.name: (g, n) for g, group in enumerate(self.groups) for n, c in enumerate(group.configs)}
        self._names = [feature.name for feature in features]
        self._with_lists = frozenset(f for f, feature in enumerate(features) if feature.lists)
        places = [self._places[feature.table.name] for feature in features]
        self._numbers = np.array([number for _, number in places], np.int64)
        self._members = [np.flatnonzero([g == group for g, _ in places]) for group in range(len(self.groups))]
        self._lookups = Lookups(self.groups, self._members, self._numbers)
        self._plan = self._planned(places)
        self._list_plans = self._planned_lists(places)
        self._listened = self._listened_to()
        optimizers = dict.fromkeys(config.optimizer for group in self.groups for config in group.configs)
        self._scheduled = [optimizer for optimizer in optimizers if isinstance(optimizer.lr, Schedule)]

    def _planned(self, places: Sequence[tuple[int, int]]) -> SegmentPlan:
        """How features without lists are pooled."""
        segments: list[Segment] = []
        widths: list[int] = []
        numbers = {feature.name: f for f, feature in enumerate(self.features)}
        for names in self.outputs.values():
            if self.features[numbers[names[0]]].lists:
                continue
            at = 0
            for name in names:
                feature, f = self.features[numbers[name]], numbers[name]
                dim = feature.table.embedding_dim
                segments.append(Segment(places[f][0], dim, feature.pooling, len(widths), at, f))
                at += dim
            widths.append(at)
        return SegmentPlan(segments, widths)

    def _planned_lists(self, places: Sequence[tuple[int, int]]) -> dict[str, tuple[int, SegmentPlan]]:
        """By output: the number of a feature with lists, and how it is pooled."""
        made = {}
        for output, (name, *_) in self.outputs.items():
            f = self._names.index(name)
            feature = self.features[f]
            if feature.lists:
                dim = feature.table.embedding_dim
                made[output] = f, SegmentPlan([Segment(places[f][0], dim, feature.pooling, 0)], [dim])
        return made

    def _listened_to(self) -> dict[str, frozenset[str]]:
        """By output its tables, where a gradient of a group's rows does not say which of its tables it is of.

        Facts: an output that nobody learns from gives them zeros, by which momentum and decay would move rows.
        """
        table_of = {feature.name: feature.table.name for feature in self.features}
        tables = {output: frozenset(table_of[name] for name in names) for output, names in self.outputs.items()}
        seen = {name: frozenset(o for o, own in tables.items() if name in own) for name in self._places}
        apart = any(len({seen[config.name] for config in group.configs}) > 1 for group in self.groups)
        return tables if apart else {}

    # --- forward ----------------------------------------------------------------------------------------------------
    @uncompiled
    @in_one_thread
    def forward(self, batch: Mapping[str, Ragged] | PackedIds) -> dict[str, torch.Tensor]:
        """The outputs by name: `[B, W]`, or `[n, D]` for a feature that is not pooled or has lists.

        Errors: FeedError, BudgetError.
        """
        if not isinstance(batch, PackedIds):
            return self.lookup(pack(self._names, batch, self._with_lists))
        check(batch, len(self.features), self._with_lists)
        return self.lookup(batch)

    @uncompiled
    @in_one_thread
    def lookup(self, packed: PackedIds) -> dict[str, torch.Tensor]:
        """What `forward` gives. Facts: the ids are such as `pack` gives, but may have others between features.

        Errors: BudgetError.
        """
        heard: set[str] | None = set() if self._listened else None
        with self._turn:
            inverse, rows = self._lookups.run(packed, self.steps + 1 if self.training else None, heard)
        device = inverse.device
        weights = None if packed.weights is None else packed.weights.to(device)
        elements = Elements(packed.offsets, inverse, packed.weighted)
        sizes = tuple(self._plan.sizes_of(elements))
        elements = replace(elements, offsets=packed.offsets.to(device), sizes=sizes)
        pooled = [name for name in self.outputs if name not in self._list_plans]
        made = iter(self._plan.run(elements, weights, rows, self._hearing(heard, pooled)))
        outputs: dict[str, torch.Tensor] = {}
        for name in self.outputs:
            if name not in self._list_plans:
                outputs[name] = next(made)
                continue
            f, plan = self._list_plans[name]
            lists = Elements(packed.lists[f][None].to(device), inverse, (packed.weighted[f],))
            (outputs[name],) = plan.run(lists, weights, rows, self._hearing(heard, [name]))
        return outputs

    def _hearing(self, heard: set[str] | None, outputs: Sequence[str]) -> Callable[[Sequence[int]], None] | None:
        """What is told the numbers of outputs that gradients come to."""
        return None if heard is None else partial(_hear, heard, [self._listened[name] for name in outputs])

    # --- backward ---------------------------------------------------------------------------------------------------
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget what was learned since the last step. Facts: a backward pass that is yet to come is not forgotten."""
        super().zero_grad(set_to_none)
        for group in self.groups:
            group.pending.zero()

    @uncompiled
    @in_one_thread
    def step(self, scale: float = 1.0) -> bool:
        """Update the rows by what all backward passes since the last step gave them, divided by `scale`.

        scale: of the loss, by a gradient scaler.   Facts: gives false where the step was skipped. Each distinct row is
        updated once, by the gradients of its occurrences added up (or their mean). What a backward pass gives after a
        step counts at the next, in the rows that its ids have then.
        Errors: GradientError, and OptionError in eval mode where there is something to learn, for a scale that is no
        positive number, or for a learning rate that a schedule cannot mean; before anything is changed.
        """
        if not 0 < scale < math.inf:
            raise OptionError("gradients cannot be divided by this scale", got=str(scale), want="a number above 0")
        with self._turn:
            return self._step(scale)

    def _step(self, scale: float) -> bool:
        found = [(owner, owner.learned(scale, self.gradients)) for owner in self._lookups.owners]
        if not self.training and any(update is not None for _, update in found):
            raise OptionError("rows learn in training alone", help="call train() first, or zero_grad() to forget")
        learning = [(owner, update) for owner, update in found if update is not None]
        for optimizer in self._scheduled if learning else ():
            optimizer.rate(self.steps + 1)  # said before anything is changed
        updates = self._fit(learning)
        if updates is not None:
            for owner, update in updates:
                owner.apply(update, self.steps + 1)
        for group in self.groups:
            group.pending.settle()
        self.steps += 1
        if self.evict_every and self.steps % self.evict_every == 0 and self.training:
            self._evict()
        return updates is not None

    def _fit(self, updates: list[tuple[Any, Any]]) -> list[tuple[Any, Any]] | None:
        """The updates, limited; None: none of them. Errors: GradientError."""
        policy = self.gradients
        if policy.not_finite in ("error", "skip_step") and any(update.is_bad for _, update in updates):
            if policy.not_finite == "skip_step":
                return None
            lines = [line for owner, update in updates for line in owner.refused(update)]
            help = "lower the learning rate, clip, or say not_finite='skip_rows' or 'skip_step' in GradientPolicy"
            what = "gradients that are NaN, infinite or too large to be squared; no row was changed"
            raise GradientError(what, got=listed(lines), help=help)
        made = [(owner, update.limited(policy)) for owner, update in updates]
        if policy.max_norm is None:
            return made
        factor = policy.factor([update.square_norm for _, update in made])
        return [(owner, update.scaled(factor)) for owner, update in made]

    # --- tables -----------------------------------------------------------------------------------------------------
    def table(self, name: str) -> Table:
        """The rows of a table. Errors: OptionError."""
        group, number = self._place(name)
        return group.tables[number]

    def freeze(self, name: str, frozen: bool = True) -> None:
        """Let a table's rows stand still, or change again. Errors: OptionError."""
        group, number = self._place(name)
        group.frozen[number] = frozen

    def _place(self, name: str) -> tuple[Group, int]:
        if name not in self._places:
            raise OptionError("no such table", got=name, want=listed([f"one of {n}" for n in self._places]))
        group, number = self._places[name]
        return self.groups[group], number

    @uncompiled
    @in_one_thread
    def evict(self) -> dict[str, int]:
        """Remove the rows that the tables' policies give up now; gives how many of each table.

        Errors: OptionError in eval mode.
        """
        if not self.training:
            raise OptionError("eviction runs in training alone", help="call train() first")
        with self._turn:
            return self._evict()

    def _evict(self) -> dict[str, int]:
        removed: dict[str, int] = {}
        for group in self.groups:
            removed |= group.evict(self.steps)
        return removed

    def take_evicted(self) -> dict[str, torch.Tensor]:
        """The ids of each table that were evicted since the last call, and have no row: for whoever serves them."""
        made = {}
        for name, (g, number) in self._places.items():
            made[name] = torch.from_numpy(self.groups[g].evicted_ids(number))
            self.groups[g].evicted[number].clear()
        return made

    def summary(self) -> str:
        """One line a table: its rows, their form, and what its store takes."""
        lines = [f"{'table':<24} {'rows':>12} {'dim':>5} {'dtype':<9} {'optimizer':<16} {'row bytes':>9}"]
        for group in self.groups:
            row_bytes = group.store.row_bytes
            for number, c in enumerate(group.configs):
                rows, rule = group.store.num_rows_of(number), type(c.optimizer).__name__
                lines.append(f"{c.name:<24} {rows:>12,} {c.embedding_dim:>5} {c.dtype:<9} {rule:<16} {row_bytes:>9}")
        return "\n".join([*lines, f"{len(self.groups)} stores, {self.budget.used:,} bytes"])

    def extra_repr(self) -> str:
        return self.summary()

    # --- devices ----------------------------------------------------------------------------------------------------
    @property
    def output_device(self) -> torch.device:
        """Where outputs lie: on a device if any table does."""
        return self._lookups.device

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> EmbeddingEngine:
        """What torch's modules do for `to`, `cuda` and `cpu`: tables that say no device of their own move."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        device = fn(torch.empty(0, dtype=torch.float32, device=self.device)).device
        if device.type not in ("cpu", "cuda"):
            raise OptionError("tables cannot lie there", got=str(device), want="cpu or cuda")
        if device != self.device:
            self._move(device)
        return self

    def _move(self, device: torch.device) -> None:
        """Errors: BudgetError. Facts: what ends a move before all have moved leaves every table where it is."""
        places = [place_of(group.configs[0], device) for group in self.groups]
        leaving = [group for group, place in zip(self.groups, places, strict=True) if place != group.device]
        used, lookups = self.budget.used, None
        self.budget.used -= sum(group.bytes for group in leaving)
        try:
            groups = [
                group if place == group.device else moved(group, self.seed, self.budget, place)
                for group, place in zip(self.groups, places, strict=True)
            ]
            lookups = Lookups(groups, self._members, self._numbers)
        finally:
            if lookups is None:
                self.budget.used = used
        for group in leaving:
            group.pending.end("their tables moved")
        self.groups, self._lookups, self.device = groups, lookups, device

    # --- copies -----------------------------------------------------------------------------------------------------
    def __reduce__(self) -> tuple[Any, ...]:
        """What a copy, or a pickle, is made of: what the engine was made with, and its state. See `Made`."""
        given = (self.features, self.outputs)
        named = {"seed": self.seed, "gradients": self.gradients, "evict_every": self.evict_every}
        frozen = [c.name for group in self.groups for n, c in enumerate(group.configs) if group.frozen[n]]
        state = {name: tensor.detach().cpu() for name, tensor in self.state_dict().items()}
        made = Made(type(self), given, {**named, "budget": self.budget.most}, str(self.device), frozen, self.training)
        return _made_again, (made, state)

    # --- state ------------------------------------------------------------------------------------------------------
    @uncompiled
    @in_one_thread
    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "steps"] = torch.tensor(self.steps, dtype=torch.int64)
        for group in self.groups:
            for name, tensor in saved_group(group):
                destination[prefix + name] = tensor

    @uncompiled
    @in_one_thread
    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        own = {name[len(prefix) :]: tensor for name, tensor in state_dict.items() if name.startswith(prefix)}
        wanted = ["steps", *(name for group in self.groups for name, _ in saved_group(group, empty=True))]
        needed = [name for name in wanted if not name.endswith(f".{SETTINGS}")]
        missing_keys += [prefix + name for name in needed if name not in own]
        unknown = [prefix + name for name in own if name not in wanted] if strict else []
        unexpected_keys += unknown
        plans = [load_group(group, own) for group in self.groups]
        error_msgs += [problem for plan in plans for problem in plan.problems]
        steps = own.get("steps", torch.tensor(0, dtype=torch.int64))
        if steps.dtype != torch.int64 or steps.dim() != 0 or int(steps) < 0:
            error_msgs.append(f"steps are {steps.dtype} {list(steps.shape)}, want torch.int64 [], not below 0")
        if error_msgs or unknown or any(name not in own for name in needed):
            return
        for plan in plans:
            plan.reserve()
        for plan in plans:
            plan.run()
        self.steps = int(steps)


@dataclass(frozen=True)
class Made:
    """What an engine was made with. frozen: names of tables."""

    kind: type[EmbeddingEngine]
    given: tuple[Any, ...]
    named: Mapping[str, Any]
    device: str
    frozen: Sequence[str]
    training: bool


def _made_again(made: Made, state: Mapping[str, torch.Tensor]) -> EmbeddingEngine:
    """An engine like the one that was; it has learned nothing since the last step, and has no hooks."""
    engine = made.kind(*made.given, **made.named).to(made.device).train(made.training)
    for name in engine._places:
        engine.freeze(name, name in made.frozen)
    engine.load_state_dict(state)
    return engine


def _hear(heard: set[str], tables: Sequence[frozenset[str]], outputs: Sequence[int]) -> None:
    """Gradients have come to some outputs. tables: of every output."""
    heard.update(*(tables[output] for output in outputs))


def _grouped(features: Sequence[EmbeddingFeature]) -> list[list[TableConfig]]:
    """The tables that share a store: of one layout, one rule, one state."""
    groups: dict[Any, list[TableConfig]] = {}
    for table in dict.fromkeys(feature.table for feature in features):
        optimizer = table.optimizer
        states = optimizer.num_states(table.embedding_dim)
        key = (table.embedding_dim, table.dtype, optimizer.loop, states, table.device)
        groups.setdefault(key, []).append(table)
    return list(groups.values())


def _check_settings(seed: int, budget: int | None, evict_every: int) -> None:
    """Errors: OptionError that lists every setting that is not what it has to be."""
    bytes_ = 0 if budget is None else budget
    settings = {"seed": (seed, -math.inf), "budget": (bytes_, 0), "evict_every": (evict_every, 0)}
    wrong = [f"{name} {value!r}" for name, (value, least) in settings.items() if not is_whole(value) or value < least]
    if wrong:
        raise OptionError(
            "settings of an engine that cannot be",
            got=listed(wrong),
            want="whole numbers; a budget (of bytes) and steps between evictions are 0 or more",
        )


def _check(features: Sequence[EmbeddingFeature], outputs: Mapping[str, Sequence[str]]) -> None:
    found = list(problems(features, outputs))
    if found:
        raise OptionError("features that do not fit together", got=listed(found))


def problems(features: Sequence[EmbeddingFeature], outputs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What does not fit together."""
    if not features:
        yield "no features"
    tables = list(dict.fromkeys(feature.table for feature in features))
    for table in tables:
        yield from table.problems()
    for what, names in (
        ("feature", [f.name for f in features]),
        ("table", [t.name for t in tables]),
        ("table key", [t.stable_key for t in tables]),
    ):
        yield from (f"{what} {name!r} twice, with different settings" for name in _repeated(names))
    by_name = {feature.name: feature for feature in features}
    for name, members in outputs.items():
        yield from (f"output {name!r}: no feature {member!r}" for member in members if member not in by_name)
        own = [m for m in members if m in by_name and (by_name[m].pooling == "none" or by_name[m].lists)]
        if own and len(members) > 1:
            yield f"output {name!r}: {own} have a row for each id or list and cannot be concatenated"
        if not members:
            yield f"output {name!r}: no features"
    for feature in features:
        if feature.pooling not in POOLINGS:
            yield f"feature {feature.name!r}: pooling {feature.pooling!r}, want one of {', '.join(POOLINGS)}"


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
