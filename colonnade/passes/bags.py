"""New nodes: an embedding bag over the ids of a dense tensor, one row a batch row."""

from __future__ import annotations

import numpy as np

from colonnade.ir.graph import Node, facts_of
from colonnade.ops.graph.embedding_bag import EmbeddingBag, Pooling
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.range import Range
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.tile import Tile
from colonnade.ops.graph.where import Where
from colonnade.passes.base import Editor
from colonnade.passes.indices import column


def bag(editor: Editor, pooling: Pooling, table: Node, ids: Node, mask: Node | None = None) -> Node:
    """`[B, D]`: the rows of `ids` `[B]` or `[B, T]`, T known, pooled by batch row; only those that a mask keeps.

    mask: bool, shaped as the ids.
    """
    zero = _constant(editor, 0)
    count = editor.add(Gather(), editor.add(Shape("int32"), ids), zero, zero)
    if mask is not None:
        kept = editor.add(Where(), mask)
        return editor.add(
            EmbeddingBag(pooling), table, editor.add(GatherNd(), ids, kept), column(editor, kept, 0), count
        )
    return editor.add(EmbeddingBag(pooling), table, flat(editor, ids), numbered(editor, ids, count), count)


def flat(editor: Editor, x: Node) -> Node:
    """All elements as a vector."""
    return x if facts_of(x).rank == 1 else editor.add(Reshape(), x, _constant(editor, [-1]))


def numbered(editor: Editor, ids: Node, count: Node) -> Node:
    """The batch row of each element of `[B]` or `[B, T]`, flat; count: B."""
    zero, one = _constant(editor, 0), _constant(editor, 1)
    numbers = editor.add(Range(), zero, count, one)
    shape = facts_of(ids).shape
    assert shape is not None
    if len(shape) == 1 or shape[1] == 1:
        return numbers
    places = shape[1]
    assert isinstance(places, int)
    spread = editor.add(Tile(), editor.add(ExpandDims(), numbers, one), _constant(editor, [1, places]))
    return editor.add(Reshape(), spread, _constant(editor, [-1]))


def _constant(editor: Editor, value: int | list[int]) -> Node:
    return editor.constant(np.array(value, dtype=np.int32))
