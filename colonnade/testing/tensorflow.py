"""TensorFlow, which only tests and `verify` use, imported when first needed."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from typing import Any

from colonnade.config import default_to
from colonnade.errors import OptionError


def quiet_tensorflow() -> None:
    """Keep TensorFlow's notices off stderr: its build options and a model's deprecations are not the user's to mend.

    Facts: the first holds where TensorFlow is yet to be imported; a level that the user set stays.
    """
    default_to("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)


def tensorflow() -> Any:
    """The module `tensorflow`.

    Facts: Triton is loaded before it, where there is one: each brings its own LLVM, and a process in which Triton comes
    second is killed by a segmentation fault. Its kernels are its own, also on a CPU for which it would take oneDNN's,
    which answer otherwise than those that it has everywhere (see `deviations.py`), unless the user set
    TF_ENABLE_ONEDNN_OPTS.
    Errors: OptionError where it is not installed.
    """
    if importlib.util.find_spec("triton") is not None:
        importlib.import_module("triton")
    default_to("TF_ENABLE_ONEDNN_OPTS", "0")
    try:
        return importlib.import_module("tensorflow")
    except ImportError as error:
        raise OptionError(
            "TensorFlow is not installed",
            got=str(error),
            want="TensorFlow 2, to make test models and to run the source model as the oracle",
            help="pip install 'colonnade[tensorflow]'; importing and running models never need it",
        ) from error
