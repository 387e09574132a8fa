"""TensorFlow nodes that are not one graph op: variables, aliases, ops whose operands become attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from colonnade.core.consts import Const
from colonnade.errors import ImportFailure
from colonnade.frontends.tensorflow.dense_rules import DENSE_RULES
from colonnade.frontends.tensorflow.examples import parse_example, parse_example_v2
from colonnade.frontends.tensorflow.lookup_tables import LookupTable
from colonnade.frontends.tensorflow.protos import Node as Source
from colonnade.frontends.tensorflow.string_rules import regex_replace, string_join, string_lower, string_upper, substr
from colonnade.ir.graph import Node, args_of, op_of
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.ensure_shape import EnsureShape
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.lookup_table_find import LookupTableFind
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.ragged_to_dense import RaggedToDense
from colonnade.ops.graph.regex_replace import RegexReplace
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.rows_to_dense import RowsToDense
from colonnade.ops.graph.sparse_cross import SparseCross
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.string_split import StringSplit
from colonnade.ops.op import GraphOp

WHITE = rb"[\t\n\x0b\x0c\r]"
"""White space but the space."""


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

    def table(self, ref: str) -> LookupTable:
        """The lookup table behind a handle."""


Rule = Callable[[Importer, Source], Node | tuple[Node, ...]]
"""Gives the node's value, or one value an output."""


def alias(importer: Importer, source: Source) -> Node:
    """The value of the first operand, unchanged."""
    return importer.operand(source.inputs[0])


def variable(importer: Importer, source: Source) -> Node:
    """A ref or resource variable; reading it is the same value."""
    return importer.variable(source)


def string_split(importer: Importer, source: Source) -> Node:
    """StringSplitV2 by a known separator, or by white space, without a limit."""
    text, separator = importer.operands(source)
    op = op_of(separator)
    if not isinstance(op, Constant):
        raise ImportFailure("StringSplitV2 by a separator that is computed is not supported")
    value = bytes(op.value.array.reshape(-1)[0])
    if source.attrs.get("maxsplit", -1) >= 0:
        raise ImportFailure("StringSplitV2 with a limit is not supported", got=f"separator {value!r}")
    if value:
        return importer.add(StringSplit(value), text, source=source)
    return importer.add(StringSplit(b" ", skip_empty=True), _with_spaces(importer, text, source), source=source)


def _with_spaces(importer: Importer, text: Node, source: Source) -> Node:
    """Strings whose white space is made of spaces; made before they are reshaped, of what the host reads."""
    op = op_of(text)
    if isinstance(op, Reshape | Squeeze | ExpandDims):
        first, *rest = args_of(text)
        return importer.add(op, _with_spaces(importer, first, source), *rest, source=source)
    return importer.add(RegexReplace(WHITE, b" "), text, source=source)


def resource_gather(importer: Importer, source: Source) -> Node:
    """ResourceGather: rows of a variable, axis 0."""
    if source.attrs.get("batch_dims", 0):
        raise ImportFailure("ResourceGather with batch_dims is not supported")
    table, ids = importer.operands(source)
    axis = importer.constant(0, "int32", source)
    return importer.add(Gather(batch_dims=0), table, ids, axis, source=source)


def lookup_table_find(importer: Importer, source: Source) -> Node:
    """LookupTableFindV2 in a table whose contents are known."""
    handle, x, default = source.inputs[:3]
    table = importer.table(handle)
    op = LookupTableFind(Const(table.keys), Const(table.values))
    return importer.add(op, importer.operand(x), importer.operand(default), source=source)


def lookup_table_size(importer: Importer, source: Source) -> Node:
    """LookupTableSizeV2 of a table whose contents are known."""
    return importer.constant(len(importer.table(source.inputs[0]).keys), "int64", source)


def ragged_to_sparse(importer: Importer, source: Source) -> Node:
    """RaggedTensorToSparse of one level of splits."""
    if source.attrs.get("RAGGED_RANK", 1) != 1:
        raise ImportFailure("RaggedTensorToSparse of several levels of splits is not supported")
    return importer.add(RaggedInput("splits"), *importer.operands(source), source=source)


def ragged_to_tensor(importer: Importer, source: Source) -> Node:
    """RaggedTensorToTensor of one level of splits, or of the rows of each value; sizes that are given are constants."""
    kinds = [kind if isinstance(kind, str) else kind.decode() for kind in source.attrs.get("row_partition_types", ())]
    if kinds == ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]:
        return _rows_to_tensor(importer, source)
    if kinds != ["ROW_SPLITS"]:
        raise ImportFailure("RaggedTensorToTensor of rows of several levels is not supported", got=", ".join(kinds))
    shape, values, default, splits = importer.operands(source)
    sizes = _sizes(shape)
    made = importer.add(RaggedToDense(_width(sizes)), splits, values, default, source=source)
    return _held(importer, made, sizes, source)


def _sizes(shape: Node) -> list[int]:
    """The sizes that a dense shape gives, -1 where it is open: not the number of rows."""
    sizes = shape.target.value.array.reshape(-1).tolist() if isinstance(shape.target, Constant) else None
    if sizes is None or any(size != -1 for size in sizes[:1]):
        raise ImportFailure("RaggedTensorToTensor to a number of rows of its own is not supported", got=str(sizes))
    return sizes


def _width(sizes: list[int]) -> int | None:
    return sizes[1] if len(sizes) > 1 and sizes[1] != -1 else None


def _held(importer: Importer, made: Node, sizes: list[int], source: Source) -> Node:
    """What a shape says of the vectors in places must be so."""
    if all(size == -1 for size in sizes[2:]):
        return made
    return importer.add(EnsureShape(tuple(sizes)), made, source=source)


def _rows_to_tensor(importer: Importer, source: Source) -> Node:
    """The same of values that say their rows."""
    shape, values, default, count, rows = importer.operands(source)
    sizes = _sizes(shape)
    made = importer.add(RowsToDense(_width(sizes)), rows, values, default, count, source=source)
    return _held(importer, made, sizes, source)


def sparse_cross(importer: Importer, source: Source) -> Node:
    """SparseCross into hash buckets."""
    buckets = source.attrs.get("num_buckets", 0)
    if not source.attrs.get("hashed_output") or buckets < 1:
        raise ImportFailure("SparseCross without hash buckets is not supported")
    op = SparseCross(buckets, source.attrs.get("hash_key", 0), source.attrs.get("N", 0))
    return importer.add(op, *importer.operands(source), source=source)


RULES: dict[str, Rule] = {
    **DENSE_RULES,
    "Identity": alias,
    "LookupTableFind": lookup_table_find,
    "LookupTableFindV2": lookup_table_find,
    "LookupTableSize": lookup_table_size,
    "LookupTableSizeV2": lookup_table_size,
    "ParseExample": parse_example,
    "ParseExampleV2": parse_example_v2,
    "PreventGradient": alias,
    "RaggedTensorToSparse": ragged_to_sparse,
    "RaggedTensorToTensor": ragged_to_tensor,
    "ReadVariableOp": alias,
    "ResourceGather": resource_gather,
    "Snapshot": alias,
    "StopGradient": alias,
    "RegexReplace": regex_replace,
    "SparseCross": sparse_cross,
    "StaticRegexReplace": regex_replace,
    "StringJoin": string_join,
    "StringLower": string_lower,
    "StringUpper": string_upper,
    "Substr": substr,
    "StringSplitV2": string_split,
    "VarHandleOp": variable,
    "VariableV2": variable,
}
