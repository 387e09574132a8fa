"""Peepholes on the dense rest: `mm` and `add` become `linear`; activations run in place where nothing else reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from colonnade.ir.program import Instruction, Ref, operands, refs_in, transposed

IN_PLACE = {
    "aten.relu.default": "aten.relu_.default",
    "aten.sigmoid.default": "aten.sigmoid_.default",
    "aten.tanh.default": "aten.tanh_.default",
    "aten.round.default": "aten.round_.default",
}
FRESH = ("aten.mm.default", "aten.addmm.default", "aten.linear.default", *IN_PLACE.values())


def fuse(
    instructions: Sequence[Instruction],
    outputs: Sequence[str],
    params: Mapping[str, tuple[int, ...]],
    variables: Container[str],
) -> list[Instruction]:
    """The same values with fewer calls and fewer buffers.

    outputs: values that are read after the list.   params: shapes of constants and variables by name, of which those
    in `variables` may be read transposed.
    Facts: a value is overwritten only where this list made it and nothing but the activation reads it. A `linear` reads
    the matrix under its name for the transposed value, which the matrix products of small batches are faster with.
    """
    return _in_place(_linear(_addmm(list(instructions), outputs, params), variables), outputs)


def _reads(instructions: Sequence[Instruction], outputs: Sequence[str]) -> Counter[str]:
    count: Counter[str] = Counter(outputs)
    for i in instructions:
        count.update(refs_in(operands(i)))
    return count


def _addmm(
    instructions: list[Instruction], outputs: Sequence[str], params: Mapping[str, tuple[int, ...]]
) -> list[Instruction]:
    reads = _reads(instructions, outputs)
    products = {i.output: i for i in instructions if i.op == "aten.mm.default" and reads[i.output] == 1}
    merged: dict[str, Instruction] = {}
    for i in instructions:
        if i.op != "aten.add.Tensor" or len(i.args) != 2 or i.kwargs:
            continue
        x, bias = i.args
        if not isinstance(x, Ref) or x.name not in products or not isinstance(bias, Ref):
            continue
        matrix = products[x.name].args[1]
        width = params.get(matrix.name, ())[1:] if isinstance(matrix, Ref) else ()
        if width and params.get(bias.name) == width:  # a bias of another size broadcasts the product
            merged[i.output] = replace(i, op="aten.addmm.default", args=(bias, *products.pop(x.name).args))
    gone = {i.output for i in instructions if i.op == "aten.mm.default" and reads[i.output] == 1} - products.keys()
    return [merged.get(i.output, i) for i in instructions if i.output not in gone]


def _linear(instructions: list[Instruction], variables: Container[str]) -> list[Instruction]:
    return [_as_linear(i, variables) if i.op == "aten.addmm.default" else i for i in instructions]


def _as_linear(i: Instruction, variables: Container[str]) -> Instruction:
    bias, x, matrix = i.args
    if not isinstance(matrix, Ref) or matrix.name not in variables:
        return i
    return replace(i, op="aten.linear.default", args=(x, Ref(transposed(matrix.name)), bias))


def _in_place(instructions: list[Instruction], outputs: Sequence[str]) -> list[Instruction]:
    reads = _reads(instructions, outputs)
    made: dict[str, Instruction] = {}
    out: list[Instruction] = []
    for i in instructions:
        x = i.args[0] if i.args else None
        if (
            i.op in IN_PLACE
            and isinstance(x, Ref)
            and reads[x.name] == 1
            and x.name in made
            and made[x.name].op in FRESH
        ):
            i = replace(i, op=IN_PLACE[i.op])
        made[i.output] = i
        out.append(i)
    return out
