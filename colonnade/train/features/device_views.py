"""The results of a transform on a device as views of the memory that it wrote.

Legend: B batch rows, V values (fields, then nodes).
"""

from __future__ import annotations

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
    """Makes them; what no batch changes is found once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        numbers = {e: k for k, e in enumerate(plan.values)}
        roots = [root_of(o.expr) for o in plan.outputs]
        self._roots = np.array([numbers[r] for r in roots], np.int64)
        self._used = sorted(set(self._roots.tolist()))
        self._lists = {numbers[n]: numbers[rows_of(n)] for n in plan.nodes}
        self._cut = {numbers[n] for n in plan.nodes if lists_truncated(n, plan.traits)}
        self._integers = np.array([o.kind == IDS for o in plan.outputs], bool)
        traits = [plan.traits(o.expr) for o in plan.outputs]
        self._widths = [t.width or 0 for t in traits]
        self._lent = [t.weighted and not o.own_weights for t, o in zip(traits, plan.outputs, strict=True)]

    def of(self, held: Held, arranged: Arranged, out: torch.Tensor, sizes: Words) -> Transformed:
        """The features of a batch. sizes: elements, and lists where these are cut, of each node."""
        data, rows = out.view(torch.uint8), held.rows
        counts = np.concatenate([held.words[:, w.COUNT], sizes[:, 0]])[self._roots]
        integers = counts[self._integers].tolist()
        ids = _view(data, arranged.ids, torch.int64, sum(integers))
        parts = iter(views_of(ids, integers))
        offsets = {number: self._offsets(number, held, arranged, data, sizes) for number in self._used}
        sparse: dict[str, Ragged] = {}
        dense: dict[str, torch.Tensor] = {}
        each = zip(self._plan.outputs, self._roots.tolist(), counts.tolist(), self._widths, self._lent, strict=True)
        for k, (output, root, count, width, is_lent) in enumerate(each):
            if output.kind == DENSE:
                dense[output.name] = _view(data, arranged.values[k], torch.float32, rows * width).view(rows, width)
                continue
            if output.kind == IDS:
                values = next(parts)
            else:
                dtype = torch.float64 if output.kind == FLOAT64 else torch.float32
                values = _view(data, arranged.values[k], dtype, count)
            weights = held.weights[root] if is_lent else None
            if output.own_weights:
                weights = _view(data, arranged.weights[k], torch.float32, count)
            sparse[output.name] = Ragged(values, offsets[root], weights)
        return Transformed(rows, sparse, dense, ids)

    def _offsets(self, number: int, held: Held, arranged: Arranged, data: torch.Tensor, sizes: Words) -> Offsets:
        """Those of a field, or of a node: its own, and those of the value whose lists it has."""
        num_fields = len(self._plan.fields)
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
