"""The registry of loops that Python calls: functions of addresses and sizes, all int64, that give an int64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from colonnade.backends.memory import kernel

F = TypeVar("F", bound=Callable[..., Any])

ENTRIES: dict[str, Any] = {}
"""The loops that are compiled, by name."""


def entry(function: F) -> F:
    """Compile a function as a kernel that Python calls by its name."""
    made = kernel(function)
    add_entry(function.__name__, made)
    return made


def add_entry(name: str, made: Any) -> None:
    """A kernel that Python calls by a name."""
    assert name not in ENTRIES, name
    ENTRIES[name] = made
