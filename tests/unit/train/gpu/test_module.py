"""Kernels are found by the form of their arguments, and launched with them."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.runtime.jit import native_specialize_impl

from colonnade.backends.gpu.source import DEVICE, fragment
from colonnade.train.gpu import kernels as kernel_files
from colonnade.train.gpu.module import OPTIONS, PACKAGE, Kernels, _form


class Compiled:
    """Code for some arguments, which notes how it is launched."""

    def __init__(self, launched: list[Any]) -> None:
        self.launched = launched

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *given: self.launched.append((self, grid, given))


class Function:
    """A kernel `(x, n, SIZE, MORE=3)`, compiled and launched at once the first time, as Triton does.

    specialized: for the value of n.
    """

    def __init__(self, specialized: bool = True) -> None:
        names = (("x", None), ("n", None), ("SIZE", None), ("MORE", 3))
        self.params = [SimpleNamespace(name=n, default=d, do_not_specialize=False) for n, d in names]
        self.params[1].do_not_specialize = not specialized
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


@pytest.mark.usefixtures("function")
def test_numbers_that_differ_from_batch_to_batch_are_of_one_form() -> None:
    any_number = Function(specialized=False)
    run, x = kernels_of(any_number), torch.zeros(64)
    for n in (100, 96, 1, 0, -7, 2**31 - 1, 2**31, 2**40, -(2**40), 2**63, 2**63 + 16):
        run.launch("kernel", 1, x, n, SIZE=8)
    assert [made[1][1] for made in any_number.made] == [100, 2**31, 2**63]


def test_kernels_say_which_numbers_these_are() -> None:
    module = Kernels(["unique"], interpret=False)._module
    kernels = {name: getattr(module, name) for name in ("own", "settle")}
    left = {name: [p.name for p in kernel.params if p.do_not_specialize] for name, kernel in kernels.items()}
    assert left == {"own": ["tiles", "num", "num_slots", "num_stamp", "num_bits"], "settle": ["tiles", "num"]}


@pytest.mark.parametrize("is_fixed", [True, False])
def test_forms_are_those_of_triton(is_fixed: bool) -> None:
    backend, x = type(make_backend(GPUTarget("cuda", 90, 32))), torch.zeros(64)
    ends = [n + at for n in (0, 16, 2**31, -(2**31), 2**32, 2**63) for at in (-16, -1, 0, 1, 8)]
    given = [*ends, True, 1.0, None, x, x[1:], x[4:], x.int(), x.long()[1:]]
    theirs = [native_specialize_impl(backend, n, False, is_fixed, True) for n in given]
    ours = [_form(n, is_fixed) for n in given]
    assert [[a == b for b in ours] for a in ours] == [[a == b for b in theirs] for a in theirs]


def test_names_are_unique_over_all_files_of_kernels() -> None:
    """Files are put together into one module, in which the last of a name would be what all see."""
    own = [f"{PACKAGE}.{p.stem}" for p in Path(kernel_files.__file__).parent.glob("*.py") if p.stem != "__init__"]
    shared = [p.stem for p in DEVICE.glob("*.py") if p.stem not in ("__init__", "jit")]
    statements = [s for name in (*own, *shared) for s in ast.parse(fragment(name).text).body]
    names = [s.name for s in statements if isinstance(s, ast.FunctionDef)]
    names += [t.id for s in statements if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)]
    assert len(own) > 10 and [name for name, count in Counter(names).items() if count > 1] == []


def test_no_programs_are_no_launch(function: Function) -> None:
    kernels_of(function).launch("kernel", (4, 0), torch.zeros(1), 1, SIZE=8)
    assert not function.made
