"""FBGEMM's table-batched embedding on the CPU as a yardstick, where it is installed (`pip install fbgemm-gpu-cpu`).

Legend: F features; N ids of a batch; B batch rows; W width of all outputs.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from benchmarks.features import OpAtATime
from colonnade.frontends.feature_set import FeatureSet
from colonnade.train.features.transformed import Transformed

Ready = tuple[torch.Tensor, torch.Tensor]
NAME = "FBGEMM, ids ready"


def is_installed() -> bool:
    """Whether there is one to be measured."""
    return importlib.util.find_spec("fbgemm_gpu") is not None


class Fbgemm:
    """Sums of rows of dense tables by exact SGD.

    tables: [rows, D], one a feature, in their order, of ids from 0 on.
    """

    def __init__(self, features: FeatureSet, tables: Sequence[torch.Tensor], rate: float) -> None:
        from fbgemm_gpu.split_embedding_configs import EmbOptimType  # type: ignore[import-not-found]
        from fbgemm_gpu.split_table_batched_embeddings_ops_training import (  # type: ignore[import-not-found]
            ComputeDevice,
            EmbeddingLocation,
            SplitTableBatchedEmbeddingBagsCodegen,
        )

        self._transform = OpAtATime(features)
        self._names = [f.name for f in features.features]
        specs = [(*table.shape, EmbeddingLocation.HOST, ComputeDevice.CPU) for table in tables]
        self.module = SplitTableBatchedEmbeddingBagsCodegen(
            specs, optimizer=EmbOptimType.EXACT_SGD, learning_rate=rate, device=torch.device("cpu")
        )
        with torch.no_grad():
            for own, table in zip(self.module.split_embedding_weights(), tables, strict=True):
                own.copy_(table)

    def ready(self, batch: Mapping[str, Any]) -> Ready:
        """The ids of all features and where their rows begin: int64 [N], [F * B + 1]."""
        found: Transformed = self._transform(batch)
        ids = [found.sparse[name] for name in self._names]
        sizes = torch.cat([x.offsets[0].diff() for x in ids])
        return torch.cat([x.values for x in ids]), torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])

    def forward(self, ready: Ready) -> torch.Tensor:
        """[B, W]."""
        found: torch.Tensor = self.module(*ready)
        return found

    def gives(self, batch: Mapping[str, Any], want: torch.Tensor) -> bool:
        """Whether a batch has these outputs."""
        with torch.no_grad():
            return torch.allclose(self.forward(self.ready(batch)), want, rtol=1e-3, atol=1e-4)

    def learn(self, batch: Mapping[str, Any], grad: torch.Tensor) -> None:
        """A step."""
        self.forward(self.ready(batch)).backward(grad)

    def calls(
        self, batches: Sequence[Mapping[str, Any]], grads: Sequence[torch.Tensor], turn: Callable[[str], int]
    ) -> dict[str, dict[str, Callable[[], Any]]]:
        """By what is done, then by side: ids ready.   turn: of a side, the next batch's number."""
        ready = [self.ready(batch) for batch in batches]

        def forward() -> None:
            with torch.no_grad():
                self.forward(ready[turn(NAME)])

        def step() -> None:
            k = turn(NAME)
            self.forward(ready[k]).backward(grads[k])

        return {"forward": {NAME: forward}, "step": {NAME: step}}
