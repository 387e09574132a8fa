"""The compiled engine: built once a machine, kept on disk, carried in artifacts.

A cache file holds every compiled function of one CPU kind. Its name says what it depends on: the sources of this
package, the versions of Python, numba and llvmlite, and the CPU's name and features.
Facts: a cache file is code: loading one is as safe as running its maker's programs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import pickle
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding
import numba
from numba import types
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target

from colonnade.backends.cpu import (
    elements,
    engine,
    entry,
    long_rows,
    lookups,
    narrow,
    pooled,
    pooling,
    single,
    tiles,
    tokens,
    units,
    unpooled,
    weighted,
)
from colonnade.backends.cpu.tiles import registry
from colonnade.config import settings
from colonnade.core import fingerprint, quantize

PARTS = (elements, lookups, single, pooling, pooled, tokens, long_rows, unpooled, weighted, narrow)
"""The files that implement the engine's parts: importing them registers these."""
LOG = logging.getLogger("colonnade")

PORTABLE = "x86-64-v3"
"""The CPU kind, beside the host's own, that artifacts carry code for: every x86 server since 2015."""
PORTABLE_FEATURES = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt")
NOT_COMPILED = frozenset(
    {"__init__.py", "backend.py", "cache.py", "context.py", "descriptor.py", "pool.py", "registry.py"}
)
"""Files of this package that no compiled function comes from."""
HASH_BYTES = 32
SUFFIX = ".colonnade-cpu"


@dataclass(frozen=True)
class Compiled:
    """The engine in memory: the callable entry point, and addresses of what is called from compiled code.

    parts: in the order of `units.OPERANDS`.   results: keep the code alive.   content: of its cache file.
    """

    run: Callable[[int, int, int], int]
    work: int
    helper: int
    parts: tuple[int, ...]
    tiles: Mapping[str, int]
    results: Mapping[str, Any]
    content: bytes


def functions() -> dict[str, tuple[Any, int]]:
    """Every function that is compiled by itself, and its number of int64 operands."""
    tiles.load()
    found = {name: (tile, 4) for name, tile in sorted({**registry.MAPS, **registry.FILTERS}.items())}
    found |= {name: (units.FUNCTIONS[name], operands) for name, operands in units.OPERANDS.items()}
    return found | {"run": (entry.run, 3), "work": (engine.work, 1), "helper": (entry.helper, 1)}


# --- names --------------------------------------------------------------------------------------------------------


def sources_digest() -> str:
    """What the compiled code depends on, but for the CPU."""
    package = Path(__file__).parent
    h = hashlib.sha256()
    for path in [*sorted(package.rglob("*.py")), Path(fingerprint.__file__), Path(quantize.__file__)]:
        if path.name in NOT_COMPILED:
            continue
        h.update(path.name.encode() + path.read_bytes())
    for version in (sys.version, numba.__version__, llvmlite.__version__, platform.platform(terse=True)):
        h.update(version.encode())
    return h.hexdigest()[:16]


def _file_name(cpu: str, features: str) -> str:
    kind = cpu if cpu == PORTABLE else f"{cpu}-{hashlib.sha256(features.encode()).hexdigest()[:8]}"
    return f"{sources_digest()}-{platform.machine()}-{kind}{SUFFIX}"


def host_file() -> str:
    """The name of the cache file for this machine's CPU."""
    _, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    return _file_name(cpu, features)


