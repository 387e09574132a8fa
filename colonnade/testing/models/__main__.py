"""`python -m colonnade.testing.models NAME FOLDER`: make a test model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from colonnade.errors import ColonnadeError
from colonnade.testing.models.build import build
from colonnade.testing.models.catalog import named, with_large_rows
from colonnade.testing.models.recipes import recipe
from colonnade.testing.tensorflow import quiet_tensorflow

app = typer.Typer(add_completion=False)


@app.command()
def make(
    name: Annotated[
        str, typer.Argument(help="micro10, E, E10_varied, E_full_cols, ..._outputs, examples119, keras110")
    ],
    folder: Annotated[Path, typer.Argument(help="where to write the SavedModel; must not exist")],
    large_rows: Annotated[
        int | None, typer.Option("--large-rows", min=1, help="rows of each large table (as published: 8388608)")
    ] = None,
) -> None:
    """Make the SavedModel of a named test model."""
    quiet_tensorflow()
    try:
        if large_rows is None:
            recipe(name).build(folder)
        else:
            build(with_large_rows(named(name), large_rows), folder)
    except ColonnadeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    typer.echo(str(folder))


if __name__ == "__main__":
    app()
