"""`colonnade explain ARTIFACT|MODEL`: what the compilation did, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from colonnade.cli.common import (
    Debug,
    GpuTableBudget,
    Json,
    Outputs,
    Progress,
    ShowProgress,
    Signature,
    Tags,
    console,
    human_bytes,
    names,
    num_bytes,
    print_json,
    table,
    verb,
    write_text,
)
from colonnade.cli.models import open_program
from colonnade.errors import OptionError
from colonnade.ir.program import Program, Weights
from colonnade.testing import html
from colonnade.testing.explain import details, explain_column
from colonnade.testing.timing import human_seconds

SHOWN = 12
GPU = "gpu"


@verb
def explain(
    path: Annotated[Path, typer.Argument(help="An artifact or a SavedModel.")],
    column: Annotated[str | None, typer.Option("--column", "-c", help="Only this column, with its decisions.")] = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="Write a report to this file.")] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="gpu: what its kernel is, whether or not there is a GPU.")
    ] = None,
    gpu_table_budget: GpuTableBudget = None,
    signature: Signature = None,
    outputs: Outputs = None,
    tags: Tags = None,
    json_: Json = False,
    progress: ShowProgress = False,
    debug: Debug = False,
) -> None:
    """Say what became of every node: columns, tables, guards with their proofs, and what stayed."""
    if target not in (None, GPU):
        raise OptionError("there is nothing to explain of this target", got=repr(target), want=GPU)
    budget = num_bytes(gpu_table_budget)
    if target is None and budget is not None:
        raise OptionError("only the target 'gpu' has a budget for tables", help="explain --target gpu")
    with Progress(progress) as say:
        opened = open_program(path, say, signature=signature, outputs=names(outputs), tags=names(tags))
    program, explanation = opened.program, opened.explanation
    if column is not None:
        found = explain_column(program, explanation, column)
    else:
        found = details(program, explanation, opened.weights)
    if target is not None:
        found[GPU] = explain_gpu(program, opened.weights, column, budget)
    text = column_report(found) if column is not None else report(found)
    if html_file is not None:
        write_text(html_file, text)
    if json_:
        print_json(found)
    elif column is not None:
        show_column(console(), found)
    else:
        show(console(), found)


Section = tuple[str, tuple[str, ...], list[tuple[Any, ...]], tuple[int, ...]]


def explain_gpu(
    program: Program, weights: Weights, column: str | None, table_budget: int | None = None
) -> dict[str, Any]:
    """What the gpu backend makes of a program, or of one column. Errors: OptionError where Triton is missing."""
    try:
        from colonnade.testing import explain_gpu as of_gpu
    except ModuleNotFoundError as error:
        raise OptionError(
            "the target 'gpu' cannot be explained here", got=f"no {error.name}", help="pip install 'colonnade[gpu]'"
        ) from error
    if column is not None:
        return of_gpu.column_details(program, weights, column, table_budget=table_budget)
    return of_gpu.details(program, weights, table_budget=table_budget)


def sections(found: dict[str, Any]) -> list[Section]:
    """The tables of a report: title, headers, rows, columns of numbers."""
    return gpu_sections(found[GPU]) if GPU in found else model_sections(found)


def gpu_sections(found: dict[str, Any]) -> list[Section]:
    """The tables of the gpu backend's report."""
    made: list[Section] = [(f"gpu: {found['how']}", ("", ""), _gpu_facts(found), ())]
    for place, layout in enumerate(found["layouts"]):
        made += _layout_sections(f"kernel {place}" if len(found["layouts"]) > 1 else "the kernel", layout)
    tables = found["tables"]
    sizes = f"{human_bytes(tables['device_bytes'])} on the device, {human_bytes(tables['host_bytes'])} in host memory"
    if tables["host_bytes"]:
        sizes = f"{sizes}, {tables['host_tables_are']}"
    places = sorted(tables["places"], key=lambda t: -t["bytes"])
    rows = [(t["table"], human_bytes(t["bytes"]), "device" if t["on_device"] else "host", t["why"]) for t in places]
    return [*made, (f"tables: {sizes}", ("table", "size", "lies in", "why"), rows, (1,))]


