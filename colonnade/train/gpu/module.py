"""Files of kernels as one module: compiled for a device, or interpreted on the CPU."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from colonnade.backends.gpu.source import load, module_text
from colonnade.config import settings

PACKAGE = "colonnade.train.gpu.kernels"
CAPABILITIES = (80, 90, 100)
WARP = 32
OPTIONS = {"enable_fp_fusion": False}
"""A product and a sum are rounded one after the other, as on a CPU."""


class Kernels:
    """The kernels of some files. text: generated, after them.   interpret: by Triton's interpreter, on CPU tensors."""

    def __init__(self, files: Sequence[str], text: str = "", *, interpret: bool) -> None:
        self._module = load(module_text([f"{PACKAGE}.{file}" for file in files], text), _folder(), interpret=interpret)
        self._interpret = interpret
        self._compiled: dict[Any, tuple[Any, tuple[Any, ...]]] = {}
        """What was compiled for arguments of each form, and the constants that it is given behind them."""
        self._fixed: dict[str, tuple[bool, ...]] = {}
        """Of each kernel, which arguments it is compiled for by their values."""

    def launch(self, name: str, programs: int | tuple[int, ...], *given: Any, **constants: Any) -> None:
        """Run a kernel's programs, if there are any."""
        grid = programs if isinstance(programs, tuple) else (programs,)
        if min(grid) == 0:
            return
        if self._interpret:
            with np.errstate(all="ignore"):  # numpy, which the interpreter computes with, warns where a device does not
                getattr(self._module, name)[grid](*given, **constants, **OPTIONS)
            return
        # Triton looks all of this up by itself, and takes three times as long as the launch.
        fixed = self._fixed.get(name) or self._fixed_of(name)
        form = name, torch.cuda.current_device(), tuple(constants.items()), tuple(map(_form, given, fixed))
        known = self._compiled.get(form)
        if known is None:
            function = getattr(self._module, name)
            made = function[grid](*given, **constants, **OPTIONS)
            behind = tuple(constants.get(p.name, p.default) for p in function.params[len(given) :])
            self._compiled[form] = made, behind
            return
        kernel, behind = known
        kernel[(*grid, 1, 1)](*given, *behind)

    def _fixed_of(self, name: str) -> tuple[bool, ...]:
        found = self._fixed[name] = tuple(not p.do_not_specialize for p in getattr(self._module, name).params)
        return found

    def compiled(self, name: str, signature: dict[str, str], constants: dict[str, Any], capability: int) -> Any:
        """A kernel compiled for a compute capability, such as 90. Needs no GPU."""
        kernel = getattr(self._module, name)
        types = {n: "constexpr" if n in constants else signature[n] for n in kernel.arg_names}
        source = ASTSource(kernel, types, constants)
        return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=dict(OPTIONS))


def _form(argument: Any, is_fixed: bool) -> Any:
    """What Triton compiles code for, of an argument: its type and, where it `is_fixed`, whether it is 1 or a multiple
    of 16. Other numbers differ from batch to batch: each mixture of their remainders would be a form of its own.

    Source: triton's `native_specialize_impl`.
    """
    if isinstance(argument, torch.Tensor):
        return argument.dtype, is_fixed and argument.data_ptr() % 16 == 0
    if type(argument) is not int:
        return type(argument)
    width = 32 if -(1 << 31) <= argument < 1 << 31 else 64, argument >= 1 << 63
    if not is_fixed:
        return width
    return 1 if argument == 1 else (*width, argument % 16 == 0)


@cache
def kernels(device_type: str, *files: str) -> Kernels:
    """The kernels of some files for tensors of a device."""
    return Kernels(files, interpret=device_type == "cpu")


@cache
def written(files: Sequence[str], write: Callable[[Any], str], kinds: tuple[Any, ...], device_type: str) -> Kernels:
    """The kernels of some files with those that `write` writes for stores of these kinds, for tensors of a device."""
    return Kernels(files, write(kinds), interpret=device_type == "cpu")


def upload(array: npt.NDArray[Any], device: torch.device) -> torch.Tensor:
    """A copy on a device. Facts: does not wait for it: CUDA takes a few kilobytes of pageable memory at once."""
    return torch.from_numpy(array).to(device, non_blocking=True)


@cache
def _folder() -> Path:
    folder = settings().cache_dir / "kernels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # what is compiled is not kept
        return Path(tempfile.mkdtemp(prefix="colonnade-"))
    return folder


def device_of(name: str) -> torch.device:
    """A device by its name, with the number of the current one where none is said."""
    device = torch.device(name)
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device
