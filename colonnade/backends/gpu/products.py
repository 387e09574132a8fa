"""Matrix products of few rows, cut along the inner dim so that every multiprocessor has a part.

A product of 256 rows with a [8152, 1024] matrix has 16 tiles of 128 x 128 for 132 multiprocessors: cuBLAS took 186 us
on an H200, eight products of an eighth of the inner dim and their sum 103 us; with 32 rows 54 and 28 us.
Legend: M rows, K inner dim, N outputs, S parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
import triton
from triton.runtime.interpreter import InterpretedFunction

from colonnade.backends.gpu.device.add_up import add_up
from colonnade.ir.program import OWN, Instruction, Program, Ref, operands, refs_in

LINEAR, RELU = "aten.linear.default", "aten.relu_.default"
LINEAR_RELU = f"{OWN}linear_relu"
TILE = 128
FEWEST_ROWS = 8
"""Below, the weights are read once and no more: a plain product does that."""
MOST_PARTS, SHORTEST = 16, 64
BLOCK = 1024


def parts_of(rows: int, inner: int, outputs: int, multiprocessors: int) -> int:
    """S: a divisor of K, 1 where a plain product fills the device or has too little to share."""
    if rows < FEWEST_ROWS or outputs == 0:
        return 1
    tiles = -(-rows // TILE) * -(-outputs // TILE)
    most = min(MOST_PARTS, multiprocessors // tiles, inner // SHORTEST)
    if most < 2:
        return 1
    return max(s for s in range(1, most + 1) if inner % s == 0)


class Products:
    """The dense rest's products on one device; on the CPU the kernel is interpreted.

    multiprocessors: as the device has, where not given.
    """

    def __init__(self, device: torch.device, multiprocessors: int | None = None) -> None:
        if multiprocessors is None:
            multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
        self._multiprocessors = multiprocessors
        self._add_up: Any = InterpretedFunction(add_up) if device.type == "cpu" else triton.jit(add_up)

    @property
    def ops(self) -> Mapping[str, Callable[..., torch.Tensor]]:
        """What runs in the place of instructions."""
        return {LINEAR: self.linear, LINEAR_RELU: self.linear_relu}

    def linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """`x @ weight.T + bias`."""
        return self._product(x, weight, bias, relu=False)

    def linear_relu(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """`relu(x @ weight.T + bias)`."""
        return self._product(x, weight, bias, relu=True)

    def _product(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, relu: bool) -> torch.Tensor:
        is_plain = x.dim() != 2 or x.dtype != torch.float32 or weight.dim() != 2 or x.stride(1) != 1
        if bias is not None:  # the kernel reads one an output, side by side
            is_plain = is_plain or bias.shape != weight.shape[:1] or not bias.is_contiguous()
        rows, inner, outputs = x.shape[0], weight.shape[-1], weight.shape[0]
        parts = 1 if is_plain else parts_of(rows, inner, outputs, self._multiprocessors)
        if parts == 1:
            made = torch.nn.functional.linear(x, weight, bias)
            return made.relu_() if relu else made
        each = inner // parts
        left_SMk = x.unflatten(1, (parts, each)).transpose(0, 1)
        right_SkN = weight.unflatten(1, (parts, each)).permute(1, 2, 0)
        parts_SMN = torch.bmm(left_SMk, right_SkN)
        out_MN = torch.empty(rows, outputs, dtype=x.dtype, device=x.device)
        size = rows * outputs
        given = parts_SMN if bias is None else bias
        constants = {"S": parts, "HAS_BIAS": bias is not None, "RELU": relu, "BLOCK": BLOCK}
        self._add_up[(-(-size // BLOCK),)](parts_SMN, given, out_MN, size, outputs, **constants)
        return out_MN


def fused(program: Program) -> Program:
    """The program with each linear and the relu that alone reads it as one instruction."""
    uses = Counter(name for line in program.dense for name in refs_in(operands(line)))
    uses.update(o.value.name for o in program.outputs)
    made: list[Instruction] = []
    for line in program.dense:
        before = made[-1] if made else None
        if before is not None and _joins(before, line, uses):
            made[-1] = replace(before, op=LINEAR_RELU, output=line.output)
        else:
            made.append(line)
    return replace(program, dense=tuple(made))


def _joins(first: Instruction, second: Instruction, uses: Mapping[str, int]) -> bool:
    follows = second.op == RELU and second.args == (Ref(first.output),) and not second.kwargs
    return follows and first.op == LINEAR and not first.kwargs and uses[first.output] == 1
