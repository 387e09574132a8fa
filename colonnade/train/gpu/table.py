"""A table on a device as its user sees it.   Legend: N ids, U distinct ids, D embedding_dim."""

from __future__ import annotations

import torch

from colonnade.train.gpu.store import Rows, Store
from colonnade.train.tables.checks import check_distinct, check_ids, check_values


class DeviceTable:
    """What `DynamicTable` is on the CPU. Facts: ids and values may lie anywhere; what is given lies on the device."""

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

    def ids(self) -> torch.Tensor:
        """The ids that have a row, in the rows' order."""
        return self.store.ids(self.store.rows_of(self.number))

    def read(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`[N, D]` float32 rows, the default for an id without one, and which ids have one. Facts: changes nothing."""
        distinct, inverse = self._flat(ids).unique(return_inverse=True)
        keys = self.store.keys(self.number, distinct)
        rows = self.store.find(keys)
        return self.store.gather(keys, rows)[inverse], rows[inverse] >= 0

    def write(self, ids: torch.Tensor, values: torch.Tensor) -> None:
        """Set the rows of distinct ids, to `[N, D]` values; a row that is made has a new optimizer's state.

        Errors: ShapeError for values that do not fit or ids that repeat; BudgetError. Nothing is changed then.
        """
        flat = self._flat(ids)
        check_values(self.name, values, len(flat), self.embedding_dim)
        check_distinct(self.name, len(flat.unique()), len(flat))
        keys = self.store.keys(self.number, flat)
        rows = self.store.find(keys)
        self.store.insert(keys, rows)
        self.store.set_values(rows, values.detach().to(self.dtype))

    def delete(self, ids: torch.Tensor) -> int:
        """Remove the rows of ids; gives how many there were."""
        there = self._rows(self._flat(ids).unique())
        there = there[there >= 0]
        self.store.remove(there)
        return len(there)

    def clear(self) -> None:
        """Remove every row."""
        self.store.remove(self.store.rows_of(self.number))

    def _rows(self, ids: torch.Tensor) -> Rows:
        return self.store.find(self.store.keys(self.number, ids))

    def _flat(self, ids: torch.Tensor) -> torch.Tensor:
        check_ids(self.name, ids)
        return ids.detach().to(self.store.device).contiguous()
