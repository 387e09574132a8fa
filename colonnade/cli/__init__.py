"""The command line: one file a verb."""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of `colonnade`. Ctrl-C during the seconds that the imports take is an interruption too."""
    try:
        from colonnade.cli.app import app

        app()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)  # common.INTERRUPTED, which may not be imported yet