def portable_file() -> str | None:
    """The name of the portable cache file, where this machine can run it."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return None
    have = llvmlite.binding.get_host_cpu_features()
    return _file_name(PORTABLE, "") if all(have.get(f) for f in PORTABLE_FEATURES) else None


def cache_dir() -> Path:
    """Where cache files lie."""
    return settings().cache_dir / "cpu"


# --- compiling and loading ----------------------------------------------------------------------------------------

_LOCK = threading.Lock()
_READY: dict[str, Compiled] = {}
_CARRIED: list[Path] = []
"""Folders of loaded artifacts that may hold cache files, the newest first."""


def warm() -> Compiled:
    """The engine for this machine: loaded, or compiled and kept. Any number of processes may call it at once."""
    with _LOCK:
        found = _READY.get("host")
        if found is None:
            found = _READY["host"] = _load_any() or _compile_once()
        return found


def _load_any() -> Compiled | None:
    names = [name for name in (host_file(), portable_file()) if name]
    for name in names:
        for folder in (cache_dir(), *_CARRIED):
            found = load(folder / name)
            if found is not None:
                return found
    return None


def _compile_once() -> Compiled:
    """Compile, or wait for another process that does and load what it made."""
    path = cache_dir() / host_file()
    with _locked(path) as writable:
        found = load(path)
        if found is not None:
            return found
        LOG.warning("compiling the cpu engine for this machine, once; `colonnade warmup` does it ahead of time")
        made = build()
        if writable:
            with contextlib.suppress(OSError):  # a full disk costs a compile the next time, and no answer
                save(made.content, path)
        return made


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold the lock of a cache file; gives false, without a lock, where the folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = open(path.with_suffix(".lock"), "w")  # noqa: SIM115 - closed below, whatever happens
    except OSError:
        yield False
        return
    with handle:
        # The lock goes with the process that holds it, however it ends.
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield True


def build() -> Compiled:
    """Every function, compiled for the CPU that numba is set to."""
    results = {}
    for name, (function, operands) in functions().items():
        signature = (types.int64,) * operands
        function.compile(signature)
        results[name] = function.overloads[signature]
    data = pickle.dumps({name: result._reduce() for name, result in results.items()})
    return _compiled(results, hashlib.sha256(data).digest() + data)


def save(content: bytes, path: Path) -> None:
    """Write a cache file: complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(content)
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: Path) -> Compiled | None:
    """The engine of a cache file; None where there is none or it is damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, data = content[:HASH_BYTES], content[HASH_BYTES:]
    if hashlib.sha256(data).digest() != digest:
        return None
    context = cpu_target.target_context
    context.refresh()
    results = {name: CompileResult._rebuild(context, *parts) for name, parts in pickle.loads(data).items()}
    return _compiled(results, content)


def _compiled(results: Mapping[str, Any], content: bytes) -> Compiled:
    addresses = {
        name: int(result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name))
        for name, result in results.items()
        if name != "run"
    }
    return Compiled(
        run=results["run"].entry_point,
        work=addresses.pop("work"),
        helper=addresses.pop("helper"),
        parts=tuple(addresses.pop(name) for name in units.OPERANDS),
        tiles=addresses,
        results=results,
        content=content,
    )


# --- artifacts ----------------------------------------------------------------------------------------------------


def export_cache(folder: Path, *, portable: bool = True) -> tuple[Path, ...]:
    """Put cache files for this machine's CPU, and for any x86 server, into a folder; gives their paths."""
    made = warm()
    host = folder / host_file()
    save(made.content, host)
    name = portable_file() if portable else None
    return (host, _export_portable(folder / name)) if name else (host,)


def _export_portable(target: Path) -> Path:
    """By another process: numba compiles for one CPU a process."""
    kept = cache_dir() / target.name
    if not kept.exists():
        LOG.warning("compiling the cpu engine once more, for the other machines that load artifacts; it is kept")
        program = (
            "import sys, pathlib\n"
            "from numba.core import config; config.CPU_NAME, config.CPU_FEATURES = sys.argv[1], ''\n"
            "from colonnade.backends.cpu import cache; cache.save(cache.build().content, pathlib.Path(sys.argv[2]))"
        )
        subprocess.run([sys.executable, "-c", program, PORTABLE, str(target)], check=True)
        with contextlib.suppress(OSError):
            save(target.read_bytes(), kept)
        return target
    shutil.copyfile(kept, target)
    return target


def import_cache(folder: Path) -> bool:
    """Let `warm` look into a folder too; gives whether it holds code for this machine."""
    with _LOCK:
        if folder not in _CARRIED:
            _CARRIED.insert(0, folder)
    return any((folder / name).exists() for name in (host_file(), portable_file()) if name)
