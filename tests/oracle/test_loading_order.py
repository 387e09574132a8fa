"""Triton and TensorFlow in one process: the order that works is taken, the other is refused before it crashes."""

from __future__ import annotations

import subprocess
import sys

ORDER = """
import sys
from colonnade.testing.tensorflow import tensorflow
assert "triton" not in sys.modules
tensorflow()
from colonnade.backends.gpu.backend import GpuBackend
GpuBackend(interpret=True)
names = list(sys.modules)
assert names.index("triton") < names.index("tensorflow")
print("both")
"""
REFUSED = """
import tensorflow
from colonnade import compiler
from colonnade.errors import OptionError
try:
    compiler.backend("gpu")
except OptionError as error:
    print(error)
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_what_loads_tensorflow_loads_triton_before_it() -> None:
    assert run(ORDER) == "both\n"


def test_the_other_order_is_refused() -> None:
    assert "TensorFlow was imported before Triton" in run(REFUSED)
