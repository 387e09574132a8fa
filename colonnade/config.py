"""The settings a user gives through the environment, and the only place that reads it or writes to it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from colonnade.errors import OptionError, listed

TRUE = ("1", "true", "on", "yes", "y")
"""What Triton takes for yes."""


@dataclass(frozen=True)
class Settings:
    """What the environment says, checked.

    Facts: `threads` is 1 to `most_threads()`, or None where it is not set; `cache_dir` is absolute and need not exist;
    `c_compiler` is what Triton takes instead of a compiler on PATH; `triton_interprets` is whether it was told to
    interpret kernels.
    """

    threads: int | None
    cache_dir: Path
    c_compiler: str | None = None
    triton_interprets: bool = False


def most_threads() -> int:
    """More threads than that help nobody here: four a core, and at least 64."""
    return max(64, 4 * (os.cpu_count() or 1))


def default_to(variable: str, value: str) -> None:
    """Give a variable that another library reads a value, where the user gave it none."""
    os.environ.setdefault(variable, value)


def settings() -> Settings:
    """The settings in force now: the environment is read at every call, so nothing is remembered from an import.

    Errors: OptionError, with every variable that cannot be used.
    """
    return settings_from(os.environ)


def settings_from(environ: Mapping[str, str]) -> Settings:
    """The settings that a mapping of variables gives; an empty value counts as unset.

    Errors: OptionError, with every variable that cannot be used.
    """
    problems: list[str] = []
    compiler = environ.get("CC") or None
    interprets = environ.get("TRITON_INTERPRET", "").lower() in TRUE
    found = Settings(_threads(environ, problems), _cache_dir(environ, problems), compiler, interprets)
    if problems:
        raise OptionError(
            "the environment holds settings that cannot be used",
            where=listed([problem.split("=", 1)[0] for problem in problems]),
            got=listed(problems),
            help="correct the variable, or unset it to get the default",
        )
    return found


def _threads(environ: Mapping[str, str], problems: list[str]) -> int | None:
    text = environ.get("COLONNADE_THREADS", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit() and 1 <= int(text) <= most_threads():
        return int(text)
    problems.append(f"COLONNADE_THREADS={text} (want a whole number, 1 to {most_threads()})")
    return None


def _cache_dir(environ: Mapping[str, str], problems: list[str]) -> Path:
    text = environ.get("COLONNADE_CACHE_DIR", "")
    # The XDG base directory specification has a relative XDG_CACHE_HOME ignored.
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    path = Path(text) if text else (base if base.is_absolute() else Path("~/.cache")) / "colonnade"
    try:
        path = path.expanduser().absolute()
    except RuntimeError as error:  # no such user, or none with a home
        problems.append(f"COLONNADE_CACHE_DIR={text} ({error})")
    # A folder that may not be looked into is none to write to, which is no error: what is compiled is not kept.
    if os.path.exists(path) and not os.path.isdir(path):
        problems.append(f"COLONNADE_CACHE_DIR={text} (want a folder; {path} is a file)")
    return path
