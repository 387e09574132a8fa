"""A tape in memory, and how a request calls it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba import types

from colonnade.backends import atomics, jobs, lanes, memory
from colonnade.backends.code_cache import CodeCache, Results
from colonnade.backends.dense import DensePlan
from colonnade.backends.memory import address_of
from colonnade.backends.pool import POOL
from colonnade.backends.tape import kernels, products, sparse, wide_products
from colonnade.backends.tape import words as w
from colonnade.errors import ShapeError

Array = npt.NDArray[Any]
ALIGNMENT = 64
HEADER = w.BASES // 8
PAIR = w.BASE_BYTES // 8
PARALLEL_WORK = 1 << 20
"""Multiplications from which on helpers give more than they cost: some 20 microseconds."""
Form = tuple[str, tuple[int, ...], torch.dtype]
"""Of a value: its name, its shape behind the rows, its dtype."""
TILES_A_THREAD = 2
LEAST_ROWS = 12
"""Of a tile, where several threads share few rows."""


def aligned(num_bytes: int) -> Array:
    """Zeroed bytes that begin at a multiple of 64."""
    raw = np.zeros(num_bytes + ALIGNMENT, np.uint8)
    skip = -raw.ctypes.data % ALIGNMENT
    return raw[skip : skip + num_bytes]


@dataclass(frozen=True, eq=False)
class Tape:
    """steps: words.   constants: what the steps hold addresses of.   scratch: its bytes.
    operands, results: name, shape behind the rows and dtype of each.   plain: the same by torch.
    work: of a row, in multiplications.   most: rows up to which the tape is the faster.   threads: to be used.
    tile: most rows that pass through all steps at a time.
    """

    steps: Array
    constants: Sequence[Array]
    scratch: int
    operands: tuple[Form, ...]
    results: tuple[Form, ...]
    plain: DensePlan
    symbol: str
    work: int
    most: int
    threads: int
    tile: int


class Context:
    """The contexts of one call at a time, one a thread; reused."""

    def __init__(self, tape: Tape, code: Code, num_tensors: int, scratch: int) -> None:
        size = -(-8 * (HEADER + PAIR * (w.TENSORS + num_tensors)) // ALIGNMENT) * ALIGNMENT
        raw = aligned(tape.threads * size)
        self._scratch = [aligned(scratch) for _ in range(tape.threads)]
        self.contexts = contexts = raw.view(np.int64).reshape(tape.threads, -1)
        contexts[:, HEADER] = [scratch.ctypes.data for scratch in self._scratch]
        array = contexts.reshape(-1)
        array[w.COUNT // 8] = len(tape.steps) // (w.STEP_BYTES // 8)
        array[w.STEPS // 8] = tape.steps.ctypes.data
        array[w.CONTEXT_BYTES // 8] = size
        array[jobs.WORK // 8] = code.work
        self.words = memoryview(array.data)
        self.address = int(array.ctypes.data)


def place_tensor(
    words: memoryview, at: int, tensor: torch.Tensor, form: Form, rows: int, held: list[torch.Tensor]
) -> None:
    """Write where an operand lies. held: what must live until the call has ended.

    Errors: ShapeError where it does not have the form that the program says.
    """
    name, shape, dtype = form
    if tensor.shape != (rows, *shape) or tensor.dtype != dtype:
        raise ShapeError("a value of another form", where=name, got=f"{tensor.dtype}{tuple(tensor.shape)}")
    if tensor.dim() > 1 and tensor.stride(-1) != 1 and tensor.shape[-1] != 1:
        tensor = tensor.contiguous()
        held.append(tensor)
    words[at] = tensor.data_ptr()
    words[at + 1] = tensor.stride(0) * tensor.itemsize


class TapeCall:
    """An op of the dense rest: `(rows, tensor, ..) -> (result, ..)`. Facts: any thread may call it at any time.

    arrays: results that are given as host arrays.
    Errors: ShapeError where an operand does not have the form that the program says.
    """

    def __init__(self, tape: Tape, arrays: Container[str] = ()) -> None:
        self.tape = tape
        self.code = TAPES.warm()
        self._calls: list[Context] = []
        self._plain_operands = frozenset(tape.plain.sources)
        self._made = tuple((shape, numpy_dtype(dtype), name in arrays) for name, shape, dtype in tape.results)

    def __call__(self, rows: int, *tensors: torch.Tensor) -> tuple[Any, ...]:
        tape = self.tape
        if rows > tape.most or rows == 0:
            return self._by_torch(rows, tensors)
        made = [np.empty((rows, *shape), dtype) for shape, dtype, _ in self._made]
        try:
            call = self._calls.pop()
        except IndexError:
            call = Context(tape, self.code, len(tensors) + len(made), tape.scratch)
        words = call.words
        words[w.ROWS // 8] = rows
        words[w.NEXT // 8] = words[w.SEAT // 8] = 0
        helpers = self._share(words, rows)
        at = HEADER + PAIR * w.TENSORS
        held: list[torch.Tensor] = []
        for tensor, form in zip(tensors, tape.operands, strict=True):
            place_tensor(words, at, tensor, form, rows, held)
            at += PAIR
        for array in made:
            words[at] = address_of(array)
            words[at + 1] = array.strides[0]
            at += PAIR
        self.code.run(call.address, POOL.address, helpers)
        self._calls.append(call)
        given = zip(made, self._made, strict=True)
        return tuple([array if is_array else torch.from_numpy(array) for array, (_, _, is_array) in given])

    def _share(self, words: memoryview, rows: int) -> int:
        """Say how many rows a tile has; gives the number of helpers."""
        tape, helpers, tile = self.tape, 0, self.tape.tile
        if tape.threads > 1 and rows > LEAST_ROWS and rows * tape.work > PARALLEL_WORK:
            helpers = POOL.helpers(tape.threads - 1, self.code.helper)
            part = -(-rows // (TILES_A_THREAD * (helpers + 1)))
            tile = min(tile, max(LEAST_ROWS, part + -part % LEAST_ROWS))
        words[w.TILE_ROWS // 8] = tile
        return helpers

    def _by_torch(self, rows: int, tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        tape = self.tape
        given = {k: v for (k, _, _), v in zip(tape.operands, tensors, strict=True) if k in self._plain_operands}
        found = tape.plain.run(given, {tape.symbol: rows})
        results = zip(tape.results, self._made, strict=True)
        return tuple([found[n].numpy().copy() if is_array else found[n] for (n, _, _), (_, _, is_array) in results])


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """The same type of numpy's."""
    return np.dtype(str(dtype).removeprefix("torch."))


@dataclass(frozen=True)
class Code:
    """The loops in memory: what Python calls, and addresses of what threads call. results: keep the code alive."""

    run: Callable[[int, int, int], int]
    work: int
    helper: int
    results: Mapping[str, Any]


def _sources() -> Iterable[Path]:
    modules = (kernels, products, wide_products, sparse, w, lanes, memory, jobs, atomics)
    return (Path(str(module.__file__)) for module in modules)


def _results() -> Results:
    results = {}
    for name, function, operands in (("run", jobs.run, 3), ("helper", jobs.helper, 1), ("work", kernels.work, 1)):
        signature = (types.int64,) * operands
        compiled: Any = function
        compiled.compile(signature)
        results[name] = compiled.overloads[signature]
    return results


def _code(results: Results) -> Code:
    work, helper = (
        int(results[name].library.get_pointer_to_function(results[name].fndesc.llvm_cfunc_wrapper_name))
        for name in ("work", "helper")
    )
    return Code(results["run"].entry_point, work, helper, results)


TAPES = CodeCache("tape", "the loops of short dense networks", _sources, _results, _code)
