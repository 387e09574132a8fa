"""`pair-weights`: weights of dense ids lack values where the ids do."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import sympy

from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ir.infer import rename
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.sparse_fill_empty_rows import SparseFillEmptyRows
from colonnade.ops.graph.sparse_reorder import SparseReorder
from colonnade.ops.graph.unique import Unique
from colonnade.ops.graph.where import Where
from colonnade.passes.base import Editor, Pass, Reject
from colonnade.passes.splat import splat, whole


class PairWeights(Pass):
    """Weights that are taken where they are not 0, of ids that are taken where they are not missing, are taken there.

    Legal: ids and weights are inputs of one shape, and every request is held to lack both in the same places. (Where it
    does not, TensorFlow pairs the ids that are left with the weights that are left, in order, over all rows; or refuses
    the request, where they are not as many.)
    """

    def run(self, editor: Editor) -> int:
        """Every product of looked up rows and weights, and weights that are put in the places of ids."""
        mapping: dict[sympy.Symbol, Dim] = {}
        changed = 0
        for node in [n for n in editor.graph.nodes() if isinstance(n.target, Mul | SparseReorder)]:
            found = _pair(node)
            if found is None:
                continue
            if isinstance(found, Reject):
                editor.record(node, False, found.reason)
                continue
            _paired(editor, *found, mapping)
            editor.record(node, True, "ids and weights are inputs of one shape; requests are held to lack both at once")
            changed += 1
        if mapping:
            rename(editor.graph, {s: _last(s, mapping) for s in mapping})
        return changed


def _pair(product: Node) -> tuple[Node, Node] | Reject | None:
    """The `gather_nd` of ids and that of weights."""
    factors = _factors(product)
    if factors is None:
        return None
    ids, weights = (_taken(x) for x in factors)
    if ids is None or weights is None or args_of(ids)[1] is args_of(weights)[1]:
        return None
    (x, _), (y, _) = args_of(ids), args_of(weights)
    one, other = _missing(ids), _missing(weights)
    if one is None or not isinstance(one, int | bytes) or (isinstance(one, bytes) and one):
        return Reject("ids are not taken where they differ from one integer or the empty string")
    if not isinstance(other, float) or other != 0:
        return Reject("weights are not taken where they differ from 0")
    shape, of_weights = facts_of(x).shape, facts_of(y).shape
    if not shape or not of_weights or not dims.is_symbol(shape[0]) or not dims.is_symbol(of_weights[0]):
        return Reject("ids and weights have no batch")
    if (facts_of(_input(x)).shape or ())[1:] != (facts_of(_input(y)).shape or ())[1:]:
        return Reject("one of ids and weights is a vector, the other a matrix")
    if shape[1:] != of_weights[1:] or not all(isinstance(d, int) for d in shape[1:]):
        return Reject(f"ids and weights have the shapes {shape} and {of_weights}")
    return ids, weights


def _factors(product: Node) -> tuple[Node, Node] | None:
    """Ids whose rows are multiplied, or whose places are taken, and the weights."""
    if isinstance(product.target, SparseReorder):
        indices, weights, _ = args_of(product)
        is_joined = isinstance(indices.target, Concat) and len(args_of(indices)) == 3
        return (args_of(indices)[1], weights) if is_joined else None
    for vectors, weights in (args_of(product), args_of(product)[::-1]):
        if isinstance(vectors.target, Gather) and isinstance(weights.target, Reshape):
            ids = args_of(vectors)[1]
            base, output = item_of(ids)
            return args_of(base)[0] if isinstance(base.target, Unique) and output == 1 else ids, weights
    return None


def _taken(node: Node) -> Node | None:
    """The `gather_nd` by a mask that values were made of, element by element or with fewer or more of them."""
    while True:
        base, output = item_of(node)
        op = op_of(base)
        if isinstance(op, GatherNd):
            return base if isinstance(args_of(base)[1].target, Where) else None
        if isinstance(op, SparseFillEmptyRows) and output == 1:
            node = args_of(base)[1]
        elif args_of(base) and op is not None and op.num_outputs == 1:
            node = args_of(base)[0]
        else:
            return None


def _missing(taken: Node) -> int | bytes | float | None:
    """What an input is not equal to where its values are taken."""
    x, places = args_of(taken)
    (mask,) = args_of(places)
    op = op_of(mask)
    if not isinstance(op, Compare) or op.kind != "ne" or not isinstance(_input(x).target, Placeholder):
        return None
    if args_of(mask)[0] is not x or facts_of(mask).shape != facts_of(x).shape:
        return None
    if facts_of(x).dtype == "float32":
        value = splat(args_of(mask)[1])
        return None if value is None else float(value)
    return whole(args_of(mask)[1])


def _input(x: Node) -> Node:
    """The input that a tensor is, or that it holds one value a row of: `[B]` as `[B, 1]`."""
    shape = facts_of(x).shape
    if isinstance(x.target, ExpandDims | Reshape) and shape is not None and shape[1:] == (1,):
        of = args_of(x)[0]
        return of if facts_of(of).shape == shape[:1] else x
    return x


def _paired(editor: Editor, ids: Node, weights: Node, mapping: dict[sympy.Symbol, Dim]) -> None:
    """Let weights be taken where ids are."""
    graph = editor.graph
    (x, places), (y, _) = args_of(ids), args_of(weights)
    one, other = _missing(ids), _missing(weights)
    given, weighed = _input(x), _input(y)
    assert isinstance(given.target, Placeholder) and isinstance(weighed.target, Placeholder)
    assert isinstance(one, int | bytes) and isinstance(other, float)
    compare, dtype = op_of(args_of(places)[0]), facts_of(x).dtype
    assert compare is not None
    # The mask of the ids may stand behind what reads the weights: it is made anew before all.
    graph.inputs_first()
    editor.at(next(n for n in graph.nodes() if not isinstance(n.target, Placeholder)))
    missing = editor.constant(np.array(one, object if dtype == "string" else dtype))
    made = given if given is x else editor.add(ExpandDims(), given, editor.constant(np.int32(1)))
    known = editor.add(Where(), editor.add(compare, made, missing))
    graph.replace(places, known)
    graph.replace(weights, editor.at(weights).add(GatherNd(), y, known))
    graph.agreements[given.target.key, weighed.target.key] = one, other
    a, b = (facts_of(n).shape for n in (x, y))
    assert a is not None and b is not None
    rows, others = _last(a[0], mapping), _last(b[0], mapping)
    if rows != others and isinstance(others, sympy.Symbol):
        mapping[others] = rows


def _last(symbol: Dim, mapping: Mapping[sympy.Symbol, Dim]) -> Dim:
    while isinstance(symbol, sympy.Symbol) and symbol in mapping:
        symbol = mapping[symbol]
    return symbol
