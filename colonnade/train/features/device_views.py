"""The results of a transform on a device as views of the memory that it wrote.

Legend: B batch rows, V values (fields, then nodes).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.gpu.transform import words as w
from colonnade.backends.gpu.transform.arrange import Arranged, Span
from colonnade.backends.gpu.transform.plan import DENSE, FLOAT64, IDS, Plan, lists_truncated, root_of, rows_of
from colonnade.core.ragged import Ragged
from colonnade.train.features.device_batch import Held
from colonnade.train.features.transformed import Transformed, views_of

Words = npt.NDArray[np.int64]
Offsets = tuple[torch.Tensor, ...]


class Views:
    """Makes them; what no batch changes is found once.

    roots: of each output the value whose rows it has.   is_integer, weighted: of each output.
    first_begin: the first of the words of `out` that say where the ids of each integer output begin.
    begins: of each output which of these is its own.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        numbers = {e: k for k, e in enumerate(plan.values)}
        roots = [root_of(o.expr) for o in plan.outputs]
        self.roots = np.array([numbers[r] for r in roots], np.int64)
        self._lists = {numbers[n]: numbers[rows_of(n)] for n in plan.nodes}
        self._cut = {numbers[n] for n in plan.nodes if lists_truncated(n, plan.traits)}
        self.is_integer = np.array([o.kind == IDS for o in plan.outputs], bool)
        self.begins = np.cumsum(self.is_integer) - self.is_integer
        self.first_begin = 2 * len(plan.nodes)
        traits = [plan.traits(o.expr) for o in plan.outputs]
        self.weighted = np.array([t.weighted for t in traits], bool)
        self._widths = [t.width or 0 for t in traits]
        self._lent = [t.weighted and not o.own_weights for t, o in zip(traits, plan.outputs, strict=True)]

    def of(
        self, held: Held, arranged: Arranged, out: torch.Tensor, sizes: Words, which: Sequence[int] | None = None
    ) -> Transformed:
        """The features of a batch. sizes: elements, and lists where these are cut, of each node.   which: None: all."""
        data, rows = out.view(torch.uint8), held.rows
        counts = self.counts(held, sizes)
        ids = self.ids(arranged, out, int(counts[self.is_integer].sum()))
        values = self._values(ids, counts, which)
        chosen = range(len(self.roots)) if which is None else which
        used = {int(self.roots[k]) for k in chosen}
        offsets = {number: self.offsets_of(number, held, arranged, out, sizes) for number in used}
        sparse: dict[str, Ragged] = {}
        dense: dict[str, torch.Tensor] = {}
        for k in chosen:
            output, root, count = self._plan.outputs[k], int(self.roots[k]), int(counts[k])
            if output.kind == DENSE:
                width = self._widths[k]
                dense[output.name] = _view(data, arranged.values[k], torch.float32, rows * width).view(rows, width)
                continue
            if output.kind != IDS:
                dtype = torch.float64 if output.kind == FLOAT64 else torch.float32
                values[k] = _view(data, arranged.values[k], dtype, count)
            weights = held.weights[root] if self._lent[k] else None
            if output.own_weights:
                weights = _view(data, arranged.weights[k], torch.float32, count)
            sparse[output.name] = Ragged(values[k], offsets[root], weights)
        return Transformed(rows, sparse, dense, ids)

    def counts(self, held: Held, sizes: Words) -> Words:
        """Elements of each output."""
        found: Words = np.concatenate([held.words[:, w.COUNT], sizes[:, 0]])[self.roots]
        return found

    def starts(self, counts: Words) -> Words:
        """Where the ids of each integer output begin among all."""
        own = np.where(self.is_integer, counts, 0)
        found: Words = np.cumsum(own) - own
        return found

    def ids(self, arranged: Arranged, out: torch.Tensor, count: int) -> torch.Tensor:
        """The ids of all integer outputs."""
        return _view(out.view(torch.uint8), arranged.ids, torch.int64, count)

    def _values(self, ids: torch.Tensor, counts: Words, which: Sequence[int] | None) -> dict[int, torch.Tensor]:
        """The ids of each integer output that is asked for."""
        if which is None:
            own = np.flatnonzero(self.is_integer)
            return dict(zip(own.tolist(), views_of(ids, counts[own].tolist()), strict=True))
        starts = self.starts(counts)
        return {k: ids[int(starts[k]) : int(starts[k] + counts[k])] for k in which if self.is_integer[k]}

    def addresses(self, held: Held, arranged: Arranged, out: torch.Tensor) -> tuple[Words, Words]:
        """Of each value the address of its offsets, and of those that count its lists, or 0 where it has none."""
        num_fields, base = len(self._plan.fields), out.data_ptr()
        inner, outer = (np.zeros(len(self._plan.values), np.int64) for _ in range(2))
        inner[:num_fields] = held.words[:, w.INNER]
        outer[:num_fields] = held.outer
        for number, span in arranged.inner.items():
            inner[number] = base + span.begin
            lists = self._lists[number]
            if lists < num_fields:
                outer[number] = outer[lists]
            elif lists in self._cut:
                outer[number] = base + arranged.outer[lists].begin
        return inner, outer

    def offsets_of(self, number: int, held: Held, arranged: Arranged, out: torch.Tensor, sizes: Words) -> Offsets:
        """Those of a field, or of a node: its own, and those of the value whose lists it has."""
        data, num_fields = out.view(torch.uint8), len(self._plan.fields)
        if number < num_fields:
            return held.offsets[number]
        lists = self._lists[number]
        outer: Offsets = ()
        bags = held.rows
        if lists < num_fields:
            outer, bags = held.offsets[lists][:-1], int(held.words[lists, w.BAGS])
        elif lists in self._cut:
            outer = (_view(data, arranged.outer[lists], torch.int64, held.rows + 1),)
            bags = int(sizes[lists - num_fields, 1])
        return (*outer, _view(data, arranged.inner[number], torch.int64, bags + 1))


def _view(data: torch.Tensor, span: Span, dtype: torch.dtype, count: int) -> torch.Tensor:
    return data[span.begin : span.begin + count * span.item].view(dtype)
