"""`colonnade ops`: the ops there are, and the foreign names that are understood."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Annotated, Any

import typer

import colonnade.ops
import colonnade.ops.graph
from colonnade.cli.common import Debug, Json, console, print_json, table, verb
from colonnade.errors import OptionError
from colonnade.frontends.tensorflow.branches import CONTROL
from colonnade.frontends.tensorflow.rules import RULES
from colonnade.frontends.tensorflow.spellings import SPELLINGS
from colonnade.ops.op import COLUMN_OPS, GRAPH_OPS, ExpandOp, FilterOp, GraphOp, MapOp, RaggedOp
from colonnade.testing.kinds import table as kind_table

FORMS = {MapOp: "map", FilterOp: "filter", ExpandOp: "expand", RaggedOp: "ragged"}


@verb
def ops(
    source: Annotated[str | None, typer.Option("--source", help="Foreign ops of this framework: tensorflow.")] = None,
    kinds: Annotated[bool, typer.Option("--kinds", help="What is understood, by kind of column and style.")] = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """List column ops and graph ops, the spellings of a framework, or the kinds of columns."""
    if source not in (None, "tensorflow"):
        raise OptionError("no such source", got=str(source), want="tensorflow")
    if kinds and source:
        raise OptionError("kinds are not those of one source", got=f"--source {source}", help="leave it out")
    if kinds:
        _show_kinds(json_)
        return
    found = tensorflow_spellings() if source else known_ops()
    if json_:
        print_json(found)
        return
    for title, rows in found.items():
        out = console()
        out.print(table(f"{title}: {len(rows)}", tuple(rows[0]) if rows else (), [tuple(r.values()) for r in rows]))
        out.print("")


def _show_kinds(json_: bool) -> None:
    if json_:
        print_json({"kinds": kind_table.rows()})
        return
    shown = [(k, *(kind_table.shown(k, style) for style in kind_table.STYLES)) for k in kind_table.kinds()]
    console().print(table("kinds of columns", ("kind", *kind_table.STYLES), shown))
    if reasons := list(kind_table.reasons()):
        console().print("")
        console().print(table("why not", ("kind", "reason"), reasons))


def known_ops() -> dict[str, list[dict[str, Any]]]:
    """Every op in the registries, with the first sentence of its docstring."""
    for package in (colonnade.ops, colonnade.ops.graph):
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    columns = [
        {"op": name, "form": next(f for base, f in FORMS.items() if issubclass(op, base)), "meaning": _said(op)}
        for name, op in sorted(COLUMN_OPS.items())
    ]
    graph = [{"op": name, "outputs": _outputs(op), "meaning": _said(op)} for name, op in sorted(GRAPH_OPS.items())]
    return {"column ops": columns, "graph ops": graph}


def _outputs(op: type[GraphOp]) -> int | str:
    return op.num_outputs if isinstance(op.num_outputs, int) else "as many as its attributes say"


def _said(op: type) -> str:
    return " ".join((op.__doc__ or "").strip().split("\n\n")[0].split())


def tensorflow_spellings() -> dict[str, list[dict[str, Any]]]:
    """The TensorFlow ops that can be imported."""
    one = [{"tensorflow op": name, "as": "one graph op"} for name in SPELLINGS]
    several = [{"tensorflow op": name, "as": "by a rule"} for name in RULES]
    control = [{"tensorflow op": name, "as": "control flow that is decided at import"} for name in CONTROL]
    return {"tensorflow ops": sorted(one + several + control, key=lambda row: row["tensorflow op"])}
