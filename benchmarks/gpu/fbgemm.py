"""FBGEMM's table-batched embedding as a yardstick, where it is installed: lookups and training steps, ids ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from colonnade.testing.timing import Call


@dataclass(frozen=True)
class Lookup:
    """One call a set of ids; what the i-th gave lies at `outputs[i]`."""

    calls: list[Call]
    outputs: list[torch.Tensor]


def one_row_lookup(tables: Sequence[torch.Tensor], ids: Sequence[torch.Tensor]) -> Lookup | None:
    """One row of every table for every batch row; ids are [T, B] each. None without FBGEMM or a CUDA device."""
    if not tables[0].is_cuda:
        return None
    module = _module([tuple(t.shape) for t in tables], range(len(tables)))
    if module is None:
        return None
    _load(module, tables)
    return _lookup(module, [(i.reshape(-1), torch.arange(i.numel() + 1, device=i.device)) for i in ids])


def ragged_lookup(
    tables: Sequence[torch.Tensor], feature_tables: Sequence[int], sets: Sequence[tuple[torch.Tensor, torch.Tensor]]
) -> Lookup | None:
    """Sums over ragged rows; a set is (ids [N], offsets [F * B + 1]), features in the order of their tables."""
    if not tables[0].is_cuda:
        return None
    module = _module([tuple(t.shape) for t in tables], feature_tables)
    if module is None:
        return None
    _load(module, tables)
    return _lookup(module, sets)


@dataclass(frozen=True)
class Training:
    """Steps with exact Adagrad. sets: (ids [N], offsets [F * B + 1], weights [N]) each.

    places: of each column of the caller's outputs, the column of the module's.
    """

    module: Any
    sets: Sequence[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
    places: torch.Tensor

    def forward(self, k: int) -> torch.Tensor:
        """`[B, W]`, in the module's order."""
        ids, offsets, weights = self.sets[k]
        found: torch.Tensor = self.module(ids, offsets, weights)
        return found

    def step(self, k: int, grad: torch.Tensor) -> None:
        """Learn from a batch, the gradient in the module's order."""
        self.forward(k).backward(grad)

    def ordered(self, output: torch.Tensor) -> torch.Tensor:
        """An output in the caller's order."""
        return output[:, self.places]

    def reordered(self, grad: torch.Tensor) -> torch.Tensor:
        """A gradient of the caller's in the module's order."""
        own = torch.empty_like(grad)
        own[:, self.places] = grad
        return own


def training(
    tables: Sequence[torch.Tensor],
    feature_tables: Sequence[int],
    sets: Sequence[tuple[torch.Tensor, torch.Tensor, torch.Tensor]],
    places: torch.Tensor,
    *,
    rate: float,
    eps: float,
) -> Training | None:
    """Weighted sums over ragged rows, features in the order of their tables. None without FBGEMM or a CUDA device."""
    if not tables[0].is_cuda:
        return None
    module = _module([tuple(t.shape) for t in tables], feature_tables, optimizer="EXACT_ADAGRAD", rate=rate, eps=eps)
    if module is None:
        return None
    _load(module, tables)
    return Training(module.train(), sets, places)


def _module(
    shapes: Sequence[tuple[int, ...]],
    feature_tables: Sequence[int],
    *,
    optimizer: str = "EXACT_ROWWISE_ADAGRAD",
    rate: float = 0.1,
    eps: float = 1e-8,
) -> Any:
    try:
        from fbgemm_gpu.split_embedding_configs import EmbOptimType  # type: ignore[import-not-found]
        from fbgemm_gpu.split_table_batched_embeddings_ops_training import (  # type: ignore[import-not-found]
            ComputeDevice,
            EmbeddingLocation,
            SplitTableBatchedEmbeddingBagsCodegen,
        )
    except ImportError:
        return None
    specs = [(rows, dim, EmbeddingLocation.DEVICE, ComputeDevice.CUDA) for rows, dim in shapes]
    return SplitTableBatchedEmbeddingBagsCodegen(
        specs,
        feature_table_map=list(feature_tables),
        optimizer=EmbOptimType[optimizer],
        learning_rate=rate,
        eps=eps,
        device=torch.device("cuda"),
    ).eval()


def _load(module: Any, tables: Sequence[torch.Tensor]) -> None:
    with torch.no_grad():
        for own, table in zip(module.split_embedding_weights(), tables, strict=True):
            own.copy_(table)


def _lookup(module: Any, sets: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Lookup:
    outputs = [torch.empty(0)] * len(sets)

    def calling(i: int, ids: torch.Tensor, offsets: torch.Tensor) -> Callable[[], None]:
        def call() -> None:
            with torch.no_grad():
                outputs[i] = module(ids, offsets)

        return call

    return Lookup([calling(i, ids, offsets) for i, (ids, offsets) in enumerate(sets)], outputs)
