"""The device's Fingerprint64 against the one in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from colonnade.core.fingerprint import fingerprint64
from tests.unit.backends.gpu.device_module import check_compiled, compiled, interpreted, strings_of

KERNEL = '''
@jit
def kernel(text, starts, lengths, lives, out, count, BLOCK: tl.constexpr):
    """Hashes of the live strings."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = lane < count
    start = tl.load(starts + lane, mask=inside, other=0)
    length = tl.load(lengths + lane, mask=inside, other=0)
    live = inside & (tl.load(lives + lane, mask=inside, other=0) != 0)
    hashed = fingerprint64(text, start, length, live)
    tl.store(out + lane, hashed.to(tl.int64, bitcast=True), mask=live)
'''
POISON = -1234567


def hashes(strings: Sequence[bytes], folder: Path, *, gap: int = 0, dead: Sequence[int] = (), block: int = 256) -> None:
    """Checks the hashes of the strings that are not dead; a dead one lies far outside the text."""
    text, starts, lengths = strings_of(strings, gap)
    lives = torch.ones(len(strings), dtype=torch.int8)
    for lane in dead:
        lives[lane], starts[lane], lengths[lane] = 0, 1 << 45, (1 << 40) + lane
    out = torch.full((len(strings),), POISON)
    module = interpreted(["fingerprint"], KERNEL, folder)
    module.kernel[(-(-len(strings) // block),)](text, starts, lengths, lives, out, len(strings), BLOCK=block)
    want = np.array([fingerprint64(s) for s in strings], np.uint64).view(np.int64)
    want[list(dead)] = POISON
    wrong = np.flatnonzero(out.numpy() != want)
    assert not len(wrong), [(len(strings[k]), int(starts[k]) % 8) for k in wrong]


def random_strings(lengths: Sequence[int], seed: int) -> list[bytes]:
    data = np.random.default_rng(seed)
    return [data.bytes(n) for n in lengths]


def test_every_length_is_hashed(tmp_path: Path) -> None:
    around = [k * 64 + d for k in range(1, 9) for d in (-1, 0, 1)]
    hashes(random_strings([*range(201), *around, 999, 1000, 1001], 0), tmp_path)


@pytest.mark.parametrize("lengths", [range(17), range(14, 66), (65, 128, 129, 3, 20)])
def test_every_alignment_is_hashed(lengths: Sequence[int], tmp_path: Path) -> None:
    aligned = [n for n in lengths for _ in range(8)]
    # A gap that makes the starts go through all alignments: each string moves the next by one byte.
    strings = random_strings(aligned, 1)
    hashes(strings, tmp_path, gap=3)
    hashes(strings, tmp_path, gap=8)


@pytest.mark.parametrize("longest", [0, 3, 16, 32, 64, 65])
def test_a_block_without_longer_strings(longest: int, tmp_path: Path) -> None:
    lengths = np.random.default_rng(longest).integers(0, longest + 1, 64)
    hashes([*random_strings(list(lengths), 2), b"x" * longest], tmp_path, block=64)


def test_bytes_that_are_all_equal(tmp_path: Path) -> None:
    hashes([bytes([b]) * n for b in (0, 255) for n in (1, 4, 8, 15, 16, 17, 33, 64, 65, 200)], tmp_path, gap=5)


def test_dead_lanes_read_nothing(tmp_path: Path) -> None:
    strings = random_strings([0, 5, 9, 20, 40, 100, 300, 64], 3)
    hashes(strings, tmp_path, dead=[1, 4, 6], block=8)
    hashes(strings, tmp_path, dead=range(8), block=8)


def test_it_compiles_for_gpus(tmp_path: Path) -> None:
    signature = {"text": "*u64", "starts": "*i64", "lengths": "*i64", "lives": "*i8", "out": "*i64", "count": "i32"}
    check_compiled(compiled(["fingerprint"], KERNEL, signature, tmp_path))
