"""Functions that `torch.compile` does not look into: what they do is compiled already, and reads memory by address."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
COMPILER = "torch._dynamo"


def uncompiled(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which breaks a graph that calls it, whatever it calls.

    Facts: torch's decorator would import its compiler, which takes most of a second: so it is used once that is there.
    """
    known: list[Callable[P, R]] = []

    @functools.wraps(function)
    def run(*args: P.args, **options: P.kwargs) -> R:
        compiler: Any = sys.modules.get(COMPILER)
        if not hasattr(compiler, "disable"):  # none, or one that is being imported
            return function(*args, **options)
        if not known:
            known.append(cast(Callable[P, R], compiler.disable(function)))
        return known[0](*args, **options)

    return run
