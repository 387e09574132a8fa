"""Tiles: the column ops in numba, one op a file, each with the way it is encoded."""

from __future__ import annotations

import functools
import importlib
import pkgutil


@functools.cache
def load() -> None:
    """Import every tile file, so that the registry is full."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
