"""What is missing for the gpu target is said at once, before anything is compiled."""

from __future__ import annotations

import shutil
import sysconfig
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from colonnade.backends.gpu import accelerator
from colonnade.errors import OptionError


def give(value: Any) -> Callable[..., Any]:
    return lambda *args: value


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """One that has everything."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", give(True))
    monkeypatch.setattr(torch.cuda, "current_device", give(0))
    monkeypatch.setattr(torch.cuda, "get_device_capability", give((9, 0)))
    monkeypatch.setattr(torch.cuda, "get_device_name", give("Some GPU"))
    monkeypatch.setattr(accelerator.importlib.util, "find_spec", give(object()))
    monkeypatch.setattr(metadata, "version", give("3.6.0"))
    monkeypatch.setattr(shutil, "which", give("/usr/bin/gcc"))
    monkeypatch.setattr(accelerator, "settings", give(replace(accelerator.settings(), c_compiler=None)))
    monkeypatch.setattr(accelerator.Path, "is_file", give(True))
    monkeypatch.setattr(accelerator, "_has_launcher", give(False))
    return monkeypatch


def test_a_machine_that_has_everything(machine: pytest.MonkeyPatch) -> None:
    assert accelerator.device() == torch.device("cuda", 0)


def refusal() -> OptionError:
    with pytest.raises(OptionError) as caught:
        accelerator.device()
    return caught.value


def test_everything_that_is_missing_is_listed(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(torch.cuda, "is_available", give(False))
    machine.setattr(accelerator.importlib.util, "find_spec", give(None))
    machine.setattr(shutil, "which", give(None))
    machine.setattr(accelerator.Path, "is_file", give(False))
    error = refusal()
    headers = sysconfig.get_paths()["include"]
    assert error.got.splitlines() == [
        "no CUDA device",
        "no triton",
        "no C compiler: gcc, clang",
        f"no Python.h in {headers}",
    ]
    assert len(error.want.splitlines()) == 4 and "'cpu'" in error.help


def test_torch_without_cuda(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(torch.version, "cuda", None)
    assert "without CUDA" in refusal().got


def test_a_device_or_a_triton_that_is_too_old(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(torch.cuda, "get_device_capability", give((7, 5)))
    machine.setattr(metadata, "version", give("3.5.1+git1"))
    error = refusal()
    assert error.got == "Some GPU with compute capability 7.5\ntriton 3.5.1+git1"
    assert "3.6 or later" in error.want


def test_the_compiler_that_the_environment_names(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(accelerator, "settings", give(replace(accelerator.settings(), c_compiler="mycc")))
    machine.setattr(shutil, "which", {"mycc": "/usr/bin/mycc"}.get)
    accelerator.device()
    machine.setattr(shutil, "which", {"gcc": "/usr/bin/gcc"}.get)
    assert refusal().got == "no C compiler: mycc"


def test_no_compiler_is_wanted_where_what_it_would_make_is_there(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(shutil, "which", give(None))
    machine.setattr(accelerator.Path, "is_file", give(False))
    assert len(refusal().got.splitlines()) == 2
    machine.setattr(accelerator, "_has_launcher", give(True))
    accelerator.device()
    machine.setattr(torch.cuda, "is_available", give(False))
    assert "no C compiler" in refusal().got


@pytest.mark.parametrize(
    "raised", [RuntimeError("0 active drivers"), FileNotFoundError("cc"), AssertionError("libcuda")]
)
def test_a_launcher_that_cannot_be_loaded(raised: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    class Runtime:
        @property
        def driver(self) -> Any:
            raise raised

    monkeypatch.setattr(accelerator.importlib, "import_module", give(Runtime()))
    assert not accelerator._has_launcher()


def test_a_launcher_of_all_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    utils = SimpleNamespace(launch=None)
    found = SimpleNamespace(driver=SimpleNamespace(active=SimpleNamespace(utils=utils)))
    monkeypatch.setattr(accelerator.importlib, "import_module", give(found))
    assert accelerator._has_launcher()
    del utils.launch
    assert not accelerator._has_launcher()


def test_an_environment_that_has_kernels_interpreted(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(accelerator, "settings", give(replace(accelerator.settings(), triton_interprets=True)))
    assert refusal().got == "TRITON_INTERPRET in the environment"


def test_a_driver_that_is_too_old(machine: pytest.MonkeyPatch) -> None:
    def is_available() -> bool:
        warnings.warn("The NVIDIA driver on your system is too old (found version 11040).", stacklevel=1)
        return False

    machine.setattr(torch.cuda, "is_available", is_available)
    assert refusal().got == "no CUDA device (The NVIDIA driver on your system is too old (found version 11040).)"


def test_a_triton_of_another_distribution(machine: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    machine.setattr(metadata, "version", version)
    machine.setattr(accelerator.importlib, "import_module", give(SimpleNamespace(__version__="3.4.0")))
    assert refusal().got == "triton 3.4.0"
