"""Kernels are found by the form of their arguments, and launched with them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from colonnade.train.gpu.module import OPTIONS, Kernels


class Compiled:
    """Code for some arguments, which notes how it is launched."""

    def __init__(self, launched: list[Any]) -> None:
        self.launched = launched

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *given: self.launched.append((self, grid, given))


class Function:
    """A kernel `(x, n, SIZE, MORE=3)`, compiled and launched at once the first time, as Triton does."""

    def __init__(self) -> None:
        names = (("x", None), ("n", None), ("SIZE", None), ("MORE", 3))
        self.params = [SimpleNamespace(name=n, default=d) for n, d in names]
        self.made: list[Any] = []
        self.launched: list[Any] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*given: Any, **constants: Any) -> Compiled:
            self.made.append((grid, given, constants))
            return Compiled(self.launched)

        return launch


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> Function:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    return Function()


def kernels_of(function: Function) -> Kernels:
    run = Kernels((), interpret=False)
    run._module = SimpleNamespace(kernel=function)  # type: ignore[assignment]
    return run


def test_arguments_of_one_form_share_code(function: Function) -> None:
    run, x = kernels_of(function), torch.zeros(64)
    run.launch("kernel", 7, x, 100, SIZE=8, num_warps=4)
    assert function.made == [((7,), (x, 100), {"SIZE": 8, "num_warps": 4, **OPTIONS})] and not function.launched
    run.launch("kernel", (3, 2), x[32:], 101, SIZE=8, num_warps=4)
    ((_, grid, given),) = function.launched
    assert len(function.made) == 1 and grid[:3] == (3, 2, 1)
    assert given[0].data_ptr() == x[32:].data_ptr() and given[1:] == (101, 8, 3)


def test_what_triton_compiles_apart_is_told_apart(function: Function) -> None:
    run, x = kernels_of(function), torch.zeros(64)
    forms: list[tuple[Any, Any, int]] = [(x, 100, 8), (x[1:], 100, 8), (x.long(), 100, 8), (x, 1, 8), (x, 96, 8)]
    forms += [(x, 2**31, 8), (x, 2**31 + 1, 8), (x, 2**63, 8), (x, 2**63 + 1, 8), (x, True, 8), (x, 1.0, 8), (x, 1, 9)]
    forms += [(x, -(2**31) - 1, 9), (x, None, 8), (None, 100, 8)]
    for _ in range(2):
        for given, n, size in forms:
            run.launch("kernel", 1, given, n, SIZE=size)
    assert len(function.made) == len(function.launched) == len(forms)
    assert [made[1] for made in function.made] == [launched[2][:2] for launched in function.launched]


def test_no_programs_are_no_launch(function: Function) -> None:
    kernels_of(function).launch("kernel", (4, 0), torch.zeros(1), 1, SIZE=8)
    assert not function.made
