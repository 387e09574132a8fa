"""The errors a user meets, and the one place that renders them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol


class ColonnadeError(Exception):
    """What went wrong, where (in the user's terms), what was got, what was wanted, and what helps.

    Facts: every field but `message` may be empty; `str(error)` is the rendered text.
    """

    def __init__(self, message: str, *, where: str = "", got: str = "", want: str = "", help: str = "") -> None:
        self.message = message
        self.where = where
        self.got = got
        self.want = want
        self.help = help
        super().__init__(render(self))

    def as_dict(self) -> dict[str, str]:
        """The error's fields for `--json`."""
        return {
            "kind": type(self).__name__,
            "message": self.message,
            "where": self.where,
            "got": self.got,
            "want": self.want,
            "help": self.help,
        }


class ImportFailure(ColonnadeError):
    """A source model cannot be read: not a SavedModel, no such signature, a damaged file."""


class UnsupportedOps(ColonnadeError):
    """The source model uses ops that the frontend cannot say; one error lists them all."""


class GraphError(ColonnadeError):
    """A graph breaks a rule of the IR (found by verify, inference or a pass)."""


class ShapeError(ColonnadeError):
    """Shapes, ranks or dtypes that do not fit together."""


class FeatureError(ColonnadeError):
    """Features that cannot be what they are declared to be; lists every one."""


class FeedError(ColonnadeError):
    """A request's input does not match the signature; lists every bad key."""


class IdRangeError(ColonnadeError):
    """An id outside its table, under the policy `error`."""


class BudgetError(ColonnadeError):
    """Tables would take more memory than they may; nothing was changed."""


class GradientError(ColonnadeError):
    """A gradient that nothing can learn from; nothing was changed.

    It is NaN or infinite, under the policy `error`, its rows are no more, or it is itself differentiated.
    """


class ConsistencyError(ColonnadeError):
    """Two parts of Colonnade that must agree do not: a fault of its own, not of the request."""


class TextError(ColonnadeError):
    """A program text that does not parse."""


class ArtifactError(ColonnadeError):
    """An artifact that is damaged, newer than this version, or not an artifact."""


class OptionError(ColonnadeError):
    """A command-line option, argument or setting that cannot be used."""


@contextmanager
def told(kind: type[ColonnadeError], message: str, where: object) -> Iterator[None]:
    """What the file system refuses inside is an error of that kind, which names the file."""
    try:
        yield
    except OSError as error:
        name = str(error.filename or where)
        raise kind(message, where=name, got=error.strerror or str(error)) from error


class Message(Protocol):
    """What `render` writes: an error, or a warning."""

    @property
    def message(self) -> str:
        """What is wrong."""


def render(error: Message) -> str:
    """`Kind: message` and one indented line for each field that is filled."""
    lines = [error.message]
    for label in ("where", "got", "want", "help"):
        text: str = getattr(error, label)
        if text:
            head, *rest = text.splitlines()
            lines.append(f"  {label:<5}  {head}")
            lines.extend(f"         {line}" for line in rest)
    return "\n".join(lines)


def listed(items: Sequence[str], limit: int = 20) -> str:
    """One item a line, and how many were left out where there are more than `limit`."""
    shown = list(items[:limit])
    if len(items) > limit:
        shown.append(f"... and {len(items) - limit} more")
    return "\n".join(shown)
