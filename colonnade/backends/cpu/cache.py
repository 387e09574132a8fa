"""The compiled engine, as `code_cache` keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numba import types

from colonnade.backends import atomics, jobs, lanes, memory
from colonnade.backends.code_cache import CodeCache, Results
from colonnade.backends.cpu import (
    elements,
    engine,
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
from colonnade.core import fingerprint, logarithm, murmur, quantize, siphash, word_map

PARTS = (elements, lookups, single, pooling, pooled, tokens, long_rows, unpooled, weighted, narrow)
"""The files that implement the engine's parts: importing them registers these."""

TRANSFORM = frozenset({"transform.py", "transform_code.py", "transform_plan.py"})
"""Files of what is compiled apart."""
NOT_COMPILED = frozenset({"backend.py", "columns.py", "context.py", "descriptor.py", "flow.py"} | TRANSFORM)
"""Files of this package that nothing of the compiled code comes from."""
ELSEWHERE = (atomics, jobs, lanes, memory, fingerprint, logarithm, murmur, quantize, siphash, word_map)
"""Other modules that compiled functions or numbers in them come from."""
CALLED = ("run", "begin", "end")
"""The entry points that Python calls."""


@dataclass(frozen=True)
class Compiled:
    """The engine in memory: the callable entry points, and addresses of what is called from compiled code.

    parts: in the order of `units.OPERANDS`.   results: keep the code alive.
    """

    run: Callable[[int, int, int], int]
    begin: Callable[[int, int, int], int]
    end: Callable[[int, int, int], int]
    work: int
    helper: int
    parts: tuple[int, ...]
    tiles: Mapping[str, int]
    results: Mapping[str, Any]


def functions() -> dict[str, tuple[Any, int]]:
    """Every function that is compiled by itself, and its number of int64 operands."""
    found: dict[str, tuple[Any, int]] = {
        name: (tile, 4) for name, tile in sorted({**registry.MAPS, **registry.FILTERS}.items())
    }
    found |= {name: (units.FUNCTIONS[name], operands) for name, operands in units.OPERANDS.items()}
    found |= {"run": (jobs.run, 3), "begin": (jobs.begin, 3), "end": (jobs.end, 3)}
    return found | {"work": (engine.work, 1), "helper": (jobs.helper, 1)}


def _sources() -> Iterator[Path]:
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        if path.name not in NOT_COMPILED:
            yield path
    for module in ELSEWHERE:
        yield Path(str(module.__file__))


def _results() -> Results:
    results = {}
    for name, (function, operands) in functions().items():
        signature = (types.int64,) * operands
        function.compile(signature)
        results[name] = function.overloads[signature]
    return results


def _compiled(results: Results) -> Compiled:
    addresses = {
        name: int(result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name))
        for name, result in results.items()
        if name not in CALLED
    }
    return Compiled(
        run=results["run"].entry_point,
        begin=results["begin"].entry_point,
        end=results["end"].entry_point,
        work=addresses.pop("work"),
        helper=addresses.pop("helper"),
        parts=tuple(addresses.pop(name) for name in units.OPERANDS),
        tiles=addresses,
        results=results,
    )


tiles.load()  # before their files are read
ENGINE = CodeCache("cpu", "the cpu engine", _sources, _results, _compiled)