def _gpu_facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    padded = "to a few sizes" if found["padded"] else "not padded: every batch size has a graph of its own"
    rows = [
        ("launches a request", f"{found['launches_a_request']} for all {found['num_columns']:,} columns"),
        ("batches", f"{padded}; {found['padding']}"),
        ("CUDA graph", "a request is one replay" if found["captured"] else "none: " + "; ".join(found["uncaptured"])),
    ]
    if found["dense_on_host"]:
        rows[2] = ("CUDA graph", "of the columns")
    return rows + [("dense rest on the host", why) for why in found["dense_on_host"]]


def _layout_sections(name: str, layout: dict[str, Any]) -> list[Section]:
    code, data, device = layout["code"], layout["data"], layout["device"]
    options = ", ".join(f"{k} {v}" for k, v in code["options"].items())
    tiled = layout["tiled_by_elements"]
    descriptors, header = human_bytes(data["descriptor_bytes"]), human_bytes(data["header_bytes"])
    facts = [
        ("rows", layout["rows"]),
        ("code", f"{code['lines']:,} lines, {code['arguments']} arguments ({options}), sha256 {code['sha256']}"),
        ("data", f"descriptors {descriptors}; a request's header {header}"),
    ]
    if device is not None:
        facts.append(("on " + device["name"], _device_text(device)))
    structures = [
        (
            s["structure"],
            s["kind"],
            s["units"],
            s["lookups"],
            s["columns"],
            f"{s['tile']} {s['of']}",
            s["words"],
            s["lines"],
            ", ".join(s["uses"]),
        )
        for s in layout["structures"]
    ]
    batches = [
        (b["batch"], b["programs"], "" if b["waves"] is None else f"{b['waves']:.2f}") for b in layout["batches"]
    ]
    heads = ("", "kind", "units", "lookups", "columns", "a tile", "words a unit", "lines", "device functions")
    more = f", and tiles of the elements of {tiled} units, which only a request can count" if tiled else ""
    return [
        (name, ("", ""), facts, ()),
        (f"{name}: {len(structures)} structures", heads, structures, (0, 2, 3, 4, 6, 7)),
        (f"{name}: programs a batch{more}", ("batch", "programs", "waves"), batches, (0, 1, 2)),
    ]


def _device_text(device: dict[str, Any]) -> str:
    return (
        f"{device['registers']} registers, {device['stack']} bytes of stack a thread; {device['warps']} warps, "
        f"{human_bytes(device['shared'])} of shared memory a program; {device['resident_programs']} programs at a time "
        f"on each of {device['multiprocessors']} multiprocessors"
    )


