"""Colonnade: every embedding column of a recommendation model in one fused kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colonnade.compiler import compile, load
    from colonnade.executable import Executable

from colonnade.version import __version__

__all__ = ["Executable", "__version__", "compile", "load"]


def __getattr__(name: str) -> Any:
    """The public names, imported when they are first used: `import colonnade` alone stays light."""
    if name not in __all__:
        raise AttributeError(f"module 'colonnade' has no attribute {name!r}")
    from colonnade import compiler, executable

    return getattr(executable if name == "Executable" else compiler, name)
