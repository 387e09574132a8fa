"""What every verb shares: errors, progress, JSON, tables on the terminal."""

from __future__ import annotations

import functools
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import typer
from rich.console import Console, Group
from rich.status import Status
from rich.table import Table
from rich.text import Text

from colonnade.errors import ColonnadeError, OptionError

Function = TypeVar("Function", bound=Callable[..., Any])

UNITS = {"": 1, "b": 1} | {
    f"{letter}{suffix}": base ** (k + 1)
    for suffix, base in (("b", 1000), ("ib", 1024))
    for k, letter in enumerate("kmgt")
}
"""Units of sizes, in small letters."""
ERROR, MISMATCH, INTERRUPTED = 2, 1, 130

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
ShowProgress = Annotated[
    bool, typer.Option("--progress", help="Say what is being done, also where stderr is no terminal.")
]
Signature = Annotated[str | None, typer.Option("--signature", "-s", help="The signature of the model.")]
Tags = Annotated[str | None, typer.Option("--tags", help="The model's tags, separated by commas.")]
Outputs = Annotated[str | None, typer.Option("--outputs", help="Only these outputs, separated by commas.")]
Threads = Annotated[
    int | None, typer.Option("--threads", "-t", min=1, help="Workers of one call, the caller among them.")
]
IdPolicy = Annotated[
    str | None,
    typer.Option(
        "--id-policy",
        help="Ids outside their table: error, or zero (a vector of zeros). Default: as compiled, or else error.",
    ),
]
GpuTableBudget = Annotated[
    str | None,
    typer.Option(
        "--gpu-table-budget",
        help="Tables that the target gpu may hold on the device (4GiB, 512MiB, bytes); the others stay in host memory.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the generated rows.")]
Target = Annotated[
    str, typer.Option("--target", help="What to compile for: cpu, gpu, or reference (slow, for comparison).")
]


def verb(function: Function) -> Function:
    """Renders a ColonnadeError on stderr (exit 2), ends quietly on Ctrl-C (exit 130)."""

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except ColonnadeError as error:
            if options.get("debug"):
                raise
            raise _failed(type(error).__name__, str(error), error.as_dict(), options) from None
        except OSError as error:
            if options.get("debug"):
                raise
            found = OptionError(error.strerror or str(error), where=str(error.filename or ""))
            raise _failed("Error", str(found), found.as_dict(), options) from None
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None

    return run  # type: ignore[return-value]


def _failed(kind: str, text: str, fields: Mapping[str, str], options: Mapping[str, Any]) -> typer.Exit:
    typer.echo(f"{kind}: {text}", err=True)
    if options.get("json_"):
        print_json({"error": fields})
    return typer.Exit(ERROR)


def print_json(value: object) -> None:
    """One JSON object on stdout. Facts: NaN and infinities become strings, for JSON has none."""
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    typer.echo(json.dumps(jsonable(value), allow_nan=False, ensure_ascii=plain))


def jsonable(value: Any) -> Any:
    """The value with only what JSON has."""
    if isinstance(value, Mapping):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(v) for v in value]
    if isinstance(value, np.generic):
        return jsonable(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, str | int | float | bool | None) else str(value)


class Progress:
    """Says on stderr what is being done: a spinner on a terminal, lines with `--progress`, else nothing."""

    def __init__(self, asked: bool) -> None:
        self._lines = asked and not sys.stderr.isatty()
        self._status: Status | None = None
        if sys.stderr.isatty():
            self._status = Status("", console=Console(stderr=True))

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, what: str) -> None:
        if self._status is not None:
            self._status.start()
            self._status.update(Text(what))
        elif self._lines:
            typer.echo(what, err=True)

    def bytes(self, what: str, done: int, total: int) -> None:
        """Progress in bytes."""
        if self._status is not None:
            self(f"{what}: {human_bytes(done)} of {human_bytes(total)}")


def console() -> Console:
    """Stdout, as wide as its contents need where it is no terminal."""
    return Console(soft_wrap=False) if sys.stdout.isatty() else Console(width=160, soft_wrap=False)


def table(
    title: str, headers: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[int] = ()
) -> Group:
    """A table; `numbers` are the columns that are aligned right.

    Facts: cells are plain text, never markup; a title over no rows stands alone.
    """
    rows = list(rows)
    if title and not rows:
        return Group(Text(title, style="bold"))
    bare = not any(headers)
    made = Table(show_header=not bare, header_style="bold", box=None, pad_edge=False)
    for place, header in enumerate(headers):
        made.add_column(header, justify="right" if place in numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(str(cell)) for cell in row))
    return Group(Text(title, style="bold"), made) if title else Group(made)


def names(text: str | None) -> tuple[str, ...] | None:
    """The parts of a list with commas; None where it was not given. Errors: OptionError for an empty one."""
    if text is None:
        return None
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise OptionError("a list without names", got=repr(text), want="names, separated by commas")
    return found


def numbers(text: str, what: str) -> tuple[int, ...]:
    """The whole numbers of a list with commas. Errors: OptionError."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() for part in parts):
        raise OptionError(f"{what} are no whole numbers", got=repr(text), want="such as 1,32,256")
    return tuple(dict.fromkeys(map(int, parts)))


def num_bytes(text: str | None) -> int | None:
    """A size such as `4GiB`, `1.5 GB` or `4096`, in bytes; None where it was not given. Errors: OptionError."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", text.strip(), re.ASCII | re.IGNORECASE)
    unit = None if found is None else UNITS.get(found[2].lower())
    if found is None or unit is None:
        raise OptionError(
            "a size that is none", got=repr(text), want="such as 4GiB, 512MiB, 1.5GB or a number of bytes"
        )
    return int(Decimal(found[1]) * unit)


def human_bytes(count: float) -> str:
    """Such as `1.2 MB` (powers of ten)."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def write_text(path: Path, text: str) -> None:
    """Write a file, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
