"""The verbs, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from colonnade import __version__
from colonnade.cli.bench import bench
from colonnade.cli.compile import compile
from colonnade.cli.explain import explain
from colonnade.cli.ops import ops
from colonnade.cli.opt import opt
from colonnade.cli.passes import passes
from colonnade.cli.run import run
from colonnade.cli.verify import verify
from colonnade.cli.warmup import warmup

VERBS = (compile, run, verify, explain, bench, opt, ops, passes, warmup)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Every embedding column of a recommendation model in one fused kernel.",
)
for _verb in VERBS:
    app.command()(_verb)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Every embedding column of a recommendation model in one fused kernel."""
