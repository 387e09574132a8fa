"""What a table's new rows are, by what its user says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colonnade.train.initializers.initializer import draw_key
from colonnade.train.table_config import TableConfig
from colonnade.train.tables.store import Fresh

HASH_SEED = -1
"""The map's hash keys are drawn as those of random numbers are, by a seed that no table has."""


def fresh_of(config: TableConfig, seed: int) -> Fresh:
    """The new rows of a table."""
    dim, key = config.embedding_dim, config.stable_key
    states = np.array(config.optimizer.fresh(dim), np.float32)
    draw = config.initializer.draw(dim)
    return Fresh(draw_key(HASH_SEED, key), draw_key(seed, key), draw, states, config.default)


def group_name(configs: Sequence[TableConfig]) -> str:
    """Tables that share a store, in messages."""
    return "tables " + ", ".join(repr(config.name) for config in configs[:3]) + (", ..." if len(configs) > 3 else "")
