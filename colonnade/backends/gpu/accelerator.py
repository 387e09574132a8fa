"""Finds the device, and checks beforehand what would fail in the middle of a compilation."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess
import sysconfig
import warnings
from importlib import metadata
from pathlib import Path

import torch

from colonnade.backends.gpu.memory import ELSEWHERE
from colonnade.config import settings
from colonnade.errors import OptionError, listed

TRITON = (3, 6)
"""The first version whose interpreter and language hold what the kernels need."""
CAPABILITY = (8, 0)
"""Kernels are compiled for Ampere and later."""
COMPILERS = ("gcc", "clang")


def device() -> torch.device:
    """The current CUDA device.

    Errors: OptionError that lists everything that is missing for it.
    """
    found = settings()
    problems = [*_device_problems(), *_triton_problems(found.triton_interprets)]
    lacking = _compiler_problems(found.c_compiler)
    if lacking and (problems or not _has_launcher()):
        problems += lacking
    if problems:
        raise OptionError(
            "the target 'gpu' cannot be used here",
            got=listed([got for got, _ in problems]),
            want=listed([want for _, want in problems]),
            help=ELSEWHERE,
        )
    return torch.device("cuda", torch.cuda.current_device())


def _device_problems() -> list[tuple[str, str]]:
    if torch.version.cuda is None:
        return [(f"torch {torch.__version__}, built without CUDA", "torch built with CUDA")]
    with warnings.catch_warnings(record=True) as said:  # torch warns where the driver is older than itself
        warnings.simplefilter("always")
        found = torch.cuda.is_available()
    if not found:
        why = f" ({said[0].message})" if said else ""
        return [(f"no CUDA device{why}", "a CUDA device and its driver")]
    major, minor = torch.cuda.get_device_capability()
    if (major, minor) < CAPABILITY:
        name = torch.cuda.get_device_name()
        return [(f"{name} with compute capability {major}.{minor}", f"compute capability {CAPABILITY[0]}.0 or later")]
    return []


def _triton_problems(interprets: bool) -> list[tuple[str, str]]:
    want = f"triton {TRITON[0]}.{TRITON[1]} or later"
    if importlib.util.find_spec("triton") is None:
        return [("no triton", want)]
    version = _triton_version()
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    problems = [] if numbers >= TRITON else [(f"triton {version}", want)]
    if interprets:  # the host would compute, slowly, what is asked of the device
        problems.append(("TRITON_INTERPRET in the environment", "kernels that are compiled: unset it"))
    return problems


def _triton_version() -> str:
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:  # torch has distributions of its own, by other names
        return str(importlib.import_module("triton").__version__)


def _has_launcher() -> bool:
    """Whether Triton has in its cache what it compiles in C: since 3.7 that is one module for all kernels."""
    try:
        return hasattr(importlib.import_module("triton.runtime").driver.active.utils, "launch")
    except (RuntimeError, OSError, AssertionError, subprocess.SubprocessError):
        return False


def _compiler_problems(compiler: str | None) -> list[tuple[str, str]]:
    """Triton compiles a launcher in C once, against Python's headers; what it makes is kept in its cache."""
    problems = []
    tried = (compiler,) if compiler else COMPILERS
    if not any(shutil.which(name) for name in tried):
        problems.append((f"no C compiler: {', '.join(tried)}", "gcc or clang on PATH, or its path in CC"))
    headers = Path(sysconfig.get_paths()["include"])
    if not (headers / "Python.h").is_file():
        problems.append((f"no Python.h in {headers}", "Python's headers (python3-dev)"))
    return problems
