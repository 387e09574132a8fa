"""The ids of embedded features on a device as an engine looks them up, in two launches, whatever their number.

Legend: F embedded features; B batch rows; N ids of all features.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.gpu.transform import words as w
from colonnade.backends.gpu.transform.arrange import Arranged
from colonnade.train.features.device_batch import Held
from colonnade.train.features.device_views import Views
from colonnade.train.features.transformed import LookedUp
from colonnade.train.gpu.module import kernels, upload
from colonnade.train.ids import PackedIds, check_count

Words = npt.NDArray[np.int64]
BLOCK = 1024
INNER, OUTER, WEIGHTS, BEGIN = range(4)


class Join:
    """Makes them; what no batch changes is found once."""

    def __init__(self, views: Views, looked_up: LookedUp) -> None:
        self._views, self._looked_up = views, looked_up
        self._numbers = looked_up.numbers
        self._roots = views.roots[self._numbers]
        self._begins = views.begins[self._numbers]
        self._weighted = views.weighted[self._numbers]
        self.weighted = tuple(self._weighted.tolist())

    def of(self, held: Held, arranged: Arranged, out: torch.Tensor, sizes: Words) -> PackedIds:
        """The ids of a batch. sizes: as of `Views.of`.   Errors: FeedError on too many ids."""
        views = self._views
        counts = views.counts(held, sizes)
        total = int(counts[views.is_integer].sum())
        check_count(total)
        ids = views.ids(arranged, out, total)
        given = self._given(held, arranged, out)
        device, num = out.device, held.rows + 1
        words = upload(np.concatenate((given, given[self._weighted])), device)
        begins = out[views.first_begin :]
        offsets = torch.empty(len(given), num, dtype=torch.int64, device=device)
        run = kernels(device.type, "places", "join")
        if len(given):
            run.launch("join_offsets", (-(-num // BLOCK), len(given)), words, begins, offsets, num, BLOCK=BLOCK)
        weights = None
        if self._weighted.any():
            weights = torch.ones(total, dtype=torch.float32, device=device)
            most = int(counts[self._numbers][self._weighted].max())
            own = words[len(given) :]
            run.launch("join_weights", (-(-most // BLOCK), len(own)), own, begins, weights, BLOCK=BLOCK)
        starts = views.starts(counts)[self._numbers]
        lists = {
            f: views.offsets_of(int(self._roots[f]), held, arranged, out, sizes)[-1] + int(starts[f])
            for f in self._looked_up.lists
        }
        return PackedIds(ids, offsets, weights, self.weighted, lists)

    def _given(self, held: Held, arranged: Arranged, out: torch.Tensor) -> Words:
        inner, outer = self._views.addresses(held, arranged, out)
        given = np.zeros((len(self._roots), 4), np.int64)
        given[:, INNER], given[:, OUTER] = inner[self._roots], outer[self._roots]
        given[:, BEGIN] = self._begins
        for f in np.flatnonzero(self._weighted).tolist():
            own = arranged.weights.get(int(self._numbers[f]))
            if own is None:
                given[f, WEIGHTS] = held.words[self._roots[f], w.WEIGHTS]
            else:
                given[f, WEIGHTS] = out.data_ptr() + own.begin
        return given
