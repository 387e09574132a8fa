"""`colonnade compile MODEL -o ARTIFACT`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from colonnade import artifact, compiler
from colonnade.artifact import Golden, Written
from colonnade.cli.common import (
    Debug,
    GpuTableBudget,
    IdPolicy,
    Json,
    Outputs,
    Progress,
    ShowProgress,
    Signature,
    Tags,
    Target,
    Threads,
    console,
    human_bytes,
    names,
    num_bytes,
    print_json,
    table,
    verb,
)
from colonnade.cli.explain import embedding_text, show_sections, stored_sections
from colonnade.errors import ColonnadeError, OptionError
from colonnade.executable import Executable
from colonnade.ir.column import ID_POLICIES
from colonnade.ir.explanation import Explanation
from colonnade.ir.graph import Graph
from colonnade.ir.graph_text import print_graph
from colonnade.ir.program import Program, Weights
from colonnade.ir.table_types import parse
from colonnade.ir.text import print_program
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing.explain import summary
from colonnade.testing.recording import record
from colonnade.testing.sides import TensorFlowSide, reference_side
from colonnade.testing.tensorflow import quiet_tensorflow
from colonnade.testing.timing import human_seconds

Out = Annotated[Path | None, typer.Option("--out", "-o", help="The artifact to write.")]


@verb
def compile(
    model: Annotated[Path, typer.Argument(help="A SavedModel folder.")],
    out: Out = None,
    signature: Signature = None,
    outputs: Outputs = None,
    tags: Tags = None,
    target: Target = "cpu",
    like: Annotated[
        Path | None, typer.Option("--like", help="An artifact of the same model with older weights: keep its program.")
    ] = None,
    record_rows: Annotated[int, typer.Option("--record", min=0, help="Keep so many golden rows in the artifact.")] = 0,
    id_policy: IdPolicy = None,
    threads: Threads = None,
    table_dtype: Annotated[
        list[str] | None,
        typer.Option(
            "--table-dtype",
            help="Store tables as float16, bfloat16 or int8-rowwise; TABLE=TYPE for one table. May be repeated.",
        ),
    ] = None,
    gpu_table_budget: GpuTableBudget = None,
    print_after: Annotated[
        str | None, typer.Option("--print-after", help="Print the graph after this pass, or after `all`.")
    ] = None,
    program_text: Annotated[bool, typer.Option("--print-program", help="Print the program's text.")] = False,
    no_save: Annotated[bool, typer.Option("--no-save", help="Write nothing.")] = False,
    json_: Json = False,
    progress: ShowProgress = False,
    debug: Debug = False,
) -> None:
    """Compile a model, its variables held against their checksums, and save it as an artifact."""
    if out is None and not no_save:
        raise OptionError("nowhere to save to", help="give -o ARTIFACT, or --no-save")
    if like is not None:
        _check_like(
            {
                "--signature": signature,
                "--outputs": outputs,
                "--target": target != compiler.DEFAULT_TARGET,
                "--id-policy": id_policy,
                "--threads": threads,
                "--table-dtype": table_dtype,
                "--gpu-table-budget": gpu_table_budget,
                "--print-after": print_after,
                "--print-program": program_text,
                "--no-save": no_save,
            }
        )
    budget = num_bytes(gpu_table_budget)
    with Progress(progress) as say:
        if like is not None:
            _refresh(model, like, out, record_rows, names(tags), json_, say)
            return
        executable = compiler.compile(
            model,
            target,
            signature,
            outputs=names(outputs),
            tags=names(tags),
            id_policy=id_policy or ID_POLICIES[0],
            threads=threads,
            table_dtype=parse(table_dtype),
            gpu_table_budget=budget,
            check="full",
            observe=_printer(print_after, json_),
            progress=say,
        )
        facts: dict[str, Any] = summary(executable.program, executable.explanation)
        golden = None
        if record_rows:
            say(f"record {record_rows} rows")
            of = executable.program, executable.weights, executable.explanation
            golden, facts["recorded_by"] = _golden(model, of, record_rows, names(tags), executable.report().id_policy)
            facts["recorded_rows"] = record_rows
        if out is not None and not no_save:
            began = time.perf_counter()
            executable.save(out, golden=golden, progress=say.bytes)
            facts["seconds"]["save"] = time.perf_counter() - began
            facts["artifact"] = str(out)
            facts["artifact_bytes"] = sum(p.stat().st_size for p in out.rglob("*") if p.is_file())
    _report(facts, executable, program_text, json_)


def _report(facts: dict[str, Any], executable: Executable, program_text: bool, json_: bool) -> None:
    if json_:
        print_json(facts | ({"program": print_program(executable.program)} if program_text else {}))
        return
    if program_text:
        typer.echo(print_program(executable.program))
    console().print(table("", ("", ""), summary_rows(facts)))
    show_sections(console(), stored_sections(facts), "--json has all")
    for notice in executable.explanation.warnings:
        console().print(f"\nwarning: {notice}", markup=False, highlight=False)


def summary_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The summary of a compilation, a line a fact."""
    rows = [
        ("model", f"{facts['model']}  (signature {facts['signature']})"),
        ("source nodes", f"{facts['source_nodes']:,}"),
        (
            "graph nodes",
            f"{facts['nodes_before']:,} -> {facts['nodes_after']:,}  ({facts['share_removed']:.1%} removed)",
        ),
        ("embedding graph", embedding_text(facts)),
        ("columns", f"{facts['num_columns']:,} in {len(facts['structures'])} structures"),
        *((f"  {s['columns']:,} x", s["structure"]) for s in facts["structures"]),
        ("tables", f"{facts['num_tables']:,}, {human_bytes(facts['table_bytes'])}"),
        *(
            (f"  {t['tables']:,} x", f"{t['dtype']}, {human_bytes(t['bytes'])}")
            for t in facts["table_types"]
            if facts["stored_columns"]
        ),
        ("guards", f"{facts['guards_removed']:,} proven and removed, {facts['guards_kept']:,} kept"),
        ("dense rest", f"{facts['dense_lines']:,} torch calls, {human_bytes(facts['param_bytes'])} of parameters"),
    ]
    if "recorded_by" in facts:
        rows.append(("golden rows", f"{facts['recorded_rows']}, answered by {facts['recorded_by']}"))
    if "artifact" in facts:
        rows.append(("artifact", f"{facts['artifact']}  ({human_bytes(facts['artifact_bytes'])})"))
    rows.append(("time", ", ".join(f"{part} {human_seconds(s)}" for part, s in facts["seconds"].items())))
    return rows


