"""A table as its user sees it: rows by id.

Legend: N ids, U distinct ids, D embedding_dim.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.core.eager import uncompiled
from colonnade.core.fork import in_one_thread
from colonnade.train.tables.checks import check_distinct, check_ids, check_values
from colonnade.train.tables.store import CARRIER, Ids, Keys, Rows, Store

Array = npt.NDArray[Any]


class DynamicTable:
    """The rows of one table of a store, by id.

    Facts: any int64 is an id. Rows that are written by hand are made where they are missing, whatever the table admits.
    """

    def __init__(self, name: str, store: Store, number: int) -> None:
        self.name = name
        self.store, self.number = store, number
        self.dtype: torch.dtype = getattr(torch, store.layout.dtype)

    def __len__(self) -> int:
        return self.store.num_rows_of(self.number)

    @property
    def embedding_dim(self) -> int:
        """Values of a row."""
        return self.store.layout.embedding_dim

    @uncompiled
    @in_one_thread
    def ids(self) -> torch.Tensor:
        """The ids that have a row, in the rows' order."""
        return torch.from_numpy(self.store.ids(self.store.rows_of(self.number)))

    @uncompiled
    @in_one_thread
    def read(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`[N, D]` float32 rows, the default for an id without one, and which ids have one. Facts: changes nothing."""
        distinct, inverse = self._distinct(ids)
        keys, rows = self._find(distinct)
        values = torch.from_numpy(self.store.gather(keys, rows)[inverse])
        return values, torch.from_numpy(rows[inverse] >= 0)

    @uncompiled
    @in_one_thread
    def write(self, ids: torch.Tensor, values: torch.Tensor) -> None:
        """Set the rows of distinct ids, to `[N, D]` values; a row that is made has a new optimizer's state.

        Errors: ShapeError for values that do not fit or ids that repeat; BudgetError. Nothing is changed then.
        """
        keys, stored = self._written(ids, values)
        _, rows = self._made(keys)
        self.store.set_values(rows, stored)

    @uncompiled
    @in_one_thread
    def delete(self, ids: torch.Tensor) -> int:
        """Remove the rows of ids; gives how many there were."""
        _, rows = self._find(self._distinct(ids)[0])
        there = rows[rows >= 0]
        self.store.remove(there)
        return len(there)

    @uncompiled
    @in_one_thread
    def clear(self) -> None:
        """Remove every row."""
        self.store.remove(self.store.rows_of(self.number))

    def _distinct(self, ids: torch.Tensor) -> tuple[Ids, Array]:
        flat = self._flat(ids)
        distinct, inverse = np.unique(flat, return_inverse=True)
        return distinct, inverse

    def _flat(self, ids: torch.Tensor) -> Ids:
        check_ids(self.name, ids)
        return ids.detach().contiguous().numpy()

    def _find(self, ids: Ids) -> tuple[Keys, Rows]:
        keys = self.store.keys(self.number, ids)
        return keys, self.store.find(keys)[0]

    def _made(self, ids: Ids) -> tuple[Keys, Rows]:
        keys, rows = self._find(ids)
        self.store.insert(keys, rows)
        return keys, rows

    def _written(self, ids: torch.Tensor, values: torch.Tensor) -> tuple[Ids, Array]:
        """The ids, which are distinct, and the values as they are stored."""
        flat = self._flat(ids)
        check_values(self.name, values, len(flat), self.embedding_dim)
        check_distinct(self.name, len(np.unique(flat)), len(flat))
        stored = values.detach().to(self.dtype).contiguous()
        carrier = CARRIER[self.store.layout.dtype]
        raw: Array = stored.view(torch.int16).numpy() if self.dtype == torch.bfloat16 else stored.numpy()
        return flat, raw.view(carrier)
