"""One module of kernel code: the texts of the device functions that it needs, then what was generated.

The text is written to a file named by its hash, since Triton reads the source of a function back from its file.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import triton
from triton.runtime.interpreter import InterpretedFunction

DEVICE = Path(__file__).parent / "device"
PACKAGE = "colonnade.backends.gpu.device"
MARKS = f"{PACKAGE}.jit"
NUMBERS = ("stride", "first", "num", "end", "tiles", "prefix", "units_in_tiles", "count", "step")
HEADER = '''"""Kernel code, put together from device functions and generated text."""

import triton
import triton.language as tl
'''


@dataclass(frozen=True)
class Fragment:
    """A device file: its text without imports, and the device files that it uses, by the names of their modules."""

    text: str
    uses: tuple[str, ...]


@cache
def fragment(name: str) -> Fragment:
    """The device file of that name; one that lies elsewhere is named as a module."""
    text = _file_of(name).read_text(encoding="utf-8")
    tree = ast.parse(text)
    used = [node.module for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
    uses = tuple(module for module in used if module.startswith("colonnade.") and module != MARKS)
    kept = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom) and not _is_docstring(node)]
    return Fragment("\n\n".join(_segment(text, node) for node in kept), uses)


def _module(name: str) -> str:
    return name if "." in name else f"{PACKAGE}.{name}"


def _file_of(name: str) -> Path:
    if "." not in name:
        return DEVICE / f"{name}.py"
    found = importlib.util.find_spec(name)
    assert found is not None and found.origin is not None
    return Path(found.origin)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _segment(text: str, node: ast.stmt) -> str:
    decorators = getattr(node, "decorator_list", [])
    first = decorators[0].lineno if decorators else node.lineno
    assert node.end_lineno is not None
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


def module_text(used: Sequence[str], generated: str) -> str:
    """A whole module: the device files `used` and those they use, then `generated`."""
    order: dict[str, None] = {}

    def visit(module: str) -> None:
        if module not in order:
            for other in fragment(module).uses:
                visit(other)
            order[module] = None

    for name in sorted(used):
        visit(_module(name))
    return "\n\n".join([HEADER, *(fragment(name).text for name in order), generated, ""])


def load(text: str, folder: Path, *, interpret: bool) -> ModuleType:
    """The module of that text, its functions compiled by Triton, or run by its interpreter.

    Facts: the file is written to a temporary name and renamed, so that processes may share the folder; one that holds
    another text is replaced.
    """
    name = f"columns_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    path = folder / f"{name}.py"
    wanted = text.encode()
    if not path.is_file() or path.read_bytes() != wanted:
        _write(path, wanted)
    spec = importlib.util.spec_from_file_location(f"colonnade_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["jit"] = InterpretedFunction if interpret else triton.jit
    module.__dict__["kernel"] = InterpretedFunction if interpret else _kernel
    spec.loader.exec_module(module)
    return module


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _kernel(function: Callable[..., Any]) -> Any:
    """The entry: no value of a number makes another version of the code; all pointers are multiples of 16."""
    names = inspect.signature(function).parameters
    numbers = [n for n in names if n.rstrip("0123456789") in NUMBERS or n.startswith("num_")]
    return triton.jit(function, do_not_specialize=numbers)
