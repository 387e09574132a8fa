"""Compiled functions: built once a machine, kept on disk, carried in artifacts.

A cache file holds all functions of one collection for one CPU kind. Its name says what it depends on: the sources of
the collection, the versions of colonnade, numba and llvmlite, Python's binary interface, the system, and the CPU's
name and features; not Python's build or the kernel's release, which differ from host to host.
Facts: a cache file is code: loading one is as safe as running its maker's programs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib
import logging
import os
import pickle
import platform
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import llvmlite
import llvmlite.binding
import numba
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target

from colonnade.config import settings
from colonnade.core.fork import Lock
from colonnade.version import __version__

LOG = logging.getLogger("colonnade")
Code = TypeVar("Code")
Results = Mapping[str, Any]
"""numba's result of each compiled function, by a name."""

PORTABLE = "x86-64-v3"
"""The CPU kind, beside the host's own, that artifacts carry code for: every x86 server since 2015."""
PORTABLE_FEATURES = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt")
HASH_BYTES = 32


@dataclass(frozen=True)
class Made(Generic[Code]):
    """Compiled functions in memory. content: of their cache file."""

    code: Code
    content: bytes


class CodeCache(Generic[Code]):
    """A collection of functions that are compiled together, and where their code is kept.

    name: of the folder in the cache and the end of its files.   what: in messages.
    sources: all files that the code is made of, numbers in it too.   compiled: compiles everything.
    code: what callers get.
    sources_digest: of the content of these files.
    Facts: the files are read here, when the modules are imported that they are: what is compiled later, with other
    files in their place, bears the name of what it was made of.
    """

    def __init__(
        self,
        name: str,
        what: str,
        sources: Callable[[], Iterable[Path]],
        compiled: Callable[[], Results],
        code: Callable[[Results], Code],
    ) -> None:
        self.name = name
        self._what = what
        self._sources = sources
        self.sources_digest = _digest_of((*sources(), Path(__file__)))
        self._results = compiled
        self._code = code
        self._lock = Lock()
        self._ready: Made[Code] | None = None
        self._carried: list[Path] = []  # folders of loaded artifacts that may hold cache files, the newest first

    # --- names ------------------------------------------------------------------------------------------------------
    def _file_name(self, cpu: str, features: str) -> str:
        kind = cpu if cpu == PORTABLE else f"{cpu}-{hashlib.sha256(features.encode()).hexdigest()[:8]}"
        return f"{self._digest()}-{platform.machine()}-{kind}.colonnade-{self.name}"

    def _digest(self) -> str:
        """What the compiled code depends on, but for the CPU."""
        h = hashlib.sha256(self.sources_digest.encode())
        for what in (__version__, _python_interface(), numba.__version__, llvmlite.__version__, platform.system()):
            h.update(what.encode() + b"\0")
        return h.hexdigest()[:16]

    def host_file(self) -> str:
        """The name of the cache file for this machine's CPU."""
        _, cpu, features = cpu_target.target_context.codegen().magic_tuple()
        return self._file_name(cpu, features)

    def portable_file(self) -> str | None:
        """The name of the portable cache file, where this machine can run it."""
        if platform.machine() not in ("x86_64", "AMD64"):
            return None
        have = llvmlite.binding.get_host_cpu_features()
        return self._file_name(PORTABLE, "") if all(have.get(f) for f in PORTABLE_FEATURES) else None

    def folder(self) -> Path:
        """Where cache files lie."""
        return settings().cache_dir / self.name

    # --- compiling and loading --------------------------------------------------------------------------------------
    def warm(self) -> Code:
        """The code for this machine: loaded, or compiled and kept. Any number of processes may call it at once."""
        return self._warmed().code

    def _warmed(self) -> Made[Code]:
        with self._lock:
            if self._ready is None:
                self._ready = self._load_any() or self._compile_once()
            return self._ready

    def _load_any(self) -> Made[Code] | None:
        names = [name for name in (self.host_file(), self.portable_file()) if name]
        for name in names:
            for folder in (self.folder(), *self._carried):
                found = self.load(folder / name)
                if found is not None:
                    return found
        return None

    def _compile_once(self) -> Made[Code]:
        """Compile, or wait for another process that does and load what it made."""
        path = self.folder() / self.host_file()
        with locked(path) as writable:
            found = self.load(path)
            if found is not None:
                return found
            LOG.warning("compiling %s for this machine, once; `colonnade warmup` does it ahead of time", self._what)
            made = self.build()
            if writable:
                with contextlib.suppress(OSError):  # a full disk costs a compile the next time, and no answer
                    save(made.content, path)
            return made

    def build(self) -> Made[Code]:
        """Everything, compiled for the CPU that numba is set to."""
        results = self._results()
        data = pickle.dumps({name: result._reduce() for name, result in results.items()})
        return Made(self._code(results), hashlib.sha256(data).digest() + data)

    def load(self, path: Path) -> Made[Code] | None:
        """The code of a cache file; None where there is none or it is damaged."""
        content = whole(path)
        if content is None:
            return None
        context = cpu_target.target_context
        context.refresh()
        try:
            parts = pickle.loads(content[HASH_BYTES:])
            results = {name: CompileResult._rebuild(context, *reduced) for name, reduced in parts.items()}
        except (ImportError, AttributeError):  # made of modules that this version has not
            return None
        return Made(self._code(results), content)

    # --- artifacts --------------------------------------------------------------------------------------------------
    def export_code(self, folder: Path) -> tuple[Path, ...]:
        """Put cache files for this machine's CPU, and for any x86 server, into a folder; gives their paths.

        Facts: where the second cannot be compiled, a warning says so: other machines compile for themselves then.
        """
        host = folder / self.host_file()
        save(self._warmed().content, host)
        name = self.portable_file()
        content = None if name is None else self._portable(self.folder() / name)
        if name is None or content is None:
            return (host,)
        save(content, folder / name)
        return (host, folder / name)

    def _portable(self, path: Path) -> bytes | None:
        """The portable cache file's content: kept, or compiled and kept, by one process while others wait."""
        with locked(path) as writable:
            content = whole(path)
            if content is None:
                content = self._compiled_portably()
                if content is not None and writable:
                    with contextlib.suppress(OSError):
                        save(content, path)
            return content

    def _compiled_portably(self) -> bytes | None:
        """By another process: numba compiles for one CPU a process."""
        LOG.warning("compiling %s once more, for the other machines that load artifacts; it is kept", self._what)
        program = (
            "import sys, pathlib; sys.path.insert(0, sys.argv[5])\n"
            "from numba.core import config; config.CPU_NAME, config.CPU_FEATURES = sys.argv[1], ''\n"
            "from colonnade.backends import code_cache\n"
            "found = code_cache.find(*sys.argv[2:4])\n"
            "if found.sources_digest != sys.argv[6]: sys.exit('its sources have changed since they were imported')\n"
            "code_cache.save(found.build().content, pathlib.Path(sys.argv[4]))"
        )
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / self.name
            here = str(Path(__file__).resolve().parents[2])  # where this very version lies, whatever else is installed
            given = [PORTABLE, self._code.__module__, self.name, str(made), here, self.sources_digest]
            command = [sys.executable or "python", "-c", program, *given]
            try:
                done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
                why = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
            except OSError as error:
                why = str(error)
            content = whole(made)
        if content is None:
            LOG.warning("the artifact carries code for this kind of CPU alone; the other compile failed: %s", why)
        return content

    def import_code(self, folder: Path) -> bool:
        """Let `warm` look into a folder too; gives whether it holds code for this machine."""
        with self._lock:
            if folder not in self._carried:
                self._carried.insert(0, folder)
        names = (self.host_file(), self.portable_file())
        return any(os.path.exists(folder / name) for name in names if name)


def _digest_of(paths: Iterable[Path]) -> str:
    h = hashlib.sha256()
    for path in paths:
        h.update(path.name.encode() + path.read_bytes())
    return h.hexdigest()


def _python_interface() -> str:
    """What compiled code needs Python to be, as extension modules say it: version, flags of the build, C library."""
    return str(sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag)


def find(module: str, name: str) -> CodeCache[Any]:
    """The collection of that name in a module."""
    values = vars(importlib.import_module(module)).values()
    return next(value for value in values if isinstance(value, CodeCache) and value.name == name)


def whole(path: Path) -> bytes | None:
    """The content of a cache file; None where there is none or it is damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return content if hashlib.sha256(content[HASH_BYTES:]).digest() == content[:HASH_BYTES] else None


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
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
