"""TensorFlow nodes that are not one graph op: variables, aliases, ops whose operands become attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from colonnade.errors import ImportFailure
from colonnade.frontends.tensorflow.protos import Node as Source
from colonnade.ir.graph import Node, op_of
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.string_split import StringSplit
from colonnade.ops.op import GraphOp


class Importer(Protocol):
    """What a rule may use of the importer."""

    def operand(self, ref: str) -> Node:
        """The node that an input reference stands for."""

    def operands(self, source: Source) -> tuple[Node, ...]:
        """All data operands."""

    def add(self, op: GraphOp, *args: Node, source: Source) -> Node:
        """Append an op."""

    def variable(self, source: Source) -> Node:
        """The node of a variable."""

    def constant(self, value: int, dtype: str, source: Source) -> Node:
        """A scalar constant."""


Rule = Callable[[Importer, Source], Node]


def alias(importer: Importer, source: Source) -> Node:
    """The value of the first operand, unchanged."""
    return importer.operand(source.inputs[0])


def variable(importer: Importer, source: Source) -> Node:
    """A ref or resource variable; reading it is the same value."""
    return importer.variable(source)


def string_split(importer: Importer, source: Source) -> Node:
    """StringSplitV2 with a known, non-empty separator and no limit."""
    text, separator = importer.operands(source)
    op = op_of(separator)
    if not isinstance(op, Constant):
        raise ImportFailure("StringSplitV2 by a separator that is computed is not supported")
    value = bytes(op.value.array.reshape(-1)[0])
    if source.attrs.get("maxsplit", -1) >= 0 or not value:
        raise ImportFailure("StringSplitV2 by white space or with a limit is not supported", got=f"separator {value!r}")
    return importer.add(StringSplit(value), text, source=source)


def resource_gather(importer: Importer, source: Source) -> Node:
    """ResourceGather: rows of a variable, axis 0."""
    if source.attrs.get("batch_dims", 0):
        raise ImportFailure("ResourceGather with batch_dims is not supported")
    table, ids = importer.operands(source)
    axis = importer.constant(0, "int32", source)
    return importer.add(Gather(batch_dims=0), table, ids, axis, source=source)


RULES: dict[str, Rule] = {
    "Identity": alias,
    "PreventGradient": alias,
    "ReadVariableOp": alias,
    "ResourceGather": resource_gather,
    "Snapshot": alias,
    "StopGradient": alias,
    "StringSplitV2": string_split,
    "VarHandleOp": variable,
    "VariableV2": variable,
}
