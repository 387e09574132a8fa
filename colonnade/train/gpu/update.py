"""Optimizers' steps on rows of stores on a device: one launch for all stores of a rule, whatever their layouts.

Legend: P parts, one of each store; U rows of all parts; D embedding_dim; T tables of all stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.train.gpu.module import upload, written
from colonnade.train.gpu.store import Rows, Store, block_of
from colonnade.train.loops.update import NUM_SCALARS
from colonnade.train.optimizers import Optimizer

ELEMENTS, WARPS = 1024, 2
"""Values that a program has in hand, and its warps."""
FILES = ("update",)
PART_WORDS, GRADS = 16, 7
ALIGNMENT = 16
Kind = tuple[int, int, bool]
"""What code of a store depends on: FORM, VALUES and EXACT of `kernels/update.py`."""


def vectors_of(optimizer: Optimizer) -> int:
    """How many state vectors as long as a row an optimizer keeps."""
    return sum(state.per_value for state in optimizer.states)


def kind_of(store: Store) -> Kind:
    """The kind of a store."""
    dim = store.layout.embedding_dim
    return store.form, block_of(dim), block_of(dim) == dim


def write(kinds: Sequence[Kind]) -> str:
    """`inspect_all` and `update_all`: a branch for each kind of store."""
    begin = "    words, tile = tile_of_part(words, tiles, num_first, num)\n    kind = tl.load(words + PART_KIND)"
    head = "words, tiles, num_first, num"
    lines = ["@kernel", f"def inspect_all({head}, marks, barred, told, SKIPS: tl.constexpr):", begin]
    for k, (_, values, exact) in enumerate(kinds):
        own = f"BLOCK={ELEMENTS // values}, VALUES={values}, EXACT={exact}"
        lines += [f"    if kind == {k}:", f"        inspect_of(words, tile, marks, barred, told, SKIPS=SKIPS, {own})"]
    constants = "RULE: tl.constexpr, V: tl.constexpr"
    lines += ["", "", "@kernel", f"def update_all({head}, scalars, marks, {constants}):", begin]
    for k, (form, values, exact) in enumerate(kinds):
        own = f"RULE=RULE, V=V, FORM={form}, BLOCK={ELEMENTS // values}, VALUES={values}, EXACT={exact}"
        lines += [f"    if kind == {k}:", f"        update_of(words, tile, scalars, marks, {own})"]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Part:
    """What the rows of one store learn.

    first: the number of its first table among all.   rows: int64 [U], distinct; -1: none.   tables: int32 [U], of the
    store.   grads: float32 [U, D].   most: what a gradient may be.
    """

    store: Store
    optimizer: Optimizer
    first: int
    rows: Rows
    tables: torch.Tensor
    grads: torch.Tensor
    most: float


@dataclass(frozen=True)
class Plan:
    """Parts as kernels read them. parts: rule by rule.   words: int64 [P, 16], and what is before each part's tiles
    among all, and among those of its rule, [P] each.   marks: int8 [U], 1 where a row learns nothing.
    """

    parts: tuple[Part, ...]
    words: npt.NDArray[np.int64]
    placed: torch.Tensor
    marks: torch.Tensor
    kinds: tuple[Kind, ...]

    @staticmethod
    def of(parts: Sequence[Part], stores: Sequence[Store], device: torch.device) -> Plan:
        """A plan; `inspect` writes its marks. stores: all that ever learn: code is the same whichever do now."""
        ordered = tuple(replace(part, grads=_aligned(part.grads)) for part in sorted(parts, key=_rule))
        kinds = tuple(sorted({kind_of(store) for store in stores}))
        firsts = accumulate((len(part.rows) for part in ordered), initial=0)
        words = np.zeros((len(ordered), PART_WORDS), np.int64)
        for own, part, first in zip(words, ordered, firsts, strict=False):
            blocks, shift, row_bytes = part.store.rows_at
            own[:12] = (
                *(blocks.data_ptr(), shift, row_bytes, part.store.layout.embedding_dim, part.store.places.states),
                *(part.rows.data_ptr(), part.tables.data_ptr(), part.grads.data_ptr(), len(part.rows)),
                *(first, part.first, kinds.index(kind_of(part.store))),
            )
            own[12:13].view(np.float64)[0] = part.most
        total = sum(len(part.rows) for part in ordered)
        marks = torch.empty(total, dtype=torch.int8, device=device)
        return Plan(ordered, words, _placed(ordered, words, device), marks, kinds)

    def with_grads(self, grads: Sequence[torch.Tensor]) -> Plan:
        """The same with other gradients."""
        parts = tuple(replace(part, grads=_aligned(own)) for part, own in zip(self.parts, grads, strict=True))
        words = self.words.copy()
        words[:, GRADS] = [part.grads.data_ptr() for part in parts]
        return replace(self, parts=parts, words=words, placed=_placed(parts, words, self.marks.device))

    def marks_of(self) -> list[torch.Tensor]:
        """The marks of each part."""
        return list(self.marks.split([len(part.rows) for part in self.parts]))

    # --- launches ---------------------------------------------------------------------------------------------------
    def inspect(self, barred: torch.Tensor, *, skips: bool) -> torch.Tensor:
        """Mark rows; int32 [1 + T]: whether any gradient is more than it may be, and which tables change.

        barred: bool [T], tables whose rows stand still.   skips: rows with such a gradient learn nothing.
        """
        told = torch.zeros(1 + len(barred), dtype=torch.int32, device=self.marks.device)
        self._launch("inspect_all", 0, len(self.parts), 0, self.marks, barred, told, SKIPS=skips)
        return told

    def update(self, scalars: torch.Tensor) -> None:
        """One step of its optimizer's rule for each row that is not marked.

        scalars: float32 [T, NUM_SCALARS], by which tables of one rule differ.
        """
        assert scalars.shape[1] == NUM_SCALARS
        first = 0
        for (rule, vectors), own in groupby(self.parts, _rule):
            count = len(list(own))
            self._launch("update_all", first, count, 1, scalars, self.marks, RULE=rule, V=vectors)
            first += count

    def _launch(self, name: str, first: int, count: int, tiles: int, *given: Any, **constants: Any) -> None:
        words, *before = self.placed.split([PART_WORDS * len(self.parts), *[len(self.parts)] * 2])
        programs = sum(_tiles(part) for part in self.parts[first : first + count])
        run = written(FILES, write, self.kinds, self.marks.device.type)
        run.launch(name, programs, words, before[tiles], first, count, *given, **constants, num_warps=WARPS)


def _aligned(grads: torch.Tensor) -> torch.Tensor:
    """Gradients where they can be read 16 bytes at a time."""
    return grads.clone() if grads.data_ptr() % ALIGNMENT else grads


def _rule(part: Part) -> tuple[str, int]:
    return part.optimizer.loop, vectors_of(part.optimizer)


def _tiles(part: Part) -> int:
    """Programs of a part."""
    return -(-len(part.rows) // (ELEMENTS // block_of(part.store.layout.embedding_dim)))


def _placed(parts: Sequence[Part], words: npt.NDArray[np.int64], device: torch.device) -> torch.Tensor:
    """The words of a plan on the device."""
    among_all = list(accumulate((_tiles(part) for part in parts), initial=0))[:-1]
    of_rule: list[int] = []
    for _, own in groupby(parts, _rule):
        of_rule += list(accumulate((_tiles(part) for part in own), initial=0))[:-1]
    return upload(np.concatenate([words.reshape(-1), among_all, of_rule]).astype(np.int64), device)
