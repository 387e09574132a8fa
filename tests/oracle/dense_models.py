"""Models of dense ops: saved by TensorFlow, compiled, and answered by every backend that this machine has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import colonnade
from colonnade.errors import ColonnadeError
from colonnade.testing.oracle import OracleError, TensorFlowModel
from tests.oracle.tf_models import Build, saved

Feed = Mapping[str, np.ndarray[Any, Any]]
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 7.25, 100.0, -1e4, 1e20, -1e20, np.inf, -np.inf, np.nan)
"""Signed zeros, halves, large numbers and what is no number."""
EXTREME = np.array([*SPECIAL, 3.4e38, -3.4e38, 1e-30], dtype=np.float32)


def floats(seed: int, *shape: int, special: bool = True) -> np.ndarray[Any, Any]:
    """Random floats with special values among them."""
    generator = np.random.default_rng(seed)
    made = generator.standard_normal(shape).astype(np.float32) * 3
    if special and made.size:
        made.reshape(-1)[::3] = generator.choice(EXTREME, made.reshape(-1)[::3].shape)
    return made


def check(
    path: Path,
    build: Build,
    feeds: Sequence[Feed],
    rtol: float = 2e-6,
    exact: Callable[[str], bool] = lambda name: False,
) -> None:
    """Every output equals TensorFlow's, by the reference and the cpu target; where it raises, so do they.

    exact: whether an output is compared bit for bit, the sign of zero included.
    """
    model = saved(path, build)
    compiled = {target: colonnade.compile(model, target=target) for target in ("reference", "cpu")}
    with TensorFlowModel(model) as tensorflow:
        for k, feed in enumerate(feeds):
            try:
                want = tensorflow.run(feed)
            except OracleError:
                for target, executable in compiled.items():
                    assert _raises(executable, feed), f"feed {k}: {target} answers what TensorFlow refuses"
                continue
            for target, executable in compiled.items():
                got = executable(feed)
                assert set(got) == set(want)
                for name in want:
                    same(got[name], want[name], rtol, exact(name), f"feed {k}, {name}, {target}")


def same(got: Any, want: Any, rtol: float, exact: bool, where: str) -> None:
    """Errors: AssertionError where they differ."""
    assert got.dtype == want.dtype and got.shape == want.shape, (where, got.dtype, want.dtype, got.shape, want.shape)
    if want.dtype.kind != "f":
        assert got.tolist() == want.tolist(), f"{where}: {got} {want}"
    elif exact:
        both = (np.isnan(got) & np.isnan(want)) | ((got == want) & (np.signbit(got) == np.signbit(want)))
        assert both.all(), f"{where}: {got[~both]} {want[~both]}"
    else:
        scale = np.abs(want[np.isfinite(want)]).max(initial=0.0) * 1e-6
        np.testing.assert_allclose(got, want, rtol=rtol, atol=min(max(scale, 1e-7), 1e-4), err_msg=where)


def _raises(executable: colonnade.Executable, feed: Feed) -> bool:
    try:
        executable(feed)
    except ColonnadeError:
        return True
    return False
