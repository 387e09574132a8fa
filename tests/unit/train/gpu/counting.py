"""What a step asks of a device: launches of kernels, operators of torch, and waits, counted where there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

from colonnade.train.gpu.module import Kernels

WAITS = {
    *("item", "tolist", "cpu", "nonzero", "unique", "bincount", "masked_select", "equal", "allclose"),
    *("__bool__", "__int__", "__float__", "__index__", "__contains__", "repeat_interleave", "argwhere"),
}
"""Functions of torch that wait for a device, by the ends of their names."""
FREE = {"detach", "view", "slice", "split", "alias", "as_strided", "_unsafe_view", "t", "select", "narrow", "reshape"}
FREE |= {"split_with_sizes", "lift_fresh", "empty", "empty_like", "new_empty", "expand"}
"""Operators that enqueue nothing: they make room, or another view."""


@dataclass
class Counts:
    """By name, how often each was asked for."""

    launches: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)

    @property
    def totals(self) -> tuple[int, int, int]:
        """Launches, operators, waits."""
        return self.launches.total(), self.operators.total(), self.waits.total()


class _Functions(TorchFunctionMode):
    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = (resolve_name(func) or "").rsplit(".", 1)[-1]
        if name in WAITS or (name == "__getitem__" and _by_marks(args[1])):
            self.counts.waits[name] += 1
        return func(*args, **(kwargs or {}))


def _by_marks(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(x, torch.Tensor) and x.dtype in (torch.bool, torch.uint8) for x in parts)


class _Operators(TorchDispatchMode):
    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().split("::")[1].split(".")[0]
        if name not in FREE:
            self.counts.operators[name] += 1
        return func(*args, **(kwargs or {}))


@contextmanager
def counted(monkeypatch: Any) -> Iterator[Counts]:
    """Count what is asked for meanwhile. Facts: what the interpreter itself asks torch for is not counted."""
    counts = Counts()
    launch: Callable[..., None] = Kernels.launch

    def noted(self: Kernels, name: str, programs: int | tuple[int, ...], *given: Any, **constants: Any) -> None:
        if min(programs if isinstance(programs, tuple) else (programs,)):
            counts.launches[name] += 1
        with torch._C.DisableTorchFunction(), torch.utils._python_dispatch._disable_current_modes():
            launch(self, name, programs, *given, **constants)

    with monkeypatch.context() as patch, _Functions(counts), _Operators(counts):
        patch.setattr(Kernels, "launch", noted)
        yield counts
