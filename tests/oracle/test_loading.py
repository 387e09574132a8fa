"""How TensorFlow is loaded: after Triton (the other order is refused before it crashes), with kernels of its own."""

from __future__ import annotations

import os
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

SOFTMAX = """
from colonnade.testing.tensorflow import tensorflow
tf = tensorflow()
print(tf.nn.softmax(tf.constant([[float("nan"), 1.0, float("inf")]])).numpy().tolist())
"""


def run(code: str, **environment: str) -> str:
    given = {name: value for name, value in os.environ.items() if name != "TF_ENABLE_ONEDNN_OPTS"} | environment
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=given).stdout


def test_what_loads_tensorflow_loads_triton_before_it() -> None:
    assert run(ORDER) == "both\n"


def test_the_other_order_is_refused() -> None:
    assert "TensorFlow was imported before Triton" in run(REFUSED)


def test_its_kernels_are_its_own_on_every_cpu() -> None:
    assert run(SOFTMAX) == "[[nan, nan, nan]]\n"


def test_a_choice_of_the_user_stays() -> None:
    printed = "import os\nprint(os.environ['TF_ENABLE_ONEDNN_OPTS'])\n"
    assert run(SOFTMAX + printed, TF_ENABLE_ONEDNN_OPTS="1").splitlines()[-1] == "1"
