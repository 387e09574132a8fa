"""LLVM may take a place in memory for a null pointer that is moved; kept code of kernels that other kernels call."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
from numba import types

from colonnade.backends.code_cache import PORTABLE, CodeCache, Results
from colonnade.backends.cpu.rows import add_weighted
from colonnade.backends.memory import NULL_IS_VALID, kernel

SIGNATURE = (types.int64,) * 3 + (types.boolean,) + (types.int64,) * 2
ROOT = Path(__file__).parents[3]
KEEP = """
import sys
from pathlib import Path
from numba.core import config
if sys.argv[1]:
    config.CPU_NAME, config.CPU_FEATURES = sys.argv[1], ""
from tests.unit.backends.test_null_offsets import CODE, check
path = Path(sys.argv[2])
if path.exists():
    check(CODE.load(path).code)
else:
    path.write_bytes(CODE.build().content)
"""


@kernel
def caller(rows: int, weights: int, n: int, fresh: bool, out: int, dim: int) -> int:
    """Of a library of its own, with a copy of what it calls."""
    if dim > 0:
        add_weighted(rows, weights, n, fresh, out, dim)
    return n


def _results() -> Results:
    add_weighted.compile(SIGNATURE)  # type: ignore[attr-defined]
    caller.compile(SIGNATURE)  # type: ignore[attr-defined]
    return {"caller": caller.overloads[SIGNATURE]}  # type: ignore[attr-defined]


CODE = CodeCache("nulls", "a test", lambda: [Path(__file__)], _results, lambda results: results["caller"].entry_point)


def check(call: object) -> None:
    """Weighted sums of rows, begun and gone on with."""
    table = np.random.default_rng(3).normal(size=(33, 19)).astype(np.float32)
    for n in range(1, 33):
        rows = np.array([row.ctypes.data for row in table[:n]])
        weights = np.arange(1, n + 1, dtype=np.float32)
        for fresh in (True, False):
            out = np.ones(19, np.float32)
            call(rows.ctypes.data, weights.ctypes.data, n, fresh, out.ctypes.data, 19)  # type: ignore[operator]
            want = (0 if fresh else 1) + weights @ table[:n]
            np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4, err_msg=f"{n} rows, fresh {fresh}")


def test_kept_code_reads_the_first_row(tmp_path: Path) -> None:
    cpu = PORTABLE if platform.machine() in ("x86_64", "AMD64") else ""
    for _ in ("keep", "load"):
        command = [sys.executable, "-c", KEEP, cpu, str(tmp_path / "code")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_functions_that_read_addresses_say_that_null_is_valid() -> None:
    found = _results()["caller"].library.get_llvm_str()
    assert NULL_IS_VALID in found
