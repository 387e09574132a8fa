"""From a model as its owner has it to an `Executable`: the only file that knows every layer."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from colonnade import artifact
from colonnade.backends.backend import Backend
from colonnade.backends.cpu import CpuBackend
from colonnade.backends.examples import LOOPS
from colonnade.backends.reference import ReferenceBackend
from colonnade.config import settings
from colonnade.core import facts, quantize
from colonnade.core.expr import Apply, walk
from colonnade.core.fork import in_one_thread
from colonnade.core.quantize import NARROW
from colonnade.errors import ArtifactError, OptionError
from colonnade.executable import Executable
from colonnade.frontends.tensorflow.importer import Imported, import_saved_model, open_source
from colonnade.ir.check_program import check as check_program
from colonnade.ir.column import ID_POLICIES
from colonnade.ir.explanation import ColumnOrigin, Decision, Explanation, PassCount
from colonnade.ir.graph import Graph
from colonnade.ir.infer import Memo
from colonnade.ir.made_table import rows_of
from colonnade.ir.program import Program, Weights, param_value
from colonnade.ir.table import Table
from colonnade.ir.table_types import Wanted, store_all, with_types
from colonnade.passes.assemble import assemble
from colonnade.passes.base import Log, Pass, run
from colonnade.passes.pipelines import COLUMNS, WARNINGS
from colonnade.passes.warnings.base import warnings_of

Progress = Callable[[str], None]
Observer = Callable[[str, Graph], None]

DEFAULT_TARGET, GPU = "cpu", "gpu"


def _gpu(table_budget: int | None = None) -> Backend:
    """Triton need not be installed where no program is compiled for a GPU."""
    if "tensorflow" in sys.modules and "triton" not in sys.modules:  # a segmentation fault would end the process
        raise OptionError(
            "the target 'gpu' cannot be used here any more",
            got="TensorFlow was imported before Triton in this process",
            help="import triton before tensorflow, or run one of them in a process of its own",
        )
    try:
        from colonnade.backends.gpu.backend import GpuBackend
    except ModuleNotFoundError as error:
        raise OptionError(
            "the target 'gpu' cannot be used here", got=f"no {error.name}", help="pip install 'colonnade[gpu]'"
        ) from error
    return GpuBackend(table_budget=table_budget)


TARGETS: Mapping[str, Callable[[], Backend]] = {"cpu": CpuBackend, GPU: _gpu, "reference": ReferenceBackend}


def backend(target: str, *, gpu_table_budget: int | None = None) -> Backend:
    """The backend of that name. Errors: OptionError that names those there are; for a budget that it does not take."""
    if target not in TARGETS:
        raise OptionError("no such target", got=repr(target), want=", ".join(TARGETS))
    if gpu_table_budget is None:
        return TARGETS[target]()
    if target != GPU:
        raise OptionError(
            "only the target 'gpu' has a budget for tables",
            got=f"{gpu_table_budget:,} bytes for the target {target!r}",
            help="leave the budget out, or name the target 'gpu'",
        )
    return _gpu(gpu_table_budget)


@in_one_thread
def compile(
    model: str | Path | Program,
    target: str = DEFAULT_TARGET,
    signature: str | None = None,
    *,
    weights: Weights | None = None,
    outputs: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    id_policy: str = ID_POLICIES[0],
    threads: int | None = None,
    table_dtype: Wanted = None,
    gpu_table_budget: int | None = None,
    check: str = "fast",
    observe: Observer | None = None,
    progress: Progress | None = None,
) -> Executable:
    """Compile a SavedModel directory, or a program with its weights, for a target.

    table_dtype: float16, bfloat16 or int8-rowwise: how tables are stored, instead of float32; or a type by each
    table's name (`*`: all others).
    gpu_table_budget: bytes of tables that the target `gpu` may hold on the device; the others stay in host memory,
    where the host pools them or, with few threads, the kernel reads their rows over the bus. None: it holds all.
    id_policy: `error` (an id outside its table is an IdRangeError) or `zero` (it stands for a vector of zeros, and is
    counted).
    check: `full` compares the checksums of all variables that the program needs, which reads every byte of them.
    observe(pass name, graph): called after each pass.   progress(what): called as each part begins.
    Errors: ImportFailure, UnsupportedOps, GraphError, OptionError.
    """
    chosen = backend(target, gpu_table_budget=gpu_table_budget)
    if isinstance(model, Program):
        if not isinstance(weights, Weights):
            got = "none" if weights is None else type(weights).__name__
            raise OptionError("a program needs its weights", got=got, help="colonnade.compile(program, weights=...)")
        check_program(model)
        program, fingerprint = model, ""
        explanation = Explanation(warnings=warnings_of(program, WARNINGS))
    else:
        program, weights, explanation, fingerprint = lower(
            model, signature, outputs=outputs, tags=tags, check=check, observe=observe, progress=progress
        )
    if table_dtype is not None:
        began = _say(progress, "store tables")
        program, weights, stored = with_types(program, weights, table_dtype, progress)
        explanation = replace(explanation, tables=stored)
        explanation.seconds["tables"] = time.perf_counter() - began  # type: ignore[index]
    began = _say(progress, f"compile {len(program.columns)} columns for {target}")
    executable = Executable(
        program,
        weights,
        chosen,
        id_policy=id_policy,
        threads=_threads(threads),
        explanation=explanation,
        fingerprint=fingerprint,
    )
    executable.explanation.seconds["backend"] = time.perf_counter() - began  # type: ignore[index]
    return executable


def _threads(given: int | None) -> int:
    """As given, whatever it is: the executable refuses what is no number of threads."""
    return settings().threads or 1 if given is None else given


def load(
    directory: str | Path,
    target: str | None = None,
    *,
    check: str = "fast",
    id_policy: str | None = None,
    threads: int | None = None,
    gpu_table_budget: int | None = None,
) -> Executable:
    """Load an artifact for a target (default: cpu); tables are memory-mapped and shared between processes.

    check: `fast` checks versions, sizes, and every hash but the tables'; `full` those too.
    id_policy: `error` or `zero`; None: as it was compiled.
    gpu_table_budget: as in `compile`.
    Errors: ArtifactError that lists every damaged file; OptionError.
    """
    chosen = backend(target or DEFAULT_TARGET, gpu_table_budget=gpu_table_budget)
    loaded = artifact.load(directory, check=check)
    if loaded.compiled_dir is not None:
        chosen.import_compiled(loaded.compiled_dir)
        LOOPS.import_code(loaded.compiled_dir)
    return Executable(
        loaded.program,
        loaded.weights,
        chosen,
        id_policy=id_policy or loaded.manifest.id_policy,
        threads=_threads(threads),
        explanation=loaded.explanation,
        fingerprint=loaded.manifest.source,
        golden=loaded.golden,
    )


@in_one_thread
def refresh(
    model: str | Path,
    like: str | Path,
    directory: str | Path,
    *,
    tags: Sequence[str] | None = None,
    record: Callable[[Program, Weights, Explanation], artifact.Golden] | None = None,
    progress: artifact.Progress | None = None,
) -> artifact.Written:
    """Write an artifact with the model's weights and the program of the artifact `like`; only what changed is written.

    record: makes golden rows of the program with the new weights; without it, the old rows are kept only where no
    weight changed.
    Facts: tables keep their types, ids their policy.
    Errors: ArtifactError where the model's graph is not the one that `like` was compiled from; ImportFailure that lists
    the variables that do not match their checksums.
    """
    loaded = artifact.load(like)
    outputs = [o.name for o in loaded.program.outputs]
    source = open_source(model, loaded.explanation.signature or None, outputs, tags)
    if not artifact.same_source(loaded.manifest, source.fingerprint):
        raise ArtifactError(
            "the model's graph is not the one that the artifact was compiled from",
            where=f"{model} against {like}",
            help="compile it without --like",
        )
    rows = {t.name: _rows_of(t, source.store, loaded) for t in loaded.program.tables}
    params = {}
    for name, _, _ in loaded.program.params:
        value = param_value(name, source.store)
        params[name] = loaded.weights.params[name] if value is None else value
    source.store.check()
    narrow = [t for t in loaded.program.tables if t.dtype in NARROW]
    stored, facts_of_tables = store_all(narrow, rows)
    weights = Weights(rows | stored, params, loaded.weights.consts)
    explanation = replace(loaded.explanation, tables=facts_of_tables)
    golden = None if record is None else record(loaded.program, weights, explanation)
    return artifact.refresh(like, directory, weights, golden=golden, explanation=explanation, progress=progress)


def _rows_of(table: Table, store: Mapping[str, NDArray[Any]], loaded: artifact.Loaded) -> NDArray[Any]:
    """A table's rows: the variable's, or as they were where the table is part of the graph itself."""
    if table.made is not None:
        return rows_of(table.made, store)
    name = table.source or table.name
    if name in store:
        return store[name]
    return quantize.decode(loaded.weights.tables[table.name], table.dtype, table.embedding_dim)


@in_one_thread
def lower(
    model: str | Path,
    signature: str | None = None,
    *,
    outputs: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    passes: Sequence[Pass] = COLUMNS,
    check: str = "fast",
    observe: Observer | None = None,
    progress: Progress | None = None,
) -> tuple[Program, Weights, Explanation, str]:
    """Import, analyse and assemble: the program, its weights, what was done, and the source's fingerprint."""
    if check not in artifact.CHECKS:
        raise OptionError("no such check", got=repr(check), want=", ".join(artifact.CHECKS))
    with _collection_paused():
        try:
            return _lower(model, signature, outputs, tags, passes, check, observe, progress)
        finally:
            facts.forget()


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Python's cycle collector walks a hundred thousand live nodes again and again: a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _lower(
    model: str | Path,
    signature: str | None,
    outputs: Sequence[str] | None,
    tags: Sequence[str] | None,
    passes: Sequence[Pass],
    check: str,
    observe: Observer | None,
    progress: Progress | None,
) -> tuple[Program, Weights, Explanation, str]:
    seconds: dict[str, float] = {}
    began = _say(progress, f"import {model}")
    imported = import_saved_model(model, signature, outputs, tags)
    seconds["import"] = time.perf_counter() - began
    began = _say(progress, f"analyse {imported.nodes} nodes")
    before = imported.graph.histogram()
    cones = imported.cones
    log = run(passes, imported.graph, observe=observe, memo=Memo())
    seconds["passes"] = time.perf_counter() - began
    began = _say(progress, "assemble the program")
    reasons = {e.source: e.reason for e in log.rejected() if e.pass_name in ("ragged-inputs", "extract-columns")}
    program, weights = assemble(imported.graph, reasons)
    seconds["assemble"] = time.perf_counter() - began
    if check == "full":
        began = _say(progress, "compare checksums of variables")
        imported.check()
        seconds["check"] = time.perf_counter() - began
    explanation = _explanation(str(model), imported, log, before, program, cones, seconds)
    return program, weights, explanation, imported.fingerprint


