"""Optimizers' steps on a device's rows.   Legend: U rows; D embedding_dim."""

from __future__ import annotations

import torch

from colonnade.train.gpu.module import kernels
from colonnade.train.gpu.store import Rows, Store, block_of
from colonnade.train.loops.update import NUM_SCALARS
from colonnade.train.optimizers import Optimizer

ELEMENTS = 512
"""Values that a program has in hand."""


def vectors_of(optimizer: Optimizer) -> int:
    """How many state vectors as long as a row an optimizer keeps."""
    return sum(state.per_value for state in optimizer.states)


def update(
    store: Store, optimizer: Optimizer, rows: Rows, tables: torch.Tensor, grads: torch.Tensor, scalars: torch.Tensor
) -> None:
    """One step of an optimizer's rule for each row that is not -1.

    rows: int64 [U], distinct.   tables: int32 [U].   grads: float32 [U, D].   scalars: float32 [tables, NUM_SCALARS],
    by which tables of one rule differ.
    """
    assert scalars.shape[1] == NUM_SCALARS
    dim = store.layout.embedding_dim
    values = block_of(dim)
    block = ELEMENTS // values
    kernels(store.device.type, "update").launch(
        "update", -(-len(rows) // block), *store.rows_at, rows, tables, grads.contiguous(), scalars, len(rows), dim,
        store.places.states, RULE=optimizer.loop, V=vectors_of(optimizer), FORM=store.form, BLOCK=block, VALUES=values,
    )  # fmt: skip
