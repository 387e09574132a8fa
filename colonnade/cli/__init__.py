"""The command line: one file a verb."""

from __future__ import annotations

from colonnade.cli.app import app


def main() -> None:
    """The entry point of `colonnade`."""
    app()