def _explanation(
    model: str,
    imported: Imported,
    log: Log,
    before: Mapping[str, int],
    program: Program,
    cones: Callable[[str], frozenset[str]],
    seconds: dict[str, float],
) -> Explanation:
    decisions = tuple(Decision(e.pass_name, e.source, e.op, e.applied, e.reason) for e in log.events)
    by_source: dict[str, list[int]] = {}
    for index, decision in enumerate(decisions):
        by_source.setdefault(decision.source, []).append(index)
    origins = []
    embedding: set[str] = set()
    for column in program.columns:
        cone = cones(column.source)
        embedding |= cone & imported.operators
        found = sorted(i for name in cone for i in by_source.get(name, ()))
        origins.append(ColumnOrigin(column.name, column.source, len(cone), tuple(found)))
    return Explanation(
        model=model,
        signature=imported.signature,
        source_nodes=imported.nodes,
        embedding_before=len(embedding),
        embedding_after=_operators_left(program, embedding),
        ops_before=before,
        ops_after=imported.graph.histogram(),
        passes=tuple(PassCount(name, a, b, s) for name, a, b, s in log.counts),
        decisions=decisions,
        columns=tuple(origins),
        seconds=seconds,
        warnings=(*imported.warnings, *warnings_of(program, WARNINGS)),
    )


def _operators_left(program: Program, embedding: Set[str]) -> int:
    """What columns compute for each element, counted in each column, their lookups, and calls of the dense rest."""
    left = sum(line.source in embedding for line in program.dense)
    for column in program.columns:
        exprs = [column.ids, *column.filters, *([column.weights] if column.weights is not None else [])]
        left += 1 + len({x for expr in exprs for x in walk(expr) if isinstance(x, Apply)})
    return left


def _say(progress: Progress | None, what: str) -> float:
    if progress is not None:
        progress(what)
    return time.perf_counter()