def model_sections(found: dict[str, Any]) -> list[Section]:
    """The tables of what the compilation did."""
    share = f"{found['nodes_before']:,} -> {found['nodes_after']:,} graph nodes, {found['share_removed']:.1%} removed"
    passes = [(p["pass_name"], p["before"], p["after"], human_seconds(p["seconds"])) for p in found["passes"]]
    tables = [
        (t["name"], f"{t['rows']:,}", t["embedding_dim"], t["dtype"], human_bytes(t["bytes"])) for t in found["tables"]
    ]
    kept = found["guards_kept_by_reason"]
    kinds = [(k["columns"], k["kind"]) for k in found["kinds"]]
    return [
        *warning_sections(found),
        (
            "ops: " + share,
            ("op", "before", "after"),
            [(o["op"], o["before"], o["after"]) for o in found["ops"]],
            (1, 2),
        ),
        (f"embedding graph: {embedding_text(found)}", ("columns", "kind"), kinds, (0,)),
        ("passes", ("pass", "nodes before", "after", "time"), passes, (1, 2, 3)),
        (
            f"columns: {found['num_columns']:,}",
            ("columns", "structure"),
            [(s["columns"], s["structure"]) for s in found["structures"]],
            (0,),
        ),
        (
            f"tables: {found['num_tables']:,}, {human_bytes(found['table_bytes'])}",
            ("table", "rows", "embedding_dim", "dtype", "size"),
            tables,
            (1, 2, 4),
        ),
        *stored_sections(found),
        (
            f"guards removed: {found['guards_removed']:,}",
            ("count", "proof"),
            [(g["count"], g["reason"]) for g in found["guards_removed_by_proof"]],
            (0,),
        ),
        (
            f"guards kept: {found['guards_kept']:,}",
            ("count", "reason"),
            [(g["count"], g["reason"]) for g in kept],
            (0,),
        ),
        (
            f"rewrites: {sum(r['count'] for r in found['rewrites']):,}",
            ("count", "pass", "op", "proof"),
            [(r["count"], r["pass"], r["op"], r["reason"]) for r in found["rewrites"]],
            (0,),
        ),
        (
            f"declined: {sum(r['count'] for r in found['declined']):,}",
            ("count", "pass", "op", "reason"),
            [(r["count"], r["pass"], r["op"], r["reason"]) for r in found["declined"]],
            (0,),
        ),
        *_decode_sections(found),
        *_zero_sections(found),
        (
            f"dense rest: {found['dense_lines']:,} torch calls",
            ("op", "value", "source"),
            [(d["op"], d["output"], d["source"]) for d in found["dense"]],
            (),
        ),
    ]


def embedding_text(found: dict[str, Any]) -> str:
    """How much of the columns' part of the source is left."""
    return (
        f"{found['embedding_before']:,} operators -> {found['embedding_after']:,}, "
        f"{found['embedding_share_removed']:.1%} removed; {found['num_columns']:,} columns in one kernel"
    )


def _decode_sections(found: dict[str, Any]) -> list[Section]:
    """What a request's Examples become, on the host whatever the target."""
    rows = [(d["key"], d["features"], d["read"]) for d in found["decodes"]]
    title = "serialized Examples: the host reads them before the columns run, for a device too"
    return [(title, ("key", "features checked", "of these read"), rows, (1, 2))] if rows else []


def _zero_sections(found: dict[str, Any]) -> list[Section]:
    """The products that skip zeros of marks; nothing where there are none."""
    rows = [
        (
            s["product"],
            s["of"],
            s["elements"],
            s["skipped"],
            ", ".join(f"{begin} to {end}" for begin, end in s["ranges"]),
            ", ".join(s["columns"]),
            s["source"],
        )
        for s in found["skipped_zeros"]
    ]
    title = "zeros of marks that products on a CPU do not multiply"
    headers = ("product", "of", "elements a row", "of these mostly zero", "which", "columns", "source")
    return [(title, headers, rows, (2, 3))] if rows else []


def stored_sections(found: dict[str, Any]) -> list[Section]:
    """The columns whose tables are stored in another type, the worst first; nothing where there are none."""
    rows = [
        (c["column"], c["table"], c["dtype"], f"{c['largest_error']:.3g}", f"{c['rms_error']:.3g}")
        for c in found["stored_columns"]
    ]
    title = f"columns of tables stored in other types: {len(rows):,}"
    headers = ("column", "table", "stored as", "largest error", "rms error")
    return [(title, headers, rows, (3, 4))] if rows else []


def warning_sections(found: dict[str, Any]) -> list[Section]:
    """What is legal and surely unwanted; nothing where there is nothing."""
    rows = [(w["kind"], w["message"], w["where"], w["got"], w["help"]) for w in found["warnings"]]
    return [(f"warnings: {len(rows):,}", ("kind", "what", "where", "got", "help"), rows, ())] if rows else []


def show(out: Console, found: dict[str, Any]) -> None:
    """The report on a terminal: the first rows of each table."""
    out.print(f"{found['model'] or 'a program'}, signature {found['signature'] or '-'}", markup=False)
    out.print(f"{found['source_nodes']:,} source nodes")
    show_sections(out, sections(found), "--json or --html has all")


