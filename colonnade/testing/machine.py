"""Where and with what a measurement was made."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import threading
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from colonnade import __version__

PACKAGES = ("numba", "numpy", "pyarrow", "torch", "tensorflow-cpu", "tensorflow")
_COPY_BYTES = 128 << 20
_COPY_RUNS = 7


@cache
def machine() -> dict[str, Any]:
    """CPU, cores that this process may use, memory, operating system. Units: bytes."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    info = _read("/proc/cpuinfo")
    model = next((line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")), "")
    memory = next((line.split()[1] for line in _read("/proc/meminfo").splitlines() if line.startswith("MemTotal")), "0")
    return {
        "cpu": model or platform.processor() or platform.machine(),
        "cores": cpus,
        "memory_bytes": int(memory) * 1024,
        "system": platform.system(),
    }


@cache
def versions() -> dict[str, str]:
    """Python, Colonnade and the packages that decide a number."""
    found = {"python": platform.python_version(), "colonnade": __version__}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@cache
def commit() -> str:
    """The commit of the source tree, `+` behind it where tracked files differ; "" outside a repository."""
    folder = Path(__file__).resolve().parents[2]
    head = _git(folder, "rev-parse", "--short=12", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return head + ("+" if head and changed else "")


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def copy_bandwidth(threads: int) -> float:
    """Bytes read and written a second when `threads` threads copy memory that no cache holds: the best of some runs."""
    parts = [
        (np.ones(_COPY_BYTES // threads, np.uint8), np.zeros(_COPY_BYTES // threads, np.uint8)) for _ in range(threads)
    ]
    best = float("inf")
    for _ in range(_COPY_RUNS):
        workers = [threading.Thread(target=np.copyto, args=(target, source)) for source, target in parts]
        began = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        best = min(best, time.perf_counter() - began)
    return 2 * (_COPY_BYTES // threads) * threads / best


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
