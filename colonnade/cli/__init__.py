"""The command line: one file a verb."""

from __future__ import annotations

import io
import sys


def main() -> None:
    """The entry point of `colonnade`. Ctrl-C during the seconds that the imports take is an interruption too."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack the letters of a name
    try:
        from colonnade.cli.app import app

        app()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)  # common.INTERRUPTED, which may not be imported yet
