"""Column ops, one a file (and graph ops in `colonnade.ops.graph`)."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from colonnade.ops.op import COLUMN_OPS, ColumnOp


@functools.cache
def load() -> dict[str, type[ColumnOp]]:
    """Import every op file and give the registry of column ops."""
    for module in pkgutil.iter_modules(__path__):
        if not module.ispkg:
            importlib.import_module(f"{__name__}.{module.name}")
    return COLUMN_OPS
