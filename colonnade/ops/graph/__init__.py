"""Graph ops, one a file: whole tensors, shaped like the source framework's."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from colonnade.ops.op import GRAPH_OPS, GraphOp


@functools.cache
def load() -> dict[str, type[GraphOp]]:
    """Import every graph op file and give the registry."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return GRAPH_OPS
