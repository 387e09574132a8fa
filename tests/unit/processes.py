"""What processes of `test_processes.py` run: each starts with modules imported and nothing else done."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from colonnade import compiler
from colonnade.backends.code_cache import Made
from colonnade.backends.cpu import cache
from colonnade.executable import FORKED, Executable
from tests.unit.small_models import SIGNATURE, a_feed


def refuse() -> Made[cache.Compiled]:
    """In the place of the compiler where nothing may be compiled."""
    raise AssertionError("the engine is compiled")


def load_and_answer(artifact: Path, cache_dir: Path, check: str) -> dict[str, bytes]:
    """The answers of an artifact, in a process with a cache of its own."""
    os.environ["COLONNADE_CACHE_DIR"] = str(cache_dir)
    cache.ENGINE.build = refuse
    got = compiler.load(artifact, check=check)(a_feed(9))
    return {name: value.tobytes() for name, value in got.items()}


def compile_and_answer(model: Path, cache_dir: Path, made: Path, log: Path) -> dict[str, bytes]:
    """The answers of a model, where compiling the engine takes a while and is noted; `made` is what it gives."""

    def build() -> Made[cache.Compiled]:
        with log.open("a") as file:
            file.write("compiled\n")
        time.sleep(0.5)
        found = cache.ENGINE.load(made)
        assert found is not None
        return found

    os.environ["COLONNADE_CACHE_DIR"] = str(cache_dir)
    cache.ENGINE.build = build
    got = compiler.compile(model, signature=SIGNATURE)(a_feed(9))
    return {name: value.tobytes() for name, value in got.items()}


def anonymous_bytes() -> int:
    """Memory of this process that no file backs."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no line Anonymous")


def peak_of(work: Callable[[], Any]) -> int:
    """By how much the anonymous memory grew at most while `work` ran."""
    before, seen, done = anonymous_bytes(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            seen.append(anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
        seen.append(anonymous_bytes())
    finally:
        done.set()
        watcher.join()
    return max(seen) - before


def memory_used(model: Path, artifact: Path) -> int:
    """The most memory that it takes to compile a model, answer, save, load and answer."""
    rows = np.zeros((4,), object)
    rows[:] = [b"a;b", b"c", b"", b"d;e;f"]

    def work() -> None:
        executable = compiler.compile(model)
        feed = {i.name: rows for i in executable.program.inputs}
        expected = executable(feed)
        executable.save(artifact)
        got = compiler.load(artifact)(feed)
        assert {k: v.tobytes() for k, v in got.items()} == {k: v.tobytes() for k, v in expected.items()}

    return peak_of(work)


def answers_of_children(artifact: Path) -> tuple[int, list[int], bool]:
    """torch's threads, how children forked amid other callers end (0: with the parent's answers), and what is noted."""
    torch.set_num_threads(2)
    executable = compiler.load(artifact)
    feeds = [a_feed(3), a_feed(20_000)]  # enough rows for torch to take threads
    expected = [executable(feed) for feed in feeds]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    done = threading.Event()

    def call() -> None:
        while not done.is_set():
            executable(feeds[0])

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    try:
        endings = [_ending_of_child(executable, feeds, expected) for _ in range(8)]
    finally:
        done.set()
        sys.setswitchinterval(interval)
        for caller in callers:
            caller.join()
    return torch.get_num_threads(), endings, FORKED in executable.report().notes


def _ending_of_child(executable: Executable, feeds: list[Any], expected: list[dict[str, Any]]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons say that this is dangerous: hence the test
        child = os.fork()
    if not child:
        signal.alarm(30)
        try:
            got = [executable(feed) for feed in feeds]
            same = all((g[k] == e[k]).all() for g, e in zip(got, expected, strict=True) for k in e)
            noted = FORKED in executable.report().notes and torch.get_num_threads() == 2
            os._exit(0 if same and noted else 3)
        finally:
            os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
