"""Matrix products that cuBLAS leaves a device idle in: with a short inner dim, and with few rows.

* Few rows are cut along the inner dim so that every multiprocessor has a part. A product of 256 rows with a
  [8152, 1024] matrix has 16 tiles of 128 x 128 for 132 multiprocessors: cuBLAS took 186 us on an H200, eight products
  of an eighth of the inner dim and their sum 103 us. With 32 rows it took 53 us, eight products of 1,019 27 us, and 32
  of 252, which are aligned, 20 us.
* A product of 32 rows with a [32, 32] matrix, its relu and the copy into its slot took cuBLAS and torch seven launches
  and 22 us in a graph; one kernel takes 2 us.

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

from colonnade.backends.dense_ops import place
from colonnade.backends.gpu.device.add_up import add_up
from colonnade.backends.gpu.device.product import product
from colonnade.ir.program import OWN, PLACE, Instruction, Program, Ref, operands, refs_in

LINEAR, RELU = "aten.linear.default", "aten.relu_.default"
LINEAR_RELU, LINEAR_PLACE, LINEAR_RELU_PLACE = f"{OWN}linear_relu", f"{OWN}linear_place", f"{OWN}linear_relu_place"
TILE = 128
FEWEST_ROWS = 8
"""Below, the weights are read once and no more: a plain product does that."""
FEWEST_PARTS, MOST_PARTS = 4, 32
"""Fewer do not pay for adding them up."""
SHORTEST, ALIGNED = 128, 4
"""Of the inner dim of a part."""
BLOCK = 1024
SHORT, MOST_SHORT = 128, 1 << 18
"""Inner dims and sizes of results up to which one kernel does all of it."""
SHORT_TILE = 16


def is_short(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether a kernel that does all of a product is the fastest, and can read its matrix."""
    (rows, inner), outputs = x.shape, weight.shape[0]
    return 0 < inner <= SHORT and 0 < rows * outputs <= MOST_SHORT and weight.stride(1) == 1


