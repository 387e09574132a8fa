"""What each column op writes, one op a file. Importing this package registers them all."""

from __future__ import annotations

import importlib
import pkgutil

__all__ = sorted(module.name for module in pkgutil.iter_modules(__path__))

for _name in __all__:
    importlib.import_module(f"{__name__}.{_name}")
