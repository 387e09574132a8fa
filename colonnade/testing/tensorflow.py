"""TensorFlow, which only tests and `verify` use, imported when first needed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from colonnade.errors import OptionError


def tensorflow() -> Any:
    """The module `tensorflow`.

    Facts: Triton is loaded before it, where there is one: each brings its own LLVM, and a process in which Triton comes
    second is killed by a segmentation fault.
    Errors: OptionError where it is not installed.
    """
    if importlib.util.find_spec("triton") is not None:
        importlib.import_module("triton")
    try:
        return importlib.import_module("tensorflow")
    except ImportError as error:
        raise OptionError(
            "TensorFlow is not installed",
            got=str(error),
            want="TensorFlow 2, to make test models and to run the source model as the oracle",
            help="pip install 'colonnade[tensorflow]'; importing and running models never need it",
        ) from error
