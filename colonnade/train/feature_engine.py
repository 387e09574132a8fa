"""`FeatureEngine`: fields of a batch in, the numbers a network begins with out. Features, tables, and what joins them.

Legend: B batch rows; F embedded features; N ids of all features; D embedding_dim; L length of a padded row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from colonnade.core.eager import uncompiled
from colonnade.core.fork import in_one_thread
from colonnade.core.quantize import encode
from colonnade.core.ragged import Ragged
from colonnade.errors import OptionError, listed
from colonnade.frontends.feature import Embedding, Feature
from colonnade.frontends.feature_program import program_of
from colonnade.frontends.feature_set import FeatureSet
from colonnade.ir.program import Program, Weights
from colonnade.ir.text import consts_of
from colonnade.train import feature_tables
from colonnade.train.engine import EmbeddingEngine, EmbeddingFeature, problems
from colonnade.train.features.fused import FusedTransform
from colonnade.train.features.transformed import LookedUp, Transformed
from colonnade.train.gradients import GradientPolicy
from colonnade.train.ids import PackedIds, check_count, elements_of
from colonnade.train.initializers import Initializer
from colonnade.train.optimizers import Optimizer
from colonnade.train.ragged_rows import RaggedRows
from colonnade.train.table_config import TableConfig

if TYPE_CHECKING:  # a module of Triton, which a CPU does without
    from colonnade.train.features.gpu import DeviceBatch, GpuTransform


class FeatureEngine(torch.nn.Module):
    """Transforms the fields of a batch, and looks up and pools what the features declare.

    outputs: by name, the features whose rows and numbers are concatenated (None: one output a feature, of its name).
    tables: whole configurations, by name, of tables of which more is to be said than features do.
    optimizer, initializer: of tables that say none.   transform_device: where fields are transformed, "cpu" or None:
    where outputs lie.   others: as of `EmbeddingEngine`.
    Errors: OptionError that lists all that does not fit together.
    """

    def __init__(
        self,
        features: FeatureSet,
        outputs: Mapping[str, Sequence[str]] | None = None,
        *,
        tables: Mapping[str, TableConfig] | None = None,
        optimizer: Optimizer | None = None,
        initializer: Initializer | None = None,
        seed: int = 0,
        gradients: GradientPolicy | None = None,
        budget: int | None = None,
        evict_every: int = 0,
        transform_device: str | None = None,
    ) -> None:
        super().__init__()
        self.features, self.transform_device = features, transform_device
        self._by_name = {f.name: f for f in features.features}
        given = [f.name for f in features.features if f.embedding is not None or f.is_dense]
        self.outputs = {name: (name,) for name in given} if outputs is None else dict(outputs)
        usual = feature_tables.Usual.of(optimizer, initializer)
        configs, wrong = feature_tables.configs(features, tables or {}, usual)
        wrong += self._problems()
        if transform_device not in (None, "cpu"):
            wrong.append(f"transform_device {transform_device!r}, want 'cpu', or None: where outputs lie")
        looked_up = [] if wrong else self._looked_up(configs)
        pooled = {
            name: kept for name, names in self.outputs.items() if (kept := [n for n in names if self._embedding(n)])
        }
        wrong += [] if wrong else problems(looked_up, pooled)
        if wrong:
            raise OptionError("features and tables that do not fit together", got=listed(wrong))
        self._on_device: GpuTransform | None = None
        self.embedding = EmbeddingEngine(
            looked_up, pooled, seed=seed, gradients=gradients, budget=budget, evict_every=evict_every
        )

        self._wanted = self._looked_at()
        self._runs = {
            name: self._runs_of(names) for name, names in self.outputs.items() if not self._is_alone(names[0])
        }

    @cached_property
    def transform(self) -> FusedTransform:
        """The transform on the CPU, whose loops are compiled when it is first asked for."""
        return FusedTransform(self.features)

    def __reduce__(self) -> str:
        """Errors: OptionError. Compiled transforms belong to their process."""
        raise OptionError(
            "an engine of features is neither copied nor pickled",
            help="make one of the same features, and load this one's state_dict() into it",
        )

    def _runs_of(self, names: Sequence[str]) -> list[tuple[list[str], int, int]]:
        """Neighbours of an output that are dense, or are not: from which column of its pooled rows to which."""
        made, at = [], 0
        for _, run in itertools.groupby(names, lambda name: self._embedding(name) is None):
            members = list(run)
            width = sum(e.embedding_dim for n in members if (e := self._embedding(n)) is not None)
            made.append((members, at, at + width))
            at += width
        return made

    def _looked_at(self) -> LookedUp:
        """What is taken of a transform: all ids, the numbers and the rows of sequences that outputs hold."""
        used = {name for names in self.outputs.values() for name in names}
        numbers, wanted = [], []
        for k, feature in enumerate(self.features.features):
            if feature.embedding is not None:
                numbers.append(k)
            if feature.name in used and (feature.is_dense or self._is_alone(feature.name)):
                wanted.append(k)
        lists = tuple(f for f, feature in enumerate(self.embedding.features) if feature.lists)
        return LookedUp(np.array(numbers, np.int64), lists, tuple(wanted))

    def _embedding(self, name: str) -> Embedding | None:
        return self._by_name[name].embedding if name in self._by_name else None

    def _looked_up(self, configs: Mapping[str, TableConfig]) -> list[EmbeddingFeature]:
        made = []
        for feature in self.features.features:
            if feature.embedding is not None:
                pooling = "none" if feature.embedding.pooling == "tile" else feature.embedding.pooling
                lists = self._levels(feature) == 2 and pooling != "none"
                made.append(EmbeddingFeature(feature.name, configs[feature.embedding.table], pooling, lists))
        return made

    def _levels(self, feature: Feature) -> int:
        return self.features.known(feature.expr).rows.levels

    def _problems(self) -> Iterator[str]:
        for feature in self.features.features:
            if feature.embedding is not None and feature.embedding.length and self._levels(feature) == 2:
                yield f"feature {feature.name!r}: rows of lists have no length that they are padded to"
        for output, names in self.outputs.items():
            if not names:
                yield f"output {output!r}: no features"
            for name in names:
                if name not in self._by_name:
                    yield f"output {output!r}: no feature {name!r}"
                elif self._embedding(name) is None and not self._by_name[name].is_dense:
                    yield f"output {output!r}: feature {name!r} is neither embedded nor dense"
            alone = [n for n in names if self._is_alone(n)]
            if alone and len(names) > 1:
                yield f"output {output!r}: {alone} have a row for each element or list and cannot be concatenated"

    def _is_alone(self, name: str) -> bool:
        embedding = self._embedding(name)
        return embedding is not None and (
            embedding.pooling in ("none", "tile") or self._levels(self._by_name[name]) == 2
        )

    # --- forward ----------------------------------------------------------------------------------------------------
    @uncompiled
    @in_one_thread
    def forward(self, batch: Mapping[str, Any] | Transformed | DeviceBatch) -> dict[str, Any]:
        """The outputs by name: `[B, W]`; of a sequence `[B, L, D]` or `RaggedRows`; of a tile `[B, L D]`.

        batch: the fields, what `device_transform().put` brought to the device of them, or what a transform made.
        Errors: FeedError that lists every field that does not fit; BudgetError; as of `device_transform`.
        """
        packed, found = self.packed(batch)
        rows = self.embedding.lookup(packed)
        return {name: self._output(name, names, rows, found) for name, names in self.outputs.items()}

    @uncompiled
    @in_one_thread
    def packed(self, batch: Mapping[str, Any] | Transformed | DeviceBatch) -> tuple[PackedIds, Transformed]:
        """The ids that are looked up, and what else the outputs hold. Errors: FeedError; as of `device_transform`."""
        if isinstance(batch, Transformed):
            return self._packed(batch), batch
        on_device = self.device_transform()
        if on_device is not None:
            return on_device.packed(batch, self._wanted)
        return self.transform.packed(cast(Mapping[str, Any], batch), self._wanted)

    def device_transform(self) -> GpuTransform | None:
        """The transform on the device where outputs lie; None where fields are transformed on the CPU.

        Errors: FeatureError that lists every feature that cannot be computed there.
        """
        if self.transform_device == "cpu" or self.embedding.output_device.type == "cpu":
            return None
        if self._on_device is None:
            from colonnade.train.features.gpu import GpuTransform

            self._on_device = GpuTransform(self.features)
        return self._on_device

    def _packed(self, found: Transformed) -> PackedIds:
        """The ids where the transform has put them. Errors: FeedError where they are too many."""
        check_count(len(found.ids))
        given = [found.sparse[f.name] for f in self.embedding.features]
        first = found.ids.storage_offset()
        starts = [x.values.storage_offset() - first if len(x.values) else 0 for x in given]
        device = found.ids.device
        begins = torch.tensor(starts, dtype=torch.int64, device=device)
        offsets = torch.stack([elements_of(x) for x in given]).add_(begins[:, None])
        weighted = tuple(x.weights is not None for x in given)
        weights = _weights(given, starts, len(found.ids)) if any(weighted) else None
        lists = {
            f: x.offsets[1] + starts[f]
            for f, x in enumerate(given)
            if x.levels == 2 and self.embedding.features[f].lists
        }
        return PackedIds(found.ids, offsets, weights, weighted, lists)

    def _output(
        self, name: str, names: Sequence[str], rows: Mapping[str, torch.Tensor], found: Transformed
    ) -> torch.Tensor | RaggedRows:
        if name not in self._runs:
            return self._sequence(names[0], rows[name], found)
        parts: list[torch.Tensor] = []
        device = self.embedding.output_device
        for run, begin, end in self._runs[name]:
            parts += [found.dense[n].to(device) for n in run] if end == begin else [rows[name][:, begin:end]]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    def _sequence(self, name: str, values: torch.Tensor, found: Transformed) -> torch.Tensor | RaggedRows:
        embedding, ids = self._embedding(name), found.sparse[name]
        assert embedding is not None
        pooled = embedding.pooling not in ("none", "tile")
        offsets = tuple(x.to(values.device) for x in (ids.offsets[:1] if pooled else ids.offsets))
        made = RaggedRows(values, offsets)
        if embedding.length is None:
            return made
        padded = made.padded(embedding.length, name)
        return padded.flatten(1) if embedding.pooling == "tile" else padded

    # --- backward ---------------------------------------------------------------------------------------------------
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget what was learned since the last step. Facts: a backward pass that is yet to come is not forgotten."""
        self.embedding.zero_grad(set_to_none)

    def step(self, scale: float = 1.0) -> bool:
        """As of `EmbeddingEngine`. Errors: GradientError, OptionError; before anything is changed."""
        return self.embedding.step(scale)

    # --- serving ----------------------------------------------------------------------------------------------------
    @uncompiled
    @in_one_thread
    def served(self, rows: Mapping[str, int]) -> tuple[Program, Weights]:
        """A program of the features, one output each, and the tables' rows 0 to below `rows[table]` as they are now.

        Facts: an id without a row has the table's default, as in eval mode.
        Errors: FeatureError that lists every feature that no column can be, with the reason.
        """
        program = program_of(self.features, rows)
        tables = {}
        for table in self.features.tables:
            values, _ = self.embedding.table(table.name).read(torch.arange(rows[table.name]))
            values = values.cpu()
            tables[table.name] = values.numpy() if table.dtype == "float32" else encode(values.numpy(), table.dtype)
        return program, Weights(tables, {}, consts_of(program))


def _weights(given: Sequence[Ragged], starts: Sequence[int], count: int) -> torch.Tensor:
    made = torch.ones(count, dtype=torch.float32, device=given[0].values.device)
    for x, start in zip(given, starts, strict=True):
        if x.weights is not None:
            made[start : start + len(x.weights)] = x.weights
    return made