def show_sections(out: Console, made: list[Section], more: str) -> None:
    """Tables on a terminal, their first rows; more: where the others are."""
    for title, headers, rows, numbers in made:
        out.print("")
        limit = len(rows) if title == "passes" else SHOWN
        out.print(table(title, headers, rows[:limit], numbers=numbers))
        if len(rows) > limit:
            out.print(f"... and {len(rows) - limit} more ({more})")


def report(found: dict[str, Any]) -> str:
    """The report as HTML."""
    model, signature = found["model"] or "a program", found["signature"] or "-"
    lead = f"{model}, signature {signature}, {found['source_nodes']:,} source nodes"
    parts = [
        html.section(title, html.table(headers, rows, numbers)) for title, headers, rows, numbers in sections(found)
    ]
    return html.page("What Colonnade did", [html.paragraph(lead), *parts])


def _facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    made = found["table"]
    rows = [
        ("source", f"{found['source']}  ({found['source_nodes']} source nodes)"),
        *(("field", f"{f['name']}: {f['dtype']}[{', '.join(f['shape'])}]") for f in found["fields"]),
        ("structure", found["structure"]),
        ("ids", found["ids"] + ("  (proven to lie in the table)" if found["ids_proven"] else "")),
        *(("filter", f) for f in found["filters"]),
    ]
    if found["weights"]:
        rows.append(("weights", found["weights"]))
    rows += [
        ("constant", f"{c['op']}.{c['name']}: {c['length']} values, {', '.join(map(str, c['first']))} ...")
        for c in found["constants"]
    ]
    if made is None:
        rows.append(("table", "none: the value itself"))
    else:
        size = f"{made['rows']:,} x {made['embedding_dim']}, {made['dtype']}, {human_bytes(made['bytes'])}"
        rows.append(("table", f"{made['name']}  ({size})"))
    if found["stored"] is not None:
        errors = found["stored"]
        rows.append(
            ("stored", f"{errors['dtype']}; largest error {errors['largest_error']:.3g}, rms {errors['rms_error']:.3g}")
        )
    empty = "zeros" if found["default_row"] is None else f"row {found['default_row']}"
    rows.append(("pooling", f"{found['pooling']}; a row without elements: {empty}"))
    rows += [("slot", f"{s['buffer']}[{s['offset']}:{s['offset'] + s['width']}]") for s in found["slots"]]
    return rows + (_gpu_rows(found[GPU]) if GPU in found else [])


def _gpu_rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    if not found:
        return [("gpu", "no output needs the column: nothing is launched for it")]
    shared = found["shares_ids_with"]
    return [
        (
            "gpu",
            f"structure {found['structure']} ({found['kind']}): {found['units']} units, {found['lookups']} lookups, "
            f"{found['tile']} {found['of']} a tile",
        ),
        ("ids computed once for", ", ".join(shared) or "this column alone"),
        ("its structure's code", found["code"]),
    ]


def _decisions(found: dict[str, Any]) -> list[tuple[str, str, str, str, str]]:
    return [
        (d["pass_name"], "did" if d["applied"] else "declined", d["op"], d["source"], d["reason"])
        for d in found["decisions"]
    ]


HEADERS = ("pass", "", "op", "source node", "proof or reason")


def show_column(out: Console, found: dict[str, Any]) -> None:
    """One column on a terminal."""
    out.print(table(f"column {found['name']}", ("", ""), _facts(found)))
    out.print("")
    out.print(table("decisions among its source nodes", HEADERS, _decisions(found)))


def column_report(found: dict[str, Any]) -> str:
    """One column as HTML."""
    parts = [
        html.table(("", ""), _facts(found)),
        html.section("Decisions among its source nodes", html.table(HEADERS, _decisions(found))),
    ]
    return html.page(f"Column {found['name']}", parts)
