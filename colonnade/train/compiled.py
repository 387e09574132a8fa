"""The compiled loops of training, as `code_cache` keeps them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba import types

from colonnade.backends import atomics, jobs, lanes, memory
from colonnade.backends.code_cache import CodeCache, Results
from colonnade.backends.cpu import intrinsics
from colonnade.backends.cpu import rows as pooled_rows
from colonnade.backends.memory import address_of
from colonnade.backends.pool import POOL
from colonnade.train import loops, optimizers
from colonnade.train.loops import join, lookup, rows, segment, share, slots, spread, unique, update
from colonnade.train.loops.entry import ENTRIES

Loop = Callable[..., int]

SHARED_ROWS = 8192
"""Rows from which on helpers give more than they cost."""

PARTS = (share, slots, rows, lookup, join, unique, segment, spread, update, optimizers)
"""The files that hold loops that Python calls: importing them registers these."""
ELSEWHERE = (atomics, jobs, lanes, memory, intrinsics, pooled_rows)
"""Other modules that compiled functions or numbers in them come from."""


@dataclass(frozen=True)
class Loops:
    """The loops in memory, by name. addresses: of each as a C function.   results: keep the code alive."""

    loops: Mapping[str, Loop]
    addresses: Mapping[str, int]
    results: Mapping[str, Any]

    def __getitem__(self, name: str) -> Loop:
        return self.loops[name]

    def share(self, name: str, operands: Sequence[int], strides: Sequence[int]) -> int:
        """Run a loop, of many rows by as many threads as torch takes. strides: see `loops/share.py`."""
        rows, threads = operands[strides.index(share.COUNT)], torch.get_num_threads()
        if threads == 1 or rows < SHARED_ROWS:
            return self.loops[name](*operands)
        words = np.zeros(share.CALL_WORDS + 2 * len(operands), np.int64)
        values = words[share.CALL_WORDS :]
        values[:] = *operands, *strides
        words[share.FUNCTION // 8], words[share.ROWS // 8] = self.addresses[name], rows
        words[share.VALUES // 8] = address_of(values)
        words[share.STRIDES // 8] = address_of(values) + 8 * len(operands)
        self.call(f"share_{len(operands)}", words, threads)
        return int(words[share.RESULT // 8])

    def call(self, worker: str, words: npt.NDArray[np.int64], threads: int) -> None:
        """Let up to so many threads run a worker on a call's words, of which WORK of `backends/jobs.py` is written."""
        words[jobs.WORK // 8] = self.addresses[worker]
        helpers = POOL.helpers(threads - 1, self.addresses["helper"]) if threads > 1 else 0
        self.loops["run"](address_of(words), POOL.address, helpers)


def _sources() -> Iterator[Path]:
    yield Path(__file__)
    for package in (loops, optimizers):
        yield from sorted(Path(str(package.__file__)).parent.rglob("*.py"))
    for module in ELSEWHERE:
        yield Path(str(module.__file__))


def _results() -> Results:
    results = {}
    for name, function in sorted(ENTRIES.items()):
        signature = (types.int64,) * len(inspect.signature(function.py_func).parameters)
        function.compile(signature)
        results[name] = function.overloads[signature]
    return results


def _loops(results: Results) -> Loops:
    addresses = {
        name: int(result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name))
        for name, result in results.items()
    }
    return Loops({name: result.entry_point for name, result in results.items()}, addresses, results)


LOOPS = CodeCache("train", "the loops of training", _sources, _results, _loops)
