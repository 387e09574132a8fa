"""All groups of tables on a device, handled together: launches and waits of a step do not grow with them.

Legend: G groups; F features; N ids of all features; U distinct keys; D embedding_dim; T tables of all groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.train.gpu.admission import Asked
from colonnade.train.gpu.group import DeviceGroup, DeviceLookup
from colonnade.train.gpu.module import WARP, upload, written
from colonnade.train.gpu.store import MAKING, SPARE, Rows, Store, block_of, fours_of
from colonnade.train.gpu.unique import Found, Keys, Members, Unique
from colonnade.train.gpu.update import Part, Plan
from colonnade.train.gradients import GradientPolicy
from colonnade.train.optimizers.optimizer import LARGEST
from colonnade.train.step_numbers import StepNumbers

LOOKING = 32
"""Lanes of a program: few, since the slowest search of a program holds up the others."""
FILES = ("groups",)
STORE_WORDS, KEYS_WORDS = 16, 4
Kind = tuple[int, int, bool, int, bool, int]
"""What code of a store depends on: FORM, VALUES, FULL, FOURS, EACH_FOUR, STATES of `kernels/groups.py`."""


def kind_of(store: Store) -> Kind:
    """The kind of a store."""
    dim = store.layout.embedding_dim
    values, fours = block_of(dim, 32), fours_of(dim)
    states = block_of(store.layout.num_states, 32)
    return store.form, values, dim % values == 0, fours, dim % (4 * fours) == 0, states


def write(kinds: Sequence[Kind]) -> str:
    """`look_up_all` and `insert_all`: a branch for each kind of store."""
    keys = "hashes, tables, ids, counts"
    packed = "packed_hashes, packed_tables, packed_ids, packed_counts"
    of_look_up = f"{keys}, {packed}, rows, lacks, barred, out, num_step"
    of_insert = f"{keys}, spare, order, rows, out, num_step"
    begin = "    words, part, lane = tile_of_group(stores, parts, tiles, num, BLOCK)"
    head = f"{begin}\n    kind = tl.load(words + STORE_KIND)"
    lines = ["@kernel", f"def look_up_all(stores, parts, tiles, num, {of_look_up}, NOTED: tl.constexpr,"]
    lines += ["    GIVES: tl.constexpr, BLOCK: tl.constexpr):", head]
    for k, (form, values, full, *_) in enumerate(kinds):
        own = f"FORM={form}, VALUES={values}, FULL={full}, NOTED=NOTED, GIVES=GIVES"
        lines += [f"    if kind == {k}:", f"        look_up_of(words, part, lane, {of_look_up}, {own})"]
    lines += ["", "", "@kernel", f"def insert_all(stores, parts, tiles, num, {of_insert}, NORMAL: tl.constexpr,"]
    lines += ["    TRUNCATED: tl.constexpr, BLOCK: tl.constexpr, SPARE: tl.constexpr):", head]
    for k, (form, _, _, fours, each, states) in enumerate(kinds):
        shared = "NORMAL=NORMAL, TRUNCATED=TRUNCATED, BLOCK=BLOCK, SPARE=SPARE"
        own = f"FORM={form}, FOURS={fours}, EACH_FOUR={each}, STATES={states}, {shared}"
        lines += [f"    if kind == {k}:", f"        insert_of(words, part, lane, {of_insert}, {own})"]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Batch:
    """The distinct keys of a batch. sizes: how many there are of each group.   parts: int64 [G, 4].   looking, making:
    int64 [G], as of `kernels/groups.py`.
    """

    found: Found
    sizes: tuple[int, ...]
    parts: torch.Tensor
    looking: torch.Tensor
    making: torch.Tensor

    @property
    def ends(self) -> tuple[int, ...]:
        """Where the packed keys of each group end."""
        return tuple(accumulate(self.sizes))

    def slices(self) -> list[slice]:
        """Where the packed keys of each group lie."""
        return [slice(end - size, end) for end, size in zip(self.ends, self.sizes, strict=True)]

    def programs(self, block: int) -> int:
        """Programs of so many keys, each of one group."""
        return sum(-(-size // block) for size in self.sizes)


@dataclass(frozen=True)
class DeviceUpdates:
    """What the rows of all groups learn. is_bad: whether a gradient is NaN, infinite, or more than its optimizer takes.

    changed: bool [T].
    """

    plan: Plan
    is_bad: bool
    changed: npt.NDArray[np.bool_]

    def limited(self, policy: GradientPolicy) -> DeviceUpdates:
        """With gradients limited one by one and row by row."""
        return self._each(policy.limited)

    def scaled(self, factor: float) -> DeviceUpdates:
        """With gradients multiplied."""
        return self._each(lambda grads: grads * factor)

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> DeviceUpdates:
        parts = self.plan.parts
        grads = [change(part.grads).contiguous() for part in parts]
        same = all(own is part.grads for own, part in zip(grads, parts, strict=True))
        return self if same else replace(self, plan=self.plan.with_grads(grads))

    @property
    def square_norm(self) -> float:
        """Of the gradients of rows that learn something. Facts: waits for the device."""
        given = zip(self.plan.parts, self.plan.marks_of(), strict=True)
        sums = [torch.where(marks == 0, part.grads.double().square().sum(1), 0).sum() for part, marks in given]
        return float(torch.stack(sums).sum())


@dataclass(frozen=True)
class Read:
    """What was found for the keys of a batch, packed. rows: int64 [U].   lacks: int32 [U], which keys get a row.

    values: float32, of the groups one behind the other.
    """

    keys: Keys
    rows: Rows
    lacks: torch.Tensor
    values: torch.Tensor


class DeviceGroups:
    """The groups that lie on one device.

    features: of each group, the rows of the offsets.   tables: of each feature, its table in its group.
    Facts: for one stream at a time. `distinct` waits for the device once, for how many keys there are; `reserve` does
    once more where a store might have too little room, and where policies are asked.
    """

    def __init__(
        self,
        groups: Sequence[DeviceGroup],
        features: Sequence[Sequence[int]],
        tables: Sequence[int],
        device: torch.device,
    ) -> None:
        self.groups, self.device = tuple(groups), device
        self.firsts = tuple(accumulate((len(group.configs) for group in groups), initial=0))[:-1]
        given = [(f, first + tables[f]) for first, own in zip(self.firsts, features, strict=True) for f in own]
        fresh = [(x.hash_key, g) for g, group in enumerate(groups) for x in group.store.tables]
        of_tables = ([key for key, _ in fresh], [g for _, g in fresh])
        self._members = Members.of([f for f, _ in given], [t for _, t in given], *of_tables, device)
        self._unique = Unique(device)
        kinds = [kind_of(group.store) for group in groups]
        known = tuple(sorted(set(kinds)))
        self._kinds = [known.index(kind) for kind in kinds]
        self._kernels = written(FILES, write, known, device.type)
        draws = [group.store.draws for group in groups]
        self._draws = {"NORMAL": any(normal for normal, _ in draws), "TRUNCATED": any(cut for _, cut in draws)}
        self._numbers = StepNumbers([config for group in groups for config in group.configs])
        self._spare = torch.zeros(SPARE, dtype=torch.int64, device=device)
        self._stores: tuple[tuple[int, ...], torch.Tensor] | None = None
        self._marks: dict[str, tuple[npt.NDArray[np.bool_], torch.Tensor]] = {}

    # --- what is known on the device ----------------------------------------------------------------------------------
    @property
    def stores(self) -> torch.Tensor:
        """int64 [G, 16], the words of every store."""
        moves = tuple(group.store.moves for group in self.groups)
        if self._stores is None or self._stores[0] != moves:
            words = np.zeros((len(self.groups), STORE_WORDS), np.int64)
            for own, group, first, kind in zip(words, self.groups, self.firsts, self._kinds, strict=True):
                own[:] = (*group.store.described(), first, kind)
            self._stores = moves, torch.from_numpy(words).to(self.device)
        return self._stores[1]

    def _marked(self, what: str, parts: Sequence[npt.NDArray[np.bool_]]) -> torch.Tensor:
        """bool [T], marks of tables, copied where they are others than the last time. what: their name."""
        marks = np.concatenate(parts)
        known = self._marks.get(what)
        if known is None or not np.array_equal(known[0], marks):
            known = self._marks[what] = marks, torch.from_numpy(marks.copy()).to(self.device)
        return known[1]

    @property
    def _lanes(self) -> dict[str, int]:
        return {"GROUPS": block_of(max(len(self.groups), WARP), 1 << 16)}

    # --- forward ----------------------------------------------------------------------------------------------------
    def distinct(self, offsets: torch.Tensor, values: torch.Tensor, inverse: torch.Tensor) -> Batch:
        """The features' distinct ids, as keys. inverse: int32 [N], written."""
        ordered = torch.are_deterministic_algorithms_enabled()
        found = self._unique.run(self._members, offsets, values, inverse, ordered=ordered)
        count = len(self.groups)
        memory = torch.empty((KEYS_WORDS + 2 + 4) * count, dtype=torch.int64, device=self.device)
        parts, looking, making, told = memory.split((KEYS_WORDS * count, count, count, 4 * count))
        given = (self.stores, found.bases, found.counts, parts, looking, making, told, count)
        self._kernels.launch("arrange", 1, *given, LOOK=LOOKING, MAKE=MAKING, **self._lanes, num_warps=1)
        counting = [group.admissions.store for group in self.groups if group.admissions.store is not None]
        if counting:
            told = torch.cat((told, *(store.numbers for store in counting)))
        numbers = told.tolist()
        for g, group in enumerate(self.groups):
            group.store.know(numbers[4 * g + 1 : 4 * g + 4])
        for k, store in enumerate(counting):
            store.know(numbers[4 * count + 3 * k : 4 * count + 3 * k + 3])
        return Batch(found, tuple(numbers[: 4 * count : 4]), parts, looking, making)

    def reserve(self, batch: Batch, step: int) -> list[Asked | None]:
        """Make room for what `look_up` will make and note; gives what policies said, where they had to be asked for it.

        Errors: BudgetError, before any row is made or noted.
        """
        short = []
        for g, (group, size) in enumerate(zip(self.groups, batch.sizes, strict=True)):
            group.admissions.follow(group.frozen)
            if size and not (group.store.has_room(size) and group.admissions.has_room(size)):
                short.append(g)
        asked: list[Asked | None] = [None] * len(self.groups)
        if not short:
            return asked
        read, slices = self._read(batch, None, gives=False), batch.slices()
        counts = []
        for g in short:
            policies, own = self.groups[g].admissions, slices[g]
            said = asked[g] = policies.ask(read.keys.take(own), read.rows[own], step)
            counts.append(policies.new(said))
        for g, (more, new) in zip(short, torch.stack(counts).tolist(), strict=True):
            self.groups[g].store.reserve(more, batch.sizes[g])
            self.groups[g].admissions.reserve(new, batch.sizes[g])
        return asked

    def look_up(
        self,
        batch: Batch,
        step: int | None,
        asked: Sequence[Asked | None] | None = None,
        heard: set[str] | None = None,
    ) -> list[torch.Tensor]:
        """The rows of each group's keys, `[U, D]`; the tables' defaults where there is none.

        step: of the training; None: no row is made or noted.   asked: what `reserve` gave.   heard: as of `Lookup`.
        """
        read, slices = self._read(batch, step, gives=True), batch.slices()
        if step is not None:
            self._insert(batch, read, step, asked or [None] * len(slices))
        found = self._matrices(batch, read.values)
        if step is not None and torch.is_grad_enabled():
            parts = read.keys.split(batch.sizes), read.rows.split(batch.sizes)
            for group, keys, rows, x in zip(self.groups, *parts, found, strict=True):
                group.pending.add(DeviceLookup(keys, rows, x.requires_grad_(), group.store.version, heard))
        return found

    def _matrices(self, batch: Batch, values: torch.Tensor) -> list[torch.Tensor]:
        made, at = [], 0
        for size, group in zip(batch.sizes, self.groups, strict=True):
            dim = group.store.layout.embedding_dim
            made.append(values.as_strided((size, dim), (dim, 1), at))
            at += _padded(size * dim)
        return made

    def _read(self, batch: Batch, step: int | None, *, gives: bool) -> Read:
        keys = Keys.empty(sum(batch.sizes), self.device)
        rows = torch.empty(len(keys), dtype=torch.int64, device=self.device)
        lacks = torch.empty(len(keys), dtype=torch.int32, device=self.device)
        dims = [group.store.layout.embedding_dim for group in self.groups]
        room = sum(_padded(size * dim) for size, dim in zip(batch.sizes, dims, strict=True)) if gives else 0
        values = torch.empty(room, dtype=torch.float32, device=self.device)
        barred = self._marked("bars", [group.admissions.bars for group in self.groups])
        given = (*batch.found.keys.parts, *keys.parts, rows, lacks, barred, values, step or 0)
        noted = {"NOTED": step is not None, "GIVES": gives}
        self._launch("look_up_all", batch, batch.looking, LOOKING, *given, **noted)
        return Read(keys, rows, lacks, values)

    def _insert(self, batch: Batch, read: Read, step: int, asked: Sequence[Asked | None]) -> None:
        if not len(read.keys):
            return
        told = self._told(batch, read, step, asked)
        order, keys = read.lacks.cumsum(0), read.keys
        given = (*keys.parts, self._spare, order, read.rows, read.values, step)
        self._launch("insert_all", batch, batch.making, MAKING, *given, **self._draws, SPARE=SPARE)
        counted = (self.stores, batch.parts, order, len(self.groups))
        self._kernels.launch("account_all", 1, *counted, **self._lanes, num_warps=1)
        for group, size in zip(self.groups, batch.sizes, strict=True):
            group.store.made(size)
        for group, own_keys, said in told:
            group.admissions.note(own_keys, said, step)

    def _told(
        self, batch: Batch, read: Read, step: int, asked: Sequence[Asked | None]
    ) -> list[tuple[DeviceGroup, Keys, Asked]]:
        """The groups whose policies decide, and what these say of which keys. Facts: writes which keys get a row."""
        made = []
        for group, own, said in zip(self.groups, batch.slices(), asked, strict=True):
            if group.admissions.decides and own.stop > own.start:
                keys = read.keys.take(own)
                said = said or group.admissions.ask(keys, read.rows[own], step)
                read.lacks[own] = said.wanted.int()
                made.append((group, keys, said))
        return made

    def _launch(self, name: str, batch: Batch, tiles: torch.Tensor, block: int, *given: Any, **constants: Any) -> None:
        warps = 1 if block <= WARP else 4
        known = (self.stores, batch.parts, tiles, len(self.groups))
        self._kernels.launch(name, batch.programs(block), *known, *given, BLOCK=block, **constants, num_warps=warps)

    # --- backward ---------------------------------------------------------------------------------------------------
    def learned(self, scale: float, policy: GradientPolicy) -> DeviceUpdates | None:
        """What all groups learned since the last step, divided by `scale`; None: nothing. Facts: waits once."""
        parts = []
        for group, first in zip(self.groups, self.firsts, strict=True):
            update, optimizer = group.learned(scale), group.configs[0].optimizer
            if update is not None:
                most = LARGEST if policy.limits else optimizer.most
                parts.append(Part(group.store, optimizer, first, update.rows, update.tables, update.grads, most))
        if not parts:
            return None
        plan = Plan.of(parts, [group.store for group in self.groups], self.device)
        frozen = self._marked("frozen", [group.frozen for group in self.groups])
        told = plan.inspect(frozen, skips=policy.not_finite == "skip_rows").cpu().numpy()
        return DeviceUpdates(plan, bool(told[0]), told[1:] > 0)

    def refused(self, updates: DeviceUpdates) -> Iterator[str]:
        """A line for each table of which a gradient is more than it may be."""
        for part, marks in zip(updates.plan.parts, updates.plan.marks_of(), strict=True):
            group = self.groups[self.firsts.index(part.first)]
            bad = ~(part.grads.abs() <= part.most).all(1) & (marks == 0)
            for number, config in enumerate(group.configs):
                rows = part.rows[bad & (part.tables == number)]
                if len(rows):
                    yield f"table {config.name!r}: {len(rows)} ids, among them {part.store.ids(rows[:3]).tolist()}"

    def apply(self, updates: DeviceUpdates, step: int) -> None:
        """Update the rows that learn something."""
        for group, first in zip(self.groups, self.firsts, strict=True):
            group.updates += updates.changed[first : first + len(group.configs)]
        times = np.concatenate([group.updates for group in self.groups])
        updates.plan.update(upload(self._numbers.of(times, updates.changed, step), self.device))


def _padded(size: int) -> int:
    """Where values begin is a multiple of 16 bytes."""
    return size + -size % 4
