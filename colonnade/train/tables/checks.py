"""What ids and values are held against before a table, wherever it lies, reads or writes rows by them."""

from __future__ import annotations

import torch

from colonnade.errors import ShapeError


def check_ids(name: str, ids: torch.Tensor) -> None:
    """Errors: ShapeError, unless they are a list of int64. name: of the table."""
    if ids.dtype != torch.int64 or ids.dim() != 1:
        got = f"{ids.dtype} {list(ids.shape)}"
        raise ShapeError("ids that are not a list of int64", where=f"table {name!r}", got=got, want="int64 [N]")


def check_values(name: str, values: torch.Tensor, count: int, embedding_dim: int) -> None:
    """Errors: ShapeError, unless they are rows for so many ids."""
    want = [count, embedding_dim]
    if list(values.shape) != want or not values.dtype.is_floating_point:
        got = f"{values.dtype} {list(values.shape)}"
        raise ShapeError(
            "values that are no rows of the table", where=f"table {name!r}", got=got, want=f"floats {want}"
        )


def check_distinct(name: str, distinct: int, count: int) -> None:
    """Errors: ShapeError, unless so many ids are all distinct."""
    if distinct != count:
        raise ShapeError("ids that repeat", where=f"table {name!r}", want="each id once, as it has one row")
