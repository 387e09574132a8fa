"""Answers requests on the host: the columns write into an arena, and torch runs the dense rest on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from colonnade.backends.arena import ALIGNMENT, ArenaPool, Room
from colonnade.backends.backend import Columns, Outcome
from colonnade.backends.dense import DensePlan
from colonnade.backends.feed import Request
from colonnade.backends.sizes import DimFunction, dim_function
from colonnade.ir.program import Program, Weights


class HostRunner:
    """Compiled columns, one a layout, and the dense rest. Facts: any thread may use it at any time.

    plan: makes the plan of the dense rest, from its parameters.
    """

    def __init__(
        self,
        program: Program,
        weights: Weights,
        columns: Sequence[Columns],
        plan: Callable[[Program, Mapping[str, torch.Tensor]], DensePlan] = DensePlan,
    ) -> None:
        params = {name: aligned(weights.params[name]) for name, _, _ in program.params}
        self.arenas = ArenaPool(program.buffers)
        self._columns = tuple(columns)
        self._dense = plan(program, params)
        self._rows: tuple[DimFunction, ...] = tuple(dim_function(b.rows) for b in program.buffers)
        self._kept = storages(self._dense.constants)
        self.table_places: Mapping[str, str] = dict.fromkeys((t.name for t in program.tables), "host")

    @property
    def dense_inputs(self) -> frozenset[str]:
        """The inputs that the dense rest reads."""
        return self._dense.inputs

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing to say."""
        return ()

    def reserve(self) -> Room | None:
        """None: the columns read a packed batch where it lies."""
        return None

    def run(self, request: Request, room: Room | None = None) -> Outcome:
        """The answer to a request, with the time of `columns` and `dense`.

        Errors: IdRangeError under the policy `error`; GraphError where the dense rest refuses the request.
        """
        began = time.perf_counter_ns()
        arena = self.arenas.take([rows(request.sizes) for rows in self._rows])
        zeroed = 0
        for columns, packed in zip(self._columns, request.packed, strict=True):
            zeroed += columns.run(packed, arena.arrays)
        looked_up = time.perf_counter_ns()
        values = self._dense.run({**request.tensors, **arena.tensors}, request.sizes)
        outputs = owned(values, request, self._kept, self._dense.fresh)
        ended = time.perf_counter_ns()
        return Outcome(outputs, zeroed, {"columns": looked_up - began, "dense": ended - looked_up})


def owned(
    values: Mapping[str, Any], request: Request, kept: frozenset[int], fresh: Container[str] = ()
) -> dict[str, Any]:
    """The outputs as the caller gets them; what lies in an input, in kept storage or in another output is copied.

    fresh: those that are arrays of their own.
    """
    taken = {t.untyped_storage().data_ptr() for t in request.tensors.values() if isinstance(t, torch.Tensor)}
    taken |= kept
    outputs: dict[str, Any] = {}
    for name, value in values.items():
        if name in fresh:
            outputs[name] = torch.from_numpy(value) if request.is_torch else value
            continue
        if not isinstance(value, torch.Tensor):
            outputs[name] = np.array(value)
            continue
        storage = value.untyped_storage().data_ptr()
        if storage in taken:
            value = value.clone()
        else:
            taken.add(storage)
        outputs[name] = ordinary(value) if request.is_torch else as_numpy(value)
    return outputs


def ordinary(value: torch.Tensor) -> torch.Tensor:
    """The same memory as a tensor that its owner may write to and differentiate through: not one of inference mode."""
    if not value.is_inference():
        return value
    made = torch.empty(0, dtype=value.dtype)
    return made.set_(value.untyped_storage(), value.storage_offset(), value.shape, value.stride())


def as_numpy(value: torch.Tensor) -> np.ndarray[Any, Any]:
    """The same values as an array. Facts: numpy has no bfloat16; float32 holds each of its values."""
    return value.float().numpy() if value.dtype == torch.bfloat16 else value.numpy()


def storages(tensors: Iterable[torch.Tensor]) -> frozenset[int]:
    """Where the memory of tensors begins."""
    return frozenset(t.untyped_storage().data_ptr() for t in tensors)


def aligned(param: torch.Tensor) -> torch.Tensor:
    """The same values at a multiple of 64 bytes: a matrix product's last bits depend on where its operands lie."""
    if param.is_contiguous() and param.data_ptr() % ALIGNMENT == 0:
        return param
    return torch.empty(param.shape, dtype=param.dtype).copy_(param)
