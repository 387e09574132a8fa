"""The compiled transform, as `code_cache` keeps it: apart from the engine, which serving needs alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numba import types

from colonnade.backends import atomics, lanes, memory
from colonnade.backends.code_cache import CodeCache, Results
from colonnade.backends.cpu import elements, intrinsics, murmur, rows, scratch, transform
from colonnade.backends.cpu.tiles import not_equal, registry, split
from colonnade.core import murmur as constants

SOURCES = (
    transform,
    elements,
    intrinsics,
    murmur,
    rows,
    scratch,
    not_equal,
    registry,
    split,
    atomics,
    lanes,
    memory,
    constants,
)
"""The modules that compiled functions or numbers in them come from."""


@dataclass(frozen=True)
class Transform:
    """The transform in memory. results: keep the code alive."""

    run: Callable[[int], int]
    results: Results


def _sources() -> Iterator[Path]:
    for module in SOURCES:
        yield Path(str(module.__file__))


def _results() -> dict[str, Any]:
    signature = (types.int64,)
    transform.run_transform.compile(signature)
    return {"run": transform.run_transform.overloads[signature]}


def _code(results: Results) -> Transform:
    return Transform(results["run"].entry_point, results)


TRANSFORM = CodeCache("transform", "the transform of features", _sources, _results, _code)
