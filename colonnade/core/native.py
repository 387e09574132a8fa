"""LLVM IR compiled for this machine: needs no C compiler and no cache, and takes less than 0.1 s a process."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from ctypes import PYFUNCTYPE, c_void_p
from dataclasses import dataclass
from typing import Any, TypeVar

import llvmlite.binding as llvm

from colonnade.core.fork import Lock

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Native:
    """Compiled functions. Facts: their code lives as long as this."""

    engine: Any

    def function(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        """A function by ctypes' types of its result and arguments; the GIL is held during a call."""
        made: Callable[..., Any] = PYFUNCTYPE(result, *arguments)(self.engine.get_function_address(name))
        return made


def compiled(text: str) -> Native:
    """The functions of a module's text; those of CPython that it declares are this process's."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    module = llvm.parse_assembly(text)
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes.getModulePassManager().run(module, passes)
    engine = llvm.create_mcjit_compiler(module, machine)
    for function in module.functions:
        if function.is_declaration and function.name.startswith("Py"):
            address = ctypes.cast(getattr(ctypes.pythonapi, function.name), c_void_p).value
            engine.add_global_mapping(function, address)
    engine.finalize_object()
    return Native(engine)


def made_once(make: Callable[[], T]) -> Callable[[], T]:
    """What `make` gives, made at the first call. Facts: by one thread, whose result all get.

    Two threads would compile the same code twice, and the loser's would go away under its caller.
    """
    lock = Lock()
    cached = functools.cache(make)

    @functools.wraps(make)
    def get() -> T:
        with lock:
            return cached()

    return get
