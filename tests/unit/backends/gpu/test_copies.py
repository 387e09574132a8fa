"""Short blocks are copied by a kernel, long ones by the copy engine; either way whole."""

from __future__ import annotations

import pytest
import torch

from colonnade.backends.gpu.copies import BLOCK, Copies
from colonnade.backends.gpu.graphs import host_memory


@pytest.mark.parametrize("words", [1, 31, BLOCK, 3 * BLOCK + 1])
@pytest.mark.parametrize("most_bytes", [0, 1 << 21])
def test_blocks_are_copied_and_counters_cleared(words: int, most_bytes: int) -> None:
    copies = Copies(torch.device("cpu"), most_bytes)
    source = torch.randint(0, 255, (8 * words,), dtype=torch.uint8)
    target, cleared = torch.zeros_like(source), torch.full((5,), -1, dtype=torch.int64)
    copies.bring(source, target, cleared[:3])
    assert torch.equal(target, source) and cleared.tolist() == [0, 0, 0, -1, -1]
    back = torch.zeros_like(source)
    copies.copy(target, back)
    assert torch.equal(back, source)


@pytest.mark.gpu
@pytest.mark.parametrize("most_bytes", [0, 1 << 21])
def test_pinned_memory(most_bytes: int) -> None:
    device = torch.device("cuda")
    copies = Copies(device, most_bytes)
    host, back = host_memory(device, 8 * 5000), host_memory(device, 8 * 5000)
    target, cleared = torch.zeros(8 * 5000, dtype=torch.uint8, device=device), torch.ones(2, dtype=torch.int64).cuda()
    for seed in range(20):
        host[:] = torch.randint(0, 255, host.shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
        copies.bring(host, target, cleared)
        copies.copy(target, back)
        torch.cuda.synchronize()
        assert torch.equal(back, host) and not cleared.any()
