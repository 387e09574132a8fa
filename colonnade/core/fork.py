"""What a child of `fork` may rely on: locks that are free, and torch in one thread."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


class Lock:
    """A mutual exclusion. Facts: free in a child of `fork`, whoever of the parent's threads held it."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Free again, in a process that has no other thread."""
        self._lock = threading.Lock()


class _Process:
    """forked: whether it is a child of `fork` of a process that had imported this module."""

    forked = False


_LOCKS: weakref.WeakSet[Lock] = weakref.WeakSet()
PROCESS = _Process()


def _after_fork() -> None:
    PROCESS.forked = True
    for lock in list(_LOCKS):
        lock.renew()


os.register_at_fork(after_in_child=_after_fork)


def in_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whose torch calls take one thread in a child of `fork`.

    Facts: torch's other threads do not live in a child, and its runtime waits for them forever.
    """

    @functools.wraps(function)
    def run(*args: P.args, **options: P.kwargs) -> R:
        if not PROCESS.forked:
            return function(*args, **options)
        threads = torch.get_num_threads()  # of this very thread: OpenMP counts for each
        torch.set_num_threads(1)
        try:
            return function(*args, **options)
        finally:
            torch.set_num_threads(threads)

    return run
