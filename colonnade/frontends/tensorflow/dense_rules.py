"""TensorFlow nodes of dense networks that are several graph ops, or whose operands become attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from colonnade.core.consts import Const
from colonnade.errors import ImportFailure
from colonnade.frontends.tensorflow.protos import Node as Source
from colonnade.ir.graph import Node, op_of
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.arg_max import ArgMax
from colonnade.ops.graph.arg_min import ArgMin
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.ensure_shape import EnsureShape
from colonnade.ops.graph.guard import Guard
from colonnade.ops.graph.is_finite import IsFinite
from colonnade.ops.graph.maximum import Maximum
from colonnade.ops.graph.minimum import Minimum
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.pad import Pad
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.rsqrt import Rsqrt
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.square import Square
from colonnade.ops.graph.sub import Sub
from colonnade.ops.graph.sum import Sum
from colonnade.ops.op import GraphOp


class Importer(Protocol):
    """What is used of the importer."""

    def operands(self, source: Source) -> tuple[Node, ...]:
        """All data operands."""

    def add(self, op: GraphOp, *args: Node, source: Source) -> Node:
        """Append an op."""


class _Steps:
    """The steps of one node: only the last one has the source's name, the others are no tensors of the source."""

    def __init__(self, importer: Importer, source: Source) -> None:
        self._importer = importer
        self._source = source

    def add(self, op: GraphOp, *args: Node) -> Node:
        """Append a step that is not the last."""
        made = self._importer.add(op, *args, source=self._source)
        if not isinstance(op, Constant):
            made.meta["source"] = ""
        return made

    def constant(self, value: Any, dtype: str) -> Node:
        """A constant."""
        return self.add(Constant(Const(np.array(value, dtype=dtype))))

    def last(self, op: GraphOp, *args: Node) -> Node:
        """Append the last step."""
        return self._importer.add(op, *args, source=self._source)


def identity_n(importer: Importer, source: Source) -> tuple[Node, ...]:
    """IdentityN: the operands, unchanged."""
    return importer.operands(source)


def add_n(importer: Importer, source: Source) -> Node:
    """AddN: TensorFlow adds up to nine tensors in order, then eight at a time."""
    terms = importer.operands(source)
    first = len(terms) if len(terms) < 10 else 8 + len(terms) % 8 if len(terms) % 8 < 2 else len(terms) % 8
    total = _sum(importer, terms[:first], source)
    for k in range(first, len(terms), 8):
        total = importer.add(Add(), total, _sum(importer, terms[k : k + 8], source), source=source)
    return total


def _sum(importer: Importer, terms: tuple[Node, ...], source: Source) -> Node:
    total, *others = terms
    for term in others:
        total = importer.add(Add(), total, term, source=source)
    return total


def arg_max(importer: Importer, source: Source) -> Node:
    """ArgMax: NaN counts as smaller than everything."""
    return _arg(importer, source, ArgMax(source.attrs.get("output_type", "int64")), -np.inf)


def arg_min(importer: Importer, source: Source) -> Node:
    """ArgMin: NaN counts as larger than everything."""
    return _arg(importer, source, ArgMin(source.attrs.get("output_type", "int64")), np.inf)


def _arg(importer: Importer, source: Source, op: GraphOp, unordered: float) -> Node:
    x, axis = importer.operands(source)
    dtype = source.attrs.get("T", "")
    steps = _Steps(importer, source)
    if dtype.startswith("float"):
        x = steps.add(Select(), steps.add(Compare("ne"), x, x), steps.constant(unordered, dtype), x)
    return steps.last(op, x, axis)


def clip_by_value(importer: Importer, source: Source) -> Node:
    """ClipByValue: not below the second operand, not above the third."""
    x, least, most = importer.operands(source)
    steps = _Steps(importer, source)
    return steps.last(Maximum(), steps.add(Minimum(), x, most), least)


def fused_batch_norm(importer: Importer, source: Source) -> Node:
    """FusedBatchNorm of a trained model: `(x - mean) * (scale / sqrt(variance + epsilon)) + offset`."""
    layout = source.attrs.get("data_format", b"NHWC")
    if source.attrs.get("is_training", True) or layout not in (b"NHWC", "NHWC"):
        got = f"is_training={source.attrs.get('is_training', True)}, data_format={layout!r}"
        raise ImportFailure("FusedBatchNorm is supported with is_training=False and data_format=NHWC", got=got)
    x, scale, offset, mean, variance = importer.operands(source)
    steps = _Steps(importer, source)
    kept = steps.constant(source.attrs.get("epsilon", 1e-4), source.attrs.get("U", "float32"))
    factor = steps.add(Mul(), steps.add(Rsqrt(), steps.add(Add(), variance, kept)), scale)
    return steps.last(Add(), steps.add(Mul(), steps.add(Sub(), x, mean), factor), offset)


def l2_loss(importer: Importer, source: Source) -> Node:
    """L2Loss: half of the sum of squares."""
    (x,) = importer.operands(source)
    steps = _Steps(importer, source)
    lined = steps.add(Reshape(), steps.add(Square(), x), steps.constant([-1], "int32"))
    total = steps.add(Sum(), lined, steps.constant(0, "int32"))
    return steps.last(Mul(), total, steps.constant(0.5, source.attrs.get("T", "float32")))


def pad(importer: Importer, source: Source) -> Node:
    """Pad with zeros, PadV2 with a known value."""
    x, paddings, *values = importer.operands(source)
    value: Any = b"" if source.attrs.get("T") == "string" else 0
    if values:
        op = op_of(values[0])
        if not isinstance(op, Constant):
            raise ImportFailure("PadV2 with a value that is computed is not supported")
        value = op.value.array.reshape(-1)[0]
        value = value.item() if isinstance(value, np.generic) else value
    return importer.add(Pad(value), x, paddings, source=source)


def check_numerics(importer: Importer, source: Source) -> Node:
    """CheckNumerics: an error where an element is NaN or infinite."""
    (x,) = importer.operands(source)
    text = source.attrs.get("message", b"")
    said = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    steps = _Steps(importer, source)
    return steps.last(Guard(f"{source.name}: {said}"), x, steps.add(IsFinite(), x))


def ensure_shape(importer: Importer, source: Source) -> Node:
    """EnsureShape: sizes that are asked for are checked."""
    (x,) = importer.operands(source)
    shape = source.attrs.get("shape")
    if shape is None:
        return x
    return importer.add(EnsureShape(tuple(-1 if d is None else int(d) for d in shape)), x, source=source)


def first(importer: Importer, source: Source) -> Node:
    """PlaceholderWithDefault that no request feeds: its default."""
    return importer.operands(source)[0]


DENSE_RULES: dict[str, Callable[[Importer, Source], Node | tuple[Node, ...]]] = {
    "AddN": add_n,
    "ArgMax": arg_max,
    "ArgMin": arg_min,
    "CheckNumerics": check_numerics,
    "CheckNumericsV2": check_numerics,
    "ClipByValue": clip_by_value,
    "EnsureShape": ensure_shape,
    "FusedBatchNorm": fused_batch_norm,
    "FusedBatchNormV2": fused_batch_norm,
    "FusedBatchNormV3": fused_batch_norm,
    "IdentityN": identity_n,
    "L2Loss": l2_loss,
    "Pad": pad,
    "PadV2": pad,
    "PlaceholderWithDefault": first,
}