def _printer(after: str | None, json_: bool) -> Any:
    """Prints the graph after the named pass. Errors: OptionError for a pass that does not exist."""
    if after is None:
        return None
    known = {p.name for p in COLUMNS}
    if after != "all" and after not in known:
        raise OptionError("no such pass", got=after, want=", ".join(["all", *dict.fromkeys(sorted(known))]))

    def observe(name: str, graph: Graph) -> None:
        if after in ("all", name):
            typer.echo(f"after {name}\n{print_graph(graph, sources=True)}", err=json_)

    return observe


Compiled = tuple[Program, Weights, Explanation]


def _golden(
    model: Path, compiled: Compiled, rows: int, tags: tuple[str, ...] | None, policy: str
) -> tuple[Golden, str]:
    """The rows, and who answered: TensorFlow where it can run the model, else the reference backend.

    Facts: of tables in other types TensorFlow knows nothing.
    """
    program, weights, explanation = compiled
    reference = partial(reference_side, program, weights, compiler.backend("reference"), policy)
    if explanation.tables:
        side = reference()
        return record(program, side, rows), side.name
    quiet_tensorflow()
    try:
        oracle = TensorFlowSide(model, program, explanation.signature or None, tags or ("serve",))
    except ColonnadeError:
        side = reference()
        return record(program, side, rows), side.name
    try:
        return record(program, oracle, rows), oracle.name
    finally:
        oracle.close()


def _check_like(given: Mapping[str, object]) -> None:
    """Errors: OptionError that lists every option that says how to compile."""
    bad = [name for name, value in given.items() if value]
    if bad:
        raise OptionError(
            "nothing is compiled with --like: all but the weights stays as it is",
            got=", ".join(bad),
            help="leave these out, or compile without --like",
        )


def _refresh(
    model: Path, like: Path, out: Path | None, rows: int, tags: tuple[str, ...] | None, json_: bool, say: Progress
) -> None:
    if out is None:
        raise OptionError("nowhere to save to", help="give -o ARTIFACT with --like")
    say(f"read the weights of {model}")
    began = time.perf_counter()
    policy = artifact.read_manifest(like).id_policy
    recorded_by = ""

    def rows_of(*compiled: Any) -> Golden:
        nonlocal recorded_by
        say(f"record {rows} rows")
        golden, recorded_by = _golden(model, compiled, rows, tags, policy)
        return golden

    written: Written = compiler.refresh(
        model, like, out, tags=tags, record=rows_of if rows else None, progress=say.bytes
    )
    facts = {
        "model": str(model),
        "like": str(like),
        "artifact": str(out),
        "bytes_written": written.bytes_written,
        "bytes_reused": written.bytes_reused,
        "files_written": len(written.written),
        "files_reused": len(written.reused),
        "seconds": time.perf_counter() - began,
        **({"recorded_rows": rows, "recorded_by": recorded_by} if rows else {}),
    }
    if json_:
        print_json(facts)
        return
    shown = [
        ("artifact", f"{out}, like {like}"),
        ("written", f"{facts['files_written']} files, {human_bytes(written.bytes_written)}"),
        ("reused", f"{facts['files_reused']} files, {human_bytes(written.bytes_reused)}"),
        *([("golden rows", f"{rows}, answered by {recorded_by}")] if rows else []),
        ("time", human_seconds(time.perf_counter() - began)),
    ]
    console().print(table("", ("", ""), shown))
