"""The one value that every element of a tensor is proven to have, computed from constants alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ops.graph._values import array, tensor
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.broadcast_to import BroadcastTo
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.fill import Fill
from colonnade.ops.graph.logical_and import LogicalAnd
from colonnade.ops.graph.logical_not import LogicalNot
from colonnade.ops.graph.logical_or import LogicalOr
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.ones_like import OnesLike
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.sqrt import Sqrt
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.sub import Sub
from colonnade.ops.graph.tile import Tile
from colonnade.ops.graph.zeros_like import ZerosLike

Value = npt.NDArray[Any]
MOVING = (BroadcastTo, ExpandDims, Reshape, Squeeze, Tile)
EXACT = (Add, Cast, Compare, LogicalAnd, LogicalNot, LogicalOr, Mul, Sqrt, Sub)
"""Ops on elements whose results every machine rounds alike."""


def splat(node: Node) -> Value | None:
    """The value as an array of rank 0; None where it is not known, or is a denormal float on the way."""
    return _splat(node, {})


def whole(node: Node) -> int | bytes | None:
    """The one integer or string that every element is proven to be."""
    op = op_of(node)
    if isinstance(op, Fill):
        return whole(args_of(node)[1])
    if isinstance(op, MOVING):
        return whole(args_of(node)[0])
    if isinstance(op, Constant) and op.value.array.dtype == object:
        texts = {bytes(text) for text in op.value.array.reshape(-1)}
        return texts.pop() if len(texts) == 1 else None
    value = splat(node)
    if value is not None:
        return int(value) if value.dtype.kind in "iu" else None
    known = set(facts_of(node).ints or ())
    return known.pop() if len(known) == 1 else None


def shaped_as(node: Node) -> Node:
    """The node whose shape a tensor of one value is given; the node itself where it is none."""
    op = op_of(node)
    if isinstance(op, OnesLike | ZerosLike):
        return args_of(node)[0]
    if isinstance(op, Fill) and isinstance(args_of(node)[0].target, Shape):
        return args_of(args_of(node)[0])[0]
    return node


def _splat(node: Node, known: dict[Node, Value | None]) -> Value | None:
    """The same. known: of the nodes that were looked at, so that what many read is computed once."""
    if node not in known:
        known[node] = _of_op(node, known)
    return known[node]


def _of_op(node: Node, known: dict[Node, Value | None]) -> Value | None:
    op = op_of(node)
    if isinstance(op, Constant):
        return _common(op.value.array)
    if isinstance(op, ZerosLike | OnesLike):
        return _like(node, int(isinstance(op, OnesLike)))
    if isinstance(op, Fill):
        return _splat(args_of(node)[1], known)
    if isinstance(op, MOVING):
        return _splat(args_of(node)[0], known)
    if not isinstance(op, EXACT):
        return None
    values = []
    for arg in args_of(node):
        value = _splat(arg, known)
        if value is None:
            return None
        values.append(tensor(value))
    with np.errstate(all="ignore"):
        return _plain(array(op.reference(*values)))


def _like(node: Node, value: int) -> Value | None:
    known = node.meta["facts"]
    return None if known.dtype == "string" else np.array(value, known.dtype)


def _common(values: Value) -> Value | None:
    flat = values.reshape(-1)
    if flat.dtype == object or flat.size == 0 or flat.tobytes() != np.repeat(flat[:1], flat.size).tobytes():
        return None
    return _plain(flat[0].reshape(()))


def _plain(value: Value) -> Value | None:
    """TensorFlow's kernels may flush denormals."""
    denormal = value.dtype.kind == "f" and 0 < abs(value) < np.finfo(value.dtype).tiny
    return None if denormal else value
