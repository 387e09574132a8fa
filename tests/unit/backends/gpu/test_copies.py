"""Short blocks are copied by a kernel, long ones by the copy engine; either way whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from colonnade.backends.gpu.copies import ALIGNED, BLOCK, Copies, Moves
from colonnade.backends.gpu.device.copy_words import copy_words
from colonnade.backends.gpu.device.place_rows import place_rows
from colonnade.backends.gpu.graphs import host_memory
from tests.unit.backends.gpu.device_module import check_compiled


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


def _places(device: torch.device, shapes: list[tuple[int, int]]) -> tuple[torch.Tensor, list[torch.Tensor], Moves]:
    """A block on the device, the matrices that belong into it, and places for them, between columns of NaN."""
    starts, end = [], 0
    for rows, width in shapes:
        starts.append(end)
        end += -(-rows * width // ALIGNED) * ALIGNED
    block = torch.full((8 * -(-max(end, 1) // 2),), 255, dtype=torch.uint8, device=device)
    floats = block.view(torch.float32)
    views = [floats[s : s + r * w].view(r, w) for s, (r, w) in zip(starts, shapes, strict=True)]
    wide = torch.full((max((r for r, _ in shapes), default=0), 2 * sum(w for _, w in shapes) + 3), torch.nan)
    wide = wide.to(device)
    places, at = [], 1
    for rows, width in shapes:
        places.append(wide[:rows, at : at + width])
        at += 2 * width
    return block, [wide, *places], Moves.of(block, list(zip(views, places, strict=True)))


def _check_places(device: torch.device, shapes: list[tuple[int, int]], most_bytes: int) -> None:
    block, (wide, *places), moves = _places(device, shapes)
    host = host_memory(device, block.numel())
    host.view(torch.float32)[:] = torch.randn(host.numel() // 4)
    Copies(device, most_bytes).place(host, block, moves)
    if device.type == "cuda":
        torch.cuda.synchronize()
    for (values, _), place in zip(moves.pairs, places, strict=True):
        start = (values.data_ptr() - block.data_ptr()) // 4
        assert torch.equal(place.cpu().reshape(-1), host.view(torch.float32)[start : start + values.numel()])
        place.fill_(torch.nan)
    assert wide.isnan().all()


PLACED = [
    [(1, 1)],
    [(3, 5), (3, 128), (3, 1)],
    [(BLOCK, 2), (1, 7), (257, 16)],
    [(0, 8), (2, 3)],
    [(0, 8)],
    [],
]


@pytest.mark.parametrize("shapes", PLACED)
@pytest.mark.parametrize("most_bytes", [0, 1 << 21])
def test_matrices_go_to_their_places_alone(shapes: list[tuple[int, int]], most_bytes: int) -> None:
    _check_places(torch.device("cpu"), shapes, most_bytes)


@pytest.mark.gpu
@pytest.mark.parametrize("shapes", PLACED)
@pytest.mark.parametrize("most_bytes", [0, 1 << 21])
def test_matrices_go_to_their_places_on_a_device(shapes: list[tuple[int, int]], most_bytes: int) -> None:
    _check_places(torch.device("cuda"), shapes, most_bytes)


@pytest.mark.parametrize(
    ("kernel", "types", "constants"),
    [
        (copy_words, ("*i64", "*i64", "i64", "*i64", "i32"), {"BLOCK": BLOCK}),
        (place_rows, ("*fp32", "*i64"), {"ALIGNED": ALIGNED, "BLOCK": BLOCK}),
    ],
)
def test_both_kernels_compile(kernel: Callable[..., None], types: tuple[str, ...], constants: dict[str, int]) -> None:
    function = triton.jit(kernel)
    signature = dict(zip(function.arg_names, (*types, *("constexpr" for _ in constants)), strict=True))
    source = ASTSource(function, signature, constants)
    found = {at: triton.compile(source, target=GPUTarget("cuda", at, 32)) for at in (80, 90, 100)}
    check_compiled(found)
    assert all("st.global" in made.asm["ptx"] for made in found.values())