def parts_of(rows: int, inner: int, outputs: int, multiprocessors: int) -> tuple[int, int]:
    """S, and the inner dim of each; 1 where a plain product fills the device or has too little to share.

    Facts: the parts are aligned; S is such that the least is left over, for one more product.
    """
    if rows < FEWEST_ROWS or outputs == 0:
        return 1, inner
    tiles = -(-rows // TILE) * -(-outputs // TILE)
    most = min(MOST_PARTS, 2 * multiprocessors // tiles, inner // SHORTEST)
    if most < FEWEST_PARTS:
        return 1, inner
    parts = min(range(most, most - most // 4 - 1, -1), key=lambda s: inner % (ALIGNED * s))
    return parts, inner // (ALIGNED * parts) * ALIGNED


class Products:
    """The dense rest's products on one device; on the CPU the kernels are interpreted.

    multiprocessors: as the device has, where not given.
    """

    def __init__(self, device: torch.device, multiprocessors: int | None = None) -> None:
        if multiprocessors is None:
            multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
        self._multiprocessors = multiprocessors
        compiled: Callable[[Any], Any] = InterpretedFunction if device.type == "cpu" else triton.jit
        self._add_up, self._short = compiled(add_up), compiled(product)

    @property
    def ops(self) -> Mapping[str, Callable[..., torch.Tensor]]:
        """What runs in the place of instructions."""
        return {
            LINEAR: self.linear,
            LINEAR_RELU: self.linear_relu,
            LINEAR_PLACE: self.linear_place,
            LINEAR_RELU_PLACE: self.linear_relu_place,
        }

    def linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """`x @ weight.T + bias`."""
        return self._product(x, weight, bias, relu=False)

    def linear_relu(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """`relu(x @ weight.T + bias)`."""
        return self._product(x, weight, bias, relu=True)

    def linear_place(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, buffer: torch.Tensor, offset: int
    ) -> torch.Tensor:
        """The buffer, with `x @ weight.T + bias` in its place from `offset` on."""
        return self._placed(x, weight, bias, buffer, offset, relu=False)

    def linear_relu_place(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, buffer: torch.Tensor, offset: int
    ) -> torch.Tensor:
        """The buffer, with `relu(x @ weight.T + bias)` in its place from `offset` on."""
        return self._placed(x, weight, bias, buffer, offset, relu=True)

    def _placed(
        self,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        buffer: torch.Tensor,
        offset: int,
        *,
        relu: bool,
    ) -> torch.Tensor:
        if _is_plain(x, weight, bias) or not is_short(x, weight):
            return place(self._product(x, weight, bias, relu=relu), buffer, offset)
        self._short_product(x, weight, bias, buffer.narrow(1, offset, weight.shape[0]), relu=relu)
        return buffer

    def _product(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, relu: bool) -> torch.Tensor:
        is_plain = _is_plain(x, weight, bias)
        rows, inner, outputs = x.shape[0], weight.shape[-1], weight.shape[0]
        if not is_plain and is_short(x, weight):
            out_MN = torch.empty(rows, outputs, dtype=x.dtype, device=x.device)
            self._short_product(x, weight, bias, out_MN, relu=relu)
            return out_MN
        parts, each = (1, inner) if is_plain else parts_of(rows, inner, outputs, self._multiprocessors)
        if parts == 1:
            made = torch.nn.functional.linear(x, weight, bias)
            return made.relu_() if relu else made
        return self._in_parts(x, weight, bias, parts, each, relu=relu)

    def _short_product(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor, *, relu: bool
    ) -> None:
        (rows, inner), outputs = x.shape, weight.shape[0]
        grid = (-(-rows // SHORT_TILE), -(-outputs // SHORT_TILE))
        sizes = rows, inner, outputs, x.stride(0), weight.stride(0), out.stride(0)
        constants = {"HAS_BIAS": bias is not None, "RELU": relu, "TILE": SHORT_TILE}
        self._short[grid](x, weight, weight if bias is None else bias, out, *sizes, **constants)

    def _in_parts(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, parts: int, each: int, *, relu: bool
    ) -> torch.Tensor:
        rows, outputs, cut = x.shape[0], weight.shape[0], parts * each
        rest = x.shape[1] - cut
        left_SMk = x[:, :cut].unflatten(1, (parts, each)).transpose(0, 1)
        right_SkN = weight[:, :cut].unflatten(1, (parts, each)).permute(1, 2, 0)
        parts_SMN = torch.empty(parts + bool(rest), rows, outputs, dtype=x.dtype, device=x.device)
        torch.bmm(left_SMk, right_SkN, out=parts_SMN[:parts])
        if rest:
            self._rest(x[:, cut:], weight[:, cut:], parts_SMN[parts])
        out_MN = torch.empty(rows, outputs, dtype=x.dtype, device=x.device)
        size = rows * outputs
        given = parts_SMN if bias is None else bias
        constants = {"S": len(parts_SMN), "HAS_BIAS": bias is not None, "RELU": relu, "BLOCK": BLOCK}
        self._add_up[(-(-size // BLOCK),)](parts_SMN, given, out_MN, size, outputs, **constants)
        return out_MN

    def _rest(self, x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> None:
        """What the parts leave over."""
        if weight.stride(1) == 1:
            self._short_product(x, weight, None, out, relu=False)
        else:
            torch.mm(x, weight.T, out=out)


def _is_plain(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> bool:
    """Whether the kernels cannot read the operands: torch can."""
    if x.dim() != 2 or x.dtype != torch.float32 or weight.dim() != 2 or x.stride(1) != 1:
        return True
    return bias is not None and (bias.shape != weight.shape[:1] or not bias.is_contiguous())


def fused(program: Program) -> Program:
    """The program with each linear, the relu that alone reads it and its copy into a slot as one instruction."""
    uses = Counter(name for line in program.dense for name in refs_in(operands(line)))
    uses.update(o.value.name for o in program.outputs)
    made: list[Instruction] = []
    for line in program.dense:
        joined = _joined(made[-1], line, uses) if made else None
        if joined is None:
            made.append(line)
        else:
            made[-1] = joined
    return replace(program, dense=tuple(made))


_PLACED = {LINEAR: LINEAR_PLACE, LINEAR_RELU: LINEAR_RELU_PLACE}
_BIASED = 3


def _joined(first: Instruction, second: Instruction, uses: Mapping[str, int]) -> Instruction | None:
    """Both as one; None where something else reads what lies between them."""
    if first.kwargs or second.kwargs or first.op not in _PLACED or uses[first.output] != 1:
        return None
    if second.op == RELU and second.args == (Ref(first.output),) and first.op == LINEAR:
        return replace(first, op=LINEAR_RELU, output=second.output)
    if second.op == PLACE and second.args[0] == Ref(first.output) and len(first.args) == _BIASED:
        return replace(second, op=_PLACED[first.op], args=(*first.args, *second.args[1:]))
    return None
