"""Pooling and its gradients by the compiled loops, on the CPU.

Legend: F features; B batch rows; N elements; U rows of a matrix; D embedding_dim; S segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.arena import Loans
from colonnade.backends.memory import address_of
from colonnade.train.compiled import LOOPS
from colonnade.train.loops import call as c
from colonnade.train.loops import feature as w
from colonnade.train.segments import LAYOUTS_KEPT, Layout

Array = npt.NDArray[Any]
CPU = torch.device("cpu")
"""Where memory lies, whatever the default device is."""
PARALLEL_BYTES = 1 << 20
"""So much is worth more than one thread."""
ITEMS_A_THREAD = 4
"""Parts of the batch rows that each thread has of the same features."""
LEAST_LENT, MOST_LENT = 1 << 20, 8
"""Bytes of a flat that is lent memory, and how many blocks a layout lends."""
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]
"""offsets: int64 [F, B + 1].   inverse: int32 [N].   weights: float32 [N]."""


class CpuPooling:
    """A layout as the loops read it, and what they are called with."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.loops = layout, LOOPS.warm()
        self._room = Loans(lambda size: np.empty(size, np.uint8), MOST_LENT)
        segments = layout.segments
        places = [layout.places[s.output] for s in segments]
        self._features = np.array(layout.features, np.int64)
        self._rows = np.array([s.rows for s in segments], np.int64)
        self._flats = np.array([flat for flat, _ in places], np.int64)
        self._columns = np.array([4 * column for _, column in places], np.int64)
        self._is_weighted = np.array([layout.weighted[f] if layout.weighted else False for f in layout.features], bool)
        self._dims = max((s.embedding_dim for s in segments), default=0)
        self._fixed = np.zeros((len(segments), w.FEATURE_BYTES // 8), np.int64)
        for word, values in (
            (w.DIM, [s.embedding_dim for s in segments]),
            (w.POOLING, [w.POOLINGS[s.pooling] for s in segments]),
            (w.STRIDE, [4 * layout.widths[s.output] for s in segments]),
            (w.OUT, [4 * s.at for s in segments]),
        ):
            self._fixed[:, word // 8] = values

    def empty(self, counts: Sequence[int]) -> list[torch.Tensor]:
        """Memory for flats of so many numbers; that of large ones is used again when nothing refers to them."""
        return [self._empty(count) for count in counts]

    def _empty(self, count: int) -> torch.Tensor:
        block = self._room.take(4 * count) if 4 * count >= LEAST_LENT else None
        if block is None:
            return torch.empty(count, dtype=torch.float32, device=CPU)
        return torch.from_numpy(block[: 4 * count].view(np.float32))

    def pool(self, batch: Batch, rows: Sequence[torch.Tensor], flats: Sequence[torch.Tensor]) -> None:
        """Write the outputs."""
        batch, rows = _plain(batch), [x.contiguous() for x in rows]
        self._run("pool", self._described(batch, rows, flats), batch)

    def spread(
        self,
        batch: Batch,
        rows: Sequence[torch.Tensor],
        flats: Sequence[torch.Tensor],
        given: Sequence[torch.Tensor | None],
        grads: Sequence[torch.Tensor],
        of_weights: torch.Tensor | None,
    ) -> None:
        """Add the gradient of the outputs to those of rows and weights. given: of each flat (None: none)."""
        batch, rows = _plain(batch), [x.contiguous() for x in rows]
        features = self._described(batch, rows, flats)
        known = [
            torch.zeros(0, dtype=torch.float32, device=CPU) if g is None else g.float().contiguous() for g in given
        ]
        features[:, w.GRADS // 8] = _addresses(grads)[self._rows]
        features[:, w.GRAD_OUT // 8] = _addresses(known)[self._flats] + self._places(batch)
        at = 0 if of_weights is None else of_weights.data_ptr()
        features[:, w.GRAD_WEIGHTS // 8] = np.where(features[:, w.WEIGHTS // 8] == 0, 0, at)
        features = features[np.array([g is not None for g in given], bool)[self._flats]]
        self._run("spread", features, batch)

    def _run(self, loop: str, features: Array, batch: Batch) -> None:
        """Run a loop on features, by as many threads as torch uses where there is enough to do."""
        rows = _batch(batch)
        threads = torch.get_num_threads() if 4 * self._dims * len(batch[1]) > PARALLEL_BYTES else 1
        share = -(-rows // (ITEMS_A_THREAD * threads))
        item_rows = max(w.TILE, share + -share % w.TILE)
        blocks = -(-len(features) // w.NEIGHBOURS)
        items = threads if loop == "spread" else blocks * -(-rows // item_rows)
        taken = np.empty((threads, max(self._dims, 1)), np.uint8)
        call = np.zeros(c.CALL_BYTES // 8, np.int64)
        for word, value in (
            (c.ITEMS, items),
            (c.FIRST_FEATURE, address_of(features)),
            (c.FEATURES, len(features)),
            (c.BATCH, rows),
            (c.ITEM_ROWS, item_rows),
            (c.TAKEN, address_of(taken)),
            (c.TAKEN_BYTES, taken.shape[1]),
        ):
            call[word // 8] = value
        self.loops.call(loop, call, threads)

    def _places(self, batch: Batch) -> Array:
        """Where each segment begins in its flat. Units: bytes."""
        found: Array = self._fixed[:, w.OUT // 8] + self._columns * _batch(batch)
        return found

    def _described(self, batch: Batch, rows: Sequence[torch.Tensor], flats: Sequence[torch.Tensor]) -> Array:
        offsets, inverse, weights = batch
        made = self._fixed.copy()
        made[:, w.ROWS // 8] = _addresses(rows)[self._rows]
        made[:, w.OFFSETS // 8] = offsets.data_ptr() + 8 * offsets.shape[1] * self._features
        made[:, w.INVERSE // 8] = inverse.data_ptr()
        made[:, w.OUT // 8] = _addresses(flats)[self._flats] + self._places(batch)
        if weights is not None:
            made[:, w.WEIGHTS // 8] = np.where(self._is_weighted, weights.data_ptr(), 0)
        return made


def _batch(batch: Batch) -> int:
    return batch[0].shape[1] - 1


def _plain(batch: Batch) -> Batch:
    offsets, inverse, weights = batch
    return offsets.contiguous(), inverse.contiguous(), None if weights is None else weights.contiguous()


def _addresses(tensors: Sequence[torch.Tensor]) -> Array:
    return np.array([tensor.data_ptr() for tensor in tensors], np.int64)


@lru_cache(maxsize=LAYOUTS_KEPT)
def cpu_pooling(layout: Layout) -> CpuPooling:
    """What pools by a layout."""
    return CpuPooling(layout)
