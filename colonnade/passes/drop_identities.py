"""`drop-identities`: ops that are proven to give their operand back."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.real_div import RealDiv
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.slice import Slice
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.sub import Sub
from colonnade.ops.graph.tile import Tile
from colonnade.ops.graph.transpose import Transpose
from colonnade.ops.op import GraphOp
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten

Answer = Rewritten | Reject | None


class DropIdentities(Rewrite):
    """Reshape, slice, transpose, tile, cast and neutral arithmetic that change nothing.

    Legal: dims proven equal and stride, order and axis unchanged; `x + 0.0` is kept (it turns -0.0 into +0.0).
    """

    roots = (Reshape, Slice, StridedSlice, Transpose, Tile, Cast, Concat, Add, Sub, Mul, RealDiv)

    def rewrite(self, node: Node, editor: Editor) -> Answer:
        """By the kind of op."""
        return _RULES[type(node.target)](node)  # type: ignore[index]


def _same_shape(node: Node) -> bool:
    x = facts_of(args_of(node)[0])
    return x.shape is not None and x.shape == facts_of(node).shape


def _reshape(node: Node) -> Answer:
    if _same_shape(node):
        return Rewritten(args_of(node)[0], "the shape is proven unchanged")
    x = args_of(node)[0]
    if isinstance(x.target, ExpandDims | Reshape) and _has_shape_of(args_of(x)[0], node):
        return Rewritten(args_of(x)[0], "a reshape back to the shape from before, by the same order of elements")
    return None


def _has_shape_of(x: Node, node: Node) -> bool:
    return facts_of(x).shape is not None and facts_of(x).shape == facts_of(node).shape


def _slice(node: Node) -> Answer:
    x, begin, _ = args_of(node)
    if not _same_shape(node):
        return None
    starts = facts_of(begin).ints
    if starts is None or any(starts):
        return Reject("the slice has the operand's shape but does not provably start at 0")
    return Rewritten(x, "every begin is 0 and the shape is proven unchanged")


def _strided_slice(node: Node) -> Answer:
    x, _, _, strides = args_of(node)
    if not _same_shape(node):
        return None
    steps = facts_of(strides).ints
    if steps is None or any(s != 1 for s in steps):
        return Reject("the slice has the operand's shape but is reversed or strided")
    op = op_of(node)
    assert isinstance(op, StridedSlice)
    if op.new_axis_mask or op.shrink_axis_mask:
        return Reject("the slice adds or removes axes")
    return Rewritten(x, "stride 1 and the shape is proven unchanged: nothing is cut off")


def _transpose(node: Node) -> Answer:
    x, perm = args_of(node)
    order = facts_of(perm).ints
    if order is not None and order == tuple(range(len(order))):
        return Rewritten(x, "the permutation is the identity")
    return None


def _tile(node: Node) -> Answer:
    x, multiples = args_of(node)
    times = facts_of(multiples).ints
    return Rewritten(x, "every multiple is 1") if times is not None and all(t == 1 for t in times) else None


def _cast(node: Node) -> Answer:
    (x,) = args_of(node)
    return Rewritten(x, "the dtype is unchanged") if facts_of(x).dtype == facts_of(node).dtype else None


def _concat(node: Node) -> Answer:
    return Rewritten(args_of(node)[0], "a concat of one operand") if len(args_of(node)) == 2 else None


def _neutral(value: float, *, sides: tuple[int, ...]) -> Callable[[Node], Answer]:
    """x op value, where `value` is proven to be every element of the other operand."""

    def rule(node: Node) -> Answer:
        args = args_of(node)
        for side in sides:
            x, other = args[1 - side], args[side]
            if not _is_every(other, value):
                continue
            if facts_of(x).shape is None or facts_of(x).shape != facts_of(node).shape:
                return Reject(f"the operand is all {value:g} but broadcasts the other one")
            return Rewritten(x, f"the other operand is proven to be all {value:g}, and nothing is broadcast")
        if value == 0 and math.copysign(1, value) < 0 and any(_is_every(args[side], 0.0) for side in sides):
            return Reject("x + 0.0 turns -0.0 into +0.0")
        return None

    return rule


def _is_every(node: Node, value: float) -> bool:
    known = facts_of(node)
    if known.dtype in facts.INTEGER:
        return _integer_is(known, int(value))
    op = op_of(node)
    if not isinstance(op, Constant) or known.dtype not in facts.FLOATING or op.value.array.size == 0:
        return False
    array = op.value.array.astype(np.float64)
    return bool(np.all(array == value)) and bool(np.all(np.signbit(array) == (math.copysign(1, value) < 0)))


def _integer_is(known: Facts, value: int) -> bool:
    content = facts.as_indexed(known)
    if content is not None:
        return not content.terms and content.constant == value
    return known.lo == value and known.hi == value


_RULES: dict[type[GraphOp], Callable[[Node], Answer]] = {
    Reshape: _reshape,
    Slice: _slice,
    StridedSlice: _strided_slice,
    Transpose: _transpose,
    Tile: _tile,
    Cast: _cast,
    Concat: _concat,
    Add: _neutral(-0.0, sides=(0, 1)),
    Sub: _neutral(0.0, sides=(1,)),
    Mul: _neutral(1.0, sides=(0, 1)),
    RealDiv: _neutral(1.0, sides=(1,)),
}
