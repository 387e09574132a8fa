"""Models built once and kept."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from colonnade.testing.models.recipes import recipe

CACHE = Path(".cache") / "models"


def cached(name: str, root: Path = CACHE) -> Path:
    """The folder of the named model, built on first use as `<root>/<name>-<digest of the spec>`.

    Facts: safe when several processes start at once: each builds under a temporary name, the first to rename wins.
    """
    made_by = recipe(name)
    path = root / f"{name}-{made_by.digest}"
    if path.exists():
        return path
    root.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=root))
    try:
        made = made_by.build(temporary / "model")
        try:
            os.rename(made, path)
        except OSError:
            if not path.exists():
                raise
    finally:
        shutil.rmtree(temporary)
    return path
