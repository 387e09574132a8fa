"""A compiled program that answers requests."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from colonnade import artifact
from colonnade.artifact import Golden, Progress, Written
from colonnade.backends.backend import Backend, Runner, layouts
from colonnade.backends.examples import LOOPS
from colonnade.backends.feed import Feed, FeedReader, PackedFeed
from colonnade.config import most_threads
from colonnade.core.fork import PROCESS, Lock, in_one_thread
from colonnade.errors import ArtifactError, OptionError, ShapeError, listed, told
from colonnade.ir.column import ID_POLICIES
from colonnade.ir.explanation import Explanation
from colonnade.ir.program import Program, Weights

SHORT = 64
_TEXTS = np.array([b"%d" % number for number in range(1024)], object)
"""Small numbers in decimal: an array of more than `SHORT` of them is looked up rather than written."""
FORKED = "this process was forked: torch takes one thread for a call; start processes with 'spawn' for more"


@dataclass(frozen=True, slots=True)
class TableReport:
    """The memory of one table. place: `host` or `device`."""

    name: str
    rows: int
    embedding_dim: int
    dtype: str
    bytes: int
    place: str = "host"


@dataclass(frozen=True, slots=True)
class Report:
    """What an executable holds and what it has done since it was made.

    zeroed_ids: ids outside their table that the policy `zero` replaced.
    seconds: totals over all calls of each part, in order: `feed`, then those that the backend tells apart.
    notes: what costs time in every call and could be otherwise, in words.
    """

    backend: str
    id_policy: str
    tables: tuple[TableReport, ...]
    num_columns: int
    num_inputs: int
    calls: int
    rows: int
    zeroed_ids: int
    seconds: Mapping[str, float]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """For people: a line for all calls, one a table, one a note."""
        held = f"{self.num_columns:,} columns of {self.num_inputs:,} inputs on {self.backend}"
        parts = ", ".join(f"{part} {1e3 * seconds:.3g} ms" for part, seconds in self.seconds.items())
        done = f"{self.calls:,} calls, {self.rows:,} rows, {self.zeroed_ids:,} ids set to zero"
        width = max((len(t.name) for t in self.tables), default=0)
        head = f"{'table':<{width}} {'rows':>12} {'dim':>5} {'dtype':<12} {'bytes':>15} place"
        lines = [
            f"{t.name:<{width}} {t.rows:>12,} {t.embedding_dim:>5} {t.dtype:<12} {t.bytes:>15,} {t.place}"
            for t in self.tables
        ]
        total = f"{len(self.tables):,} tables, {self.table_bytes:,} bytes"
        first = [f"{held}, id policy {self.id_policy}", done + (parts and f"; {parts}")]
        return "\n".join([*first, *([head, *lines] if lines else []), total, *self.notes])

    @property
    def table_bytes(self) -> int:
        """The memory of all tables."""
        return sum(t.bytes for t in self.tables)

    @property
    def feed_seconds(self) -> float:
        """The time of reading requests."""
        return self.seconds.get("feed", 0.0)

    @property
    def columns_seconds(self) -> float:
        """The time of the columns; 0 where the backend does not tell it apart."""
        return self.seconds.get("columns", 0.0)

    @property
    def dense_seconds(self) -> float:
        """The time of the dense rest; 0 where the backend does not tell it apart."""
        return self.seconds.get("dense", 0.0)


@dataclass(frozen=True, eq=False, slots=True)
class _State:
    """Everything a call needs, read once at its start, so that a swap never mixes two sets of weights."""

    weights: Weights
    runner: Runner
    golden: Golden | None


@dataclass(slots=True)
class _Totals:
    calls: int = 0
    rows: int = 0
    zeroed_ids: int = 0
    nanoseconds: dict[str, int] = field(default_factory=dict)


class Executable:
    """`executable(feed) -> {output name: array}`; safe for concurrent callers.

    threads: what a backend may use for the columns of one call; torch's own threads are left alone.
    id_policy: `error` (an id outside its table is an IdRangeError) or `zero` (it stands for a vector of zeros).
    Facts: in a child of `fork`, torch takes one thread for a call: its others do not live there.
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
        problems = []
        if id_policy not in ID_POLICIES:
            problems.append((f"id_policy={id_policy!r}", f"id_policy one of {', '.join(ID_POLICIES)}"))
        if type(threads) is not int or not 1 <= threads <= most_threads():
            problems.append((f"threads={threads!r}", f"threads a whole number, 1 to {most_threads()} on this machine"))
        if problems:
            got, want = zip(*problems, strict=True)
            raise OptionError("options that cannot be used", got=listed(got), want=listed(want))
        self.explanation = explanation or Explanation()
        self.fingerprint = fingerprint
        self._program = program
        self._backend = backend
        self._id_policy = id_policy
        self._threads = threads
        self._layouts = layouts(program)
        self._totals = _Totals()
        self._totals_lock = Lock()
        self._swap_lock = Lock()
        self._state = self._compiled(weights, golden)
        self._decimals = tuple(o.name for o in program.outputs if o.decimal)
        self._labels = tuple((o.name, o.label) for o in program.outputs if o.label is not None)
        self._reader = FeedReader(program, self._layouts, self._state.runner.dense_inputs, threads)

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

    @property
    def golden(self) -> Golden | None:
        """Recorded rows, and what these weights answered."""
        return self._state.golden

    @property
    def reader(self) -> FeedReader:
        """Reads requests of the program: for callers that read and answer apart."""
        return self._reader

    @property
    def runner(self) -> Runner:
        """What answers requests that are read already; a swap puts another in its place."""
        return self._state.runner

    def __call__(self, feed: Feed | PackedFeed) -> dict[str, Any]:
        """The outputs by name: torch tensors where the request held one, else numpy arrays; all owned by the caller.

        Facts: an output of bfloat16, which numpy has not, is a float32 array of the same values.
        Errors: FeedError that lists every bad key; IdRangeError under the policy `error`.
        """
        if PROCESS.forked and torch.get_num_threads() > 1:
            return in_one_thread(self.__call__)(feed)
        runner = self._state.runner
        began = time.perf_counter_ns()
        room = runner.reserve()
        try:
            request = self._reader.read(feed, room)
            read = time.perf_counter_ns()
            outcome = runner.run(request, room)
        finally:
            if room is not None:
                room.close()
        with self._totals_lock:
            totals = self._totals
            totals.calls += 1
            totals.rows += request.packed[0].rows if request.packed else 0
            totals.zeroed_ids += outcome.zeroed
            spent = totals.nanoseconds
            spent["feed"] = spent.get("feed", 0) + read - began
            for part, nanoseconds in outcome.nanoseconds.items():
                spent[part] = spent.get(part, 0) + nanoseconds
        for name in self._decimals:
            outcome.outputs[name] = _decimal(outcome.outputs[name])
        for name, label in self._labels:
            outcome.outputs[name] = label.texts(np.asarray(outcome.outputs[name]), f"output {name!r}")
        return outcome.outputs

    def swap(self, source: Weights | Path | str) -> None:
        """Puts other weights of the same shapes in force, for every call that begins after it; calls under way finish
        with the old ones. The recorded rows of the old ones are dropped; those of an artifact come with its weights.

        source: weights, or the directory of an artifact of the same program.
        Errors: ShapeError that lists every weight that is missing or misshapen, ArtifactError where the artifact is
        damaged or of another program; the old weights then stay.
        """
        if not isinstance(source, Weights | Path | str):
            raise OptionError(
                "neither weights nor the directory of an artifact",
                got=type(source).__name__,
                want="Weights, Path or str",
            )
        weights, golden = (source, None) if isinstance(source, Weights) else self._loaded(Path(source))
        with self._swap_lock:
            self._state = self._compiled(weights, golden)

    def save(self, directory: Path | str, *, golden: Golden | None = None, progress: Progress | None = None) -> Written:
        """Write an artifact that `colonnade.load` reads, in place of the one that may stand there.

        golden: recorded rows to keep instead of those it has.   progress(file, bytes done, bytes in all).
        Errors: ArtifactError; what stood at `directory` then stays.
        """
        state = self._state
        problem = "the artifact cannot be written"
        with told(ArtifactError, problem, directory), tempfile.TemporaryDirectory() as folder:
            decoding = LOOPS.export_code(Path(folder)) if self._program.decodes else ()
            compiled = {path.name: path for path in (*self._backend.export_compiled(Path(folder)), *decoding)}
            return artifact.save(
                directory,
                self._program,
                state.weights,
                compiled=compiled,
                golden=golden or state.golden,
                explanation=self.explanation,
                source=self.fingerprint,
                id_policy=self._id_policy,
                progress=progress,
            )

    def _loaded(self, directory: Path) -> tuple[Weights, Golden | None]:
        loaded = artifact.load(directory)
        if loaded.program != self._program:
            raise ArtifactError(
                "the artifact is of another program", where=str(directory), help="load it, or compile with --like"
            )
        return loaded.weights, loaded.golden

    def report(self) -> Report:
        """What it holds and what it has done so far."""
        with self._totals_lock:
            totals = replace(self._totals, nanoseconds=dict(self._totals.nanoseconds))
        places = self._state.runner.table_places
        tables = tuple(
            TableReport(t.name, t.rows, t.embedding_dim, t.dtype, t.bytes, places[t.name]) for t in self._program.tables
        )
        return Report(
            backend=self._backend.name,
            id_policy=self._id_policy,
            tables=tables,
            num_columns=len(self._program.columns),
            num_inputs=len(self._program.inputs),
            calls=totals.calls,
            rows=totals.rows,
            zeroed_ids=totals.zeroed_ids,
            seconds={part: nanoseconds * 1e-9 for part, nanoseconds in totals.nanoseconds.items()},
            notes=(*self._state.runner.notes, *((FORKED,) if PROCESS.forked else ())),
        )

    @in_one_thread
    def _compiled(self, weights: Weights, golden: Golden | None) -> _State:
        problems = weights.misfits(self._program)
        if problems:
            raise ShapeError(
                "the weights do not fit the program", got=listed(problems), want="one a table and parameter"
            )
        runner = self._backend.prepare(
            self._program, weights, self._layouts, id_policy=self._id_policy, threads=self._threads
        )
        return _State(weights, runner, golden)


def _decimal(value: Any) -> Any:
    """Integers as an object array of bytes."""
    integers = np.asarray(value)
    if integers.size > SHORT and integers.min() >= 0 and integers.max() < len(_TEXTS):
        return _TEXTS[integers]
    made = np.empty(integers.size, object)
    made[:] = [b"%d" % number for number in integers.reshape(-1).tolist()]
    return made.reshape(integers.shape)
