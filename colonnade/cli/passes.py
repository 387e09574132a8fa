"""`colonnade passes`: the pipeline."""

from __future__ import annotations

from colonnade.cli.common import Debug, Json, console, print_json, table, verb
from colonnade.passes.pipelines import COLUMNS


@verb
def passes(json_: Json = False, debug: Debug = False) -> None:
    """List the passes in the order in which they run."""
    rows = [{"position": i, "pass": p.name, "summary": p.summary} for i, p in enumerate(COLUMNS, 1)]
    if json_:
        print_json({"passes": rows})
        return
    console().print(table("", ("", "pass", "what it does"), [tuple(r.values()) for r in rows], numbers=(0,)))
