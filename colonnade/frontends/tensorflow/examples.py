"""TensorFlow nodes that parse serialized Examples: operands and attributes that say which features are wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from colonnade.core.consts import Const
from colonnade.core.examples import Feature
from colonnade.errors import ImportFailure
from colonnade.frontends.tensorflow.protos import Node as Source
from colonnade.ir.graph import Node, args_of, op_of
from colonnade.ops.graph._values import array, tensor
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.ops.op import GraphOp


class Importer(Protocol):
    """What is used of the importer."""

    def operands(self, source: Source) -> tuple[Node, ...]:
        """All data operands."""

    def add(self, op: GraphOp, *args: Node, source: Source) -> Node:
        """Append an op."""


def parse_example_v2(importer: Importer, source: Source) -> Node:
    """ParseExampleV2: keys are vectors; sparse, dense and ragged features."""
    serialized, names, sparse, dense, ragged, *defaults = importer.operands(source)
    keys = (_texts(sparse), _texts(dense), _texts(ragged))
    return _parse(importer, source, serialized, names, keys, defaults)


def parse_example(importer: Importer, source: Source) -> Node:
    """ParseExample: an operand for each key; sparse and dense features."""
    serialized, names, *rest = importer.operands(source)
    num_sparse, num_dense = int(source.attrs["Nsparse"]), int(source.attrs["Ndense"])
    keys = [key for node in rest[: num_sparse + num_dense] for key in _texts(node)]
    split = keys[:num_sparse], keys[num_sparse:]
    return _parse(importer, source, serialized, names, (*split, []), rest[num_sparse + num_dense :])


def _parse(
    importer: Importer,
    source: Source,
    serialized: Node,
    names: Node,
    keys: tuple[Sequence[str], Sequence[str], Sequence[str]],
    defaults: Sequence[Node],
) -> Node:
    attrs = source.attrs
    _known(names, "names of Examples")  # they only stand in TensorFlow's error messages
    sparse = [Feature(k, t, "sparse") for k, t in zip(keys[0], attrs["sparse_types"], strict=True)]
    dense = list(_dense(keys[1], attrs["Tdense"], attrs["dense_shapes"], defaults))
    kinds = zip(attrs.get("ragged_value_types", ()), attrs.get("ragged_split_types", ()), strict=True)
    ragged = [Feature(k, t, "ragged", splits=s) for k, (t, s) in zip(keys[2], kinds, strict=True)]
    return importer.add(ParseExample((*sparse, *dense, *ragged)), serialized, source=source)


def _dense(
    keys: Sequence[str], dtypes: Sequence[str], shapes: Sequence[Any], defaults: Sequence[Node]
) -> Iterator[Feature]:
    for key, dtype, shape, node in zip(keys, dtypes, shapes, defaults, strict=True):
        default = _known(node, f"the default of feature {key!r}")
        if shape is None or None in shape[1:]:
            raise ImportFailure("a dense feature of unknown inner shape", where=f"feature {key!r}", got=str(shape))
        if None in shape:
            yield Feature(key, dtype, "steps", tuple(shape[1:]), Const(default.reshape(-1)))
        else:
            yield Feature(key, dtype, "dense", tuple(shape), Const(default) if default.size else None)


def _known(node: Node, what: str) -> np.ndarray[Any, Any]:
    """The value of a tensor that is made of constants alone."""
    op = op_of(node)
    if isinstance(op, Constant):
        return op.value.array
    if op is None or op.num_outputs != 1 or not args_of(node):
        raise ImportFailure(f"{what} is not made of constants alone", got=op.name if op else str(node))
    value: Any = op.reference(*(tensor(_known(arg, what)) for arg in args_of(node)))
    return array(value)


def _texts(node: Node) -> list[str]:
    values = _known(node, "a key of Examples").reshape(-1).tolist()
    try:
        return [value.decode() for value in values]
    except UnicodeDecodeError as error:
        raise ImportFailure("a key of Examples is no UTF-8", got=repr(error.object)) from error
