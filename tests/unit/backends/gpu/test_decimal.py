"""The device's hash of the decimal text of integers against the one in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.core.fingerprint import fingerprint64
from tests.unit.backends.gpu.device_module import check_compiled, compiled, interpreted

KERNEL = '''
@jit
def kernel(x, out, count, BLOCK: tl.constexpr):
    """Hashes of the first `count` integers; the other lanes hold the longest text."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = lane < count
    value = tl.load(x + lane, mask=live, other=-9223372036854775808)
    hashed = fingerprint64_decimal(value, live)
    tl.store(out + lane, hashed.to(tl.int64, bitcast=True), mask=live)
'''
INT64 = st.integers(-(2**63), 2**63 - 1)


def check(values: Sequence[int], folder: Path, block: int = 256) -> None:
    x = torch.tensor(values, dtype=torch.int64)
    out = torch.full_like(x, -1)
    module = interpreted(["decimal"], KERNEL, folder)
    module.kernel[(-(-len(values) // block),)](x, out, len(values), BLOCK=block)
    want = np.array([fingerprint64(b"%d" % v) for v in values], np.uint64).view(np.int64)
    wrong = np.flatnonzero(out.numpy() != want)
    assert not len(wrong), [values[k] for k in wrong]


def test_corners(tmp_path: Path) -> None:
    powers = [s * (10**k + d) for k in range(19) for d in (-1, 0, 1) for s in (1, -1)]
    bits = [s * (2**k + d) for k in range(63) for d in (-1, 0) for s in (1, -1)]
    check([0, 1, -1, 2**63 - 1, -(2**63), -(2**63) + 1, *powers, *bits], tmp_path)


def test_every_number_of_digits(tmp_path: Path) -> None:
    data = np.random.default_rng(0)
    tops = [min(10**k, 2**63 - 1) for k in range(1, 20)]
    magnitudes = [int(v) for top in tops for v in data.integers(top // 10, top, 24)]
    check([v * int(s) for v, s in zip(magnitudes, data.choice([1, -1], len(magnitudes)), strict=True)], tmp_path)


def test_every_text_of_up_to_three_digits(tmp_path: Path) -> None:
    check(range(-999, 1000), tmp_path, block=1024)


def test_every_block_of_four_digits(tmp_path: Path) -> None:
    # In each of the places that are converted together.
    check([v * 1000100010001 for v in range(0, 10000, 3)], tmp_path, block=4096)


def test_blocks_of_short_texts(tmp_path: Path) -> None:
    check([5, -42, 123456789, -999999999999999], tmp_path, block=16)


@settings(max_examples=20, deadline=None)
@given(values=st.lists(INT64, min_size=1, max_size=64))
def test_any_integers(values: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    check(values, tmp_path_factory.getbasetemp() / "decimal", block=64)


def test_it_compiles_for_gpus(tmp_path: Path) -> None:
    check_compiled(compiled(["decimal"], KERNEL, {"x": "*i64", "out": "*i64", "count": "i32"}, tmp_path))
