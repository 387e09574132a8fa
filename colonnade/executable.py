"""A compiled program that answers requests."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade import artifact
from colonnade.artifact import Golden, Progress, Written
from colonnade.backends.arena import ALIGNMENT, ArenaPool
from colonnade.backends.backend import Backend, Columns, layouts
from colonnade.backends.dense import DensePlan
from colonnade.backends.feed import Feed, FeedReader, PackedFeed, Request
from colonnade.backends.sizes import DimFunction, dim_function
from colonnade.errors import ArtifactError, OptionError, ShapeError, listed
from colonnade.ir.column import ID_POLICIES
from colonnade.ir.explanation import Explanation
from colonnade.ir.program import Program, Weights

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class TableReport:
    """The memory of one table."""

    name: str
    rows: int
    embedding_dim: int
    dtype: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Report:
    """What an executable holds and what it has done since it was made. Units: seconds are totals over all calls.

    zeroed_ids: ids outside their table that the policy `zero` replaced.
    """

    backend: str
    id_policy: str
    tables: tuple[TableReport, ...]
    num_columns: int
    num_inputs: int
    calls: int
    rows: int
    zeroed_ids: int
    feed_seconds: float
    columns_seconds: float
    dense_seconds: float

    @property
    def table_bytes(self) -> int:
        """The memory of all tables."""
        return sum(t.bytes for t in self.tables)


@dataclass(frozen=True, eq=False, slots=True)
class _State:
    """Everything a call needs, read once at its start, so that a swap never mixes two sets of weights."""

    weights: Weights
    columns: tuple[Columns, ...]
    dense: DensePlan
    kept: frozenset[int]
    """Storages of parameters: an output that lies in one is copied."""


@dataclass(slots=True)
class _Totals:
    calls: int = 0
    rows: int = 0
    zeroed_ids: int = 0
    feed_ns: int = 0
    columns_ns: int = 0
    dense_ns: int = 0


class Executable:
    """`executable(feed) -> {output name: array}`; safe for concurrent callers.

    threads: what a backend may use for the columns of one call; torch's own threads are left alone.
    id_policy: `error` (an id outside its table is an IdRangeError) or `zero` (it stands for a vector of zeros).
    Errors: ShapeError that lists every weight that is missing or misshapen; OptionError.
    """

    def __init__(
        self,
        program: Program,
        weights: Weights,
        backend: Backend,
        *,
        id_policy: str = "error",
        threads: int = 1,
        explanation: Explanation | None = None,
        fingerprint: str = "",
        golden: Golden | None = None,
    ) -> None:
        if id_policy not in ID_POLICIES or threads < 1:
            raise OptionError(
                "an id policy that does not exist" if id_policy not in ID_POLICIES else "too few threads",
                got=f"id_policy={id_policy!r}, threads={threads}",
                want=f"id_policy one of {', '.join(ID_POLICIES)}; at least 1 thread",
            )
        self.explanation = explanation or Explanation()
        self.fingerprint = fingerprint
        self.golden = golden
        self._program = program
        self._backend = backend
        self._id_policy = id_policy
        self._threads = threads
        self._layouts = layouts(program)
        self._rows: tuple[DimFunction, ...] = tuple(dim_function(b.rows) for b in program.buffers)
        self._arenas = ArenaPool(program.buffers)
        self._totals = _Totals()
        self._totals_lock = threading.Lock()
        self._swap_lock = threading.Lock()
        self._state = self._compiled(weights)
        self._reader = FeedReader(program, self._layouts, self._state.dense.inputs)

    def __repr__(self) -> str:
        counts = f"{len(self._program.columns)} columns, {len(self._program.tables)} tables"
        return f"<Executable {self._backend.name}: {counts}, {len(self._program.dense)} dense instructions>"

    @property
    def program(self) -> Program:
        """What it runs."""
        return self._program

    @property
    def weights(self) -> Weights:
        """The weights in force."""
        return self._state.weights

    def __call__(self, feed: Feed | PackedFeed) -> dict[str, Any]:
        """The outputs by name: torch tensors where the request held one, else numpy arrays; all owned by the caller.

        Errors: FeedError that lists every bad key; IdRangeError under the policy `error`.
        """
        state = self._state
        began = time.perf_counter_ns()
        request = self._reader.read(feed)
        read = time.perf_counter_ns()
        arena = self._arenas.take([rows(request.sizes) for rows in self._rows])
        zeroed = 0
        for columns, packed in zip(state.columns, request.packed, strict=True):
            zeroed += columns.run(packed, arena.arrays)
        looked_up = time.perf_counter_ns()
        values = state.dense.run({**request.tensors, **arena.tensors}, request.sizes)
        outputs = _owned(values, request, state)
        ended = time.perf_counter_ns()
        with self._totals_lock:
            totals = self._totals
            totals.calls += 1
            totals.rows += request.packed[0].rows if request.packed else 0
            totals.zeroed_ids += zeroed
            totals.feed_ns += read - began
            totals.columns_ns += looked_up - read
            totals.dense_ns += ended - looked_up
        return outputs

    def swap(self, source: Weights | Path | str) -> None:
        """Puts other weights of the same shapes in force, for every call that begins after it; calls under way finish
        with the old ones.

        source: weights, or the directory of an artifact of the same program.
        Errors: ShapeError that lists every weight that is missing or misshapen, ArtifactError where the artifact is
        damaged or of another program; the old weights then stay.
        """
        weights = source if isinstance(source, Weights) else self._weights_of(Path(source))
        with self._swap_lock:
            self._state = self._compiled(weights)

    def save(self, directory: Path | str, *, golden: Golden | None = None, progress: Progress | None = None) -> Written:
        """Write an artifact that `colonnade.load` reads, in place of the one that may stand there.

        golden: recorded rows to keep instead of those it has.   progress(file, bytes done, bytes in all).
        Errors: ArtifactError; what stood at `directory` then stays.
        """
        with tempfile.TemporaryDirectory() as folder:
            compiled = {path.name: path for path in self._backend.export_compiled(Path(folder))}
            return artifact.save(
                directory,
                self._program,
                self.weights,
                compiled=compiled,
                golden=golden or self.golden,
                explanation=self.explanation,
                source=self.fingerprint,
                progress=progress,
            )

    def _weights_of(self, directory: Path) -> Weights:
        loaded = artifact.load(directory)
        if loaded.program != self._program:
            raise ArtifactError(
                "the artifact is of another program", where=str(directory), help="load it, or compile with --like"
            )
        return loaded.weights

    def report(self) -> Report:
        """What it holds and what it has done so far."""
        with self._totals_lock:
            totals = _Totals(*(getattr(self._totals, name) for name in _Totals.__slots__))
        tables = tuple(TableReport(t.name, t.rows, t.embedding_dim, t.dtype, t.bytes) for t in self._program.tables)
        return Report(
            backend=self._backend.name,
            id_policy=self._id_policy,
            tables=tables,
            num_columns=len(self._program.columns),
            num_inputs=len(self._program.inputs),
            calls=totals.calls,
            rows=totals.rows,
            zeroed_ids=totals.zeroed_ids,
            feed_seconds=totals.feed_ns * 1e-9,
            columns_seconds=totals.columns_ns * 1e-9,
            dense_seconds=totals.dense_ns * 1e-9,
        )

    def _compiled(self, weights: Weights) -> _State:
        problems = weights.misfits(self._program)
        if problems:
            raise ShapeError(
                "the weights do not fit the program", got=listed(problems), want="one a table and parameter"
            )
        columns = tuple(
            self._backend.compile(self._program, weights, layout, id_policy=self._id_policy, threads=self._threads)
            for layout in self._layouts
        )
        params = {name: _aligned(weights.params[name]) for name, _, _ in self._program.params}
        kept = frozenset(t.untyped_storage().data_ptr() for t in params.values())
        return _State(weights, columns, DensePlan(self._program, params), kept)


def _aligned(param: torch.Tensor) -> torch.Tensor:
    """The same values at a multiple of 64 bytes: a matrix product's last bits depend on where its operands lie."""
    if param.is_contiguous() and param.data_ptr() % ALIGNMENT == 0:
        return param
    return torch.empty(param.shape, dtype=param.dtype).copy_(param)


def _owned(values: Mapping[str, Any], request: Request, state: _State) -> dict[str, Any]:
    """The outputs as the caller gets them; what lies in an input, a parameter or another output is copied."""
    taken = {t.untyped_storage().data_ptr() for t in request.tensors.values() if isinstance(t, torch.Tensor)}
    taken |= state.kept
    outputs: dict[str, Any] = {}
    for name, value in values.items():
        if not isinstance(value, torch.Tensor):
            outputs[name] = np.array(value)
            continue
        storage = value.untyped_storage().data_ptr()
        if storage in taken:
            value = value.clone()
        else:
            taken.add(storage)
        outputs[name] = value if request.is_torch else value.numpy()
    return outputs
