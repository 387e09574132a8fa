"""The files that a cache of compiled code is named by are all that the code is made of."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from colonnade.backends import atomics, code_cache, example_loops, examples, jobs, memory
from colonnade.backends.code_cache import CodeCache
from colonnade.backends.cpu import cache, transform, transform_code
from colonnade.backends.cpu.tiles import registry
from colonnade.backends.tape import kernels, tape
from colonnade.core import word_map
from colonnade.train import compiled as train
from colonnade.train.loops import entry
from colonnade.train.loops.entry import ENTRIES

Name = tuple[str, str]
"""A module, and a name at its top level."""


class Module:
    """The top level of one of our modules: which statements bind a name, and what is imported."""

    def __init__(self, name: str) -> None:
        self.path = Path(str(importlib.import_module(name).__file__))
        self.bound: dict[str, list[ast.stmt]] = {}
        self.imported: dict[str, Name] = {}
        for statement in ast.parse(self.path.read_text()).body:
            self._read(statement)

    def _read(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                self.imported[alias.asname or alias.name] = (str(statement.module), alias.name)
        elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
            self.bound.setdefault(statement.name, []).append(statement)
        else:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self.bound.setdefault(node.id, []).append(statement)

    def used(self, name: str) -> Iterator[Name]:
        """What the definition of a name refers to."""
        if name in self.imported:
            yield self.imported[name]
        for statement in self.bound.get(name, []):
            for node in ast.walk(statement):
                if isinstance(node, ast.Name):
                    yield self.imported.get(node.id, ("", node.id))
                elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    package, module = self.imported.get(node.value.id, ("", ""))
                    yield f"{package}.{module}", node.attr


module_of = functools.cache(Module)


def is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def files_behind(names: Iterable[Name]) -> set[Path]:
    """The files that define these names and, through any number of steps, all that is used there."""
    seen: set[Name] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        module = module_of(name[0])
        found = ((where or name[0], what) for where, what in module.used(name[1]))
        waiting += [
            (m, n) for m, n in found if m.startswith("colonnade.") and is_module(m) and not is_module(f"{m}.{n}")
        ]
    return {module_of(m).path for m, n in seen if n in module_of(m).bound}


def roots(functions: Iterable[Any]) -> set[Name]:
    found = [getattr(f, "py_func", f) for f in functions]
    return {(f.__module__, f.__qualname__.partition(".")[0]) for f in found}


ENGINE = {("colonnade.backends.cpu.cache", "functions"), *roots(f for f, _ in cache.functions().values())}
LOOPS = roots([*example_loops.ENTRIES.values(), jobs.run, jobs.helper])
TRANSFORM = roots([transform.run_transform])
TRAIN = roots(ENTRIES.values())
TAPES = roots([kernels.work, jobs.run, jobs.helper])


@pytest.mark.parametrize(
    ("collection", "names", "among"),
    [
        (cache.ENGINE, ENGINE, [word_map, registry, cache]),
        (examples.LOOPS, LOOPS, [example_loops, jobs, atomics, memory]),
        (tape.TAPES, TAPES, [kernels, memory]),
        (transform_code.TRANSFORM, TRANSFORM, [transform, registry, memory]),
        (train.LOOPS, TRAIN, [entry, memory]),
    ],
    ids=["cpu", "examples", "tape", "transform", "train"],
)
def test_all_that_code_is_made_of_is_in_its_name(
    collection: CodeCache[Any], names: set[Name], among: list[ModuleType]
) -> None:
    behind = files_behind(names)
    assert {Path(str(module.__file__)) for module in among} <= behind
    assert behind <= set(collection._sources())


def test_another_version_of_colonnade_compiles_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    name = cache.ENGINE.host_file()
    monkeypatch.setattr(code_cache, "__version__", "9.9.9")
    assert cache.ENGINE.host_file() != name
