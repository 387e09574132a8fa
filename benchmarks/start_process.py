"""A process that `benchmarks.start` measures: nothing but the standard library is imported before its clock runs."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMPILE, LOAD = "compile", "load"
STATUS = Path("/proc/self/status")


def report(what: str, paths: Sequence[str]) -> dict[str, float]:
    """What a process of its own measures: its imports, and then what it is asked for."""
    began = time.perf_counter()
    import colonnade
    import colonnade.compiler  # what `colonnade.compile` and `load` import when they are first used: torch, numba

    seconds = {"import": time.perf_counter() - began}
    with _peak() as peak:
        if what == COMPILE:
            with _timed(seconds, "compile"):
                executable = colonnade.compile(paths[0])
            seconds["anonymous bytes"] = peak()
            with _timed(seconds, "save"):
                executable.save(paths[1])
            return seconds
        with _timed(seconds, "load"):
            executable = colonnade.load(paths[0])
        from colonnade.testing.requests import make_request

        feed = make_request(executable.program, "ordinary", 1, 0).feed
        with _timed(seconds, "answer"):
            executable(feed)
        with _timed(seconds, "load again"):
            colonnade.load(paths[0])
        seconds["anonymous bytes"] = peak()
    return seconds


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - began


@contextmanager
def _peak() -> Iterator[Any]:
    """The most anonymous memory so far, looked at twenty times a second. Units: bytes."""
    most, done = [_anonymous()], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            most[0] = max(most[0], _anonymous())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield lambda: float(max(most[0], _anonymous()))
    finally:
        done.set()
        thread.join()


def _anonymous() -> int:
    line = next(x for x in STATUS.read_text(encoding="ascii").splitlines() if x.startswith("RssAnon"))
    return 1024 * int(line.split()[1])


if __name__ == "__main__":
    print(json.dumps(report(sys.argv[1], sys.argv[2:])))
