"""What a warning is made by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from colonnade.ir.column import Column
from colonnade.ir.explanation import Notice
from colonnade.ir.program import Program
from colonnade.ops.op import snake


class Warn:
    """Looks at a program for one thing that is legal and surely unwanted.

    Facts: what it says is proven of the program, never guessed; it changes nothing.
    """

    name: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name = snake(cls.__name__).replace("_", "-")

    def look(self, program: Program) -> Iterator[Notice]:
        """What it has to say."""
        raise TypeError(f"{type(self).__name__} defines no look")


def warnings_of(program: Program, checks: Sequence[Warn]) -> tuple[Notice, ...]:
    """What all of them have to say."""
    return tuple(notice for check in checks for notice in check.look(program))


def dtypes_of(program: Program) -> Mapping[str, str]:
    """The dtype of each field."""
    return {i.name: i.dtype for i in program.inputs}


def where(columns: Iterable[Column]) -> str:
    """Columns in the user's terms, one a line."""
    return "\n".join(f"column {c.name!r}" + (f" <- {c.source}" if c.source else "") for c in columns)
