"""`merge-weighted`: filling of empty rows, products with weights and their sums become one `weighted_bag`."""

from __future__ import annotations

import numpy as np

from colonnade.core import facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Order
from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.div_no_nan import DivNoNan
from colonnade.ops.graph.embedding_bag import Pooling
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.pow import Pow
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.segment_sum import SegmentSum
from colonnade.ops.graph.sparse_fill_empty_rows import SparseFillEmptyRows
from colonnade.ops.graph.sqrt import Sqrt
from colonnade.ops.graph.unique import Unique
from colonnade.ops.graph.weighted_bag import WeightedBag
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten
from colonnade.passes.indices import column, column_of
from colonnade.passes.merge_trimmed import trimmed_rows
from colonnade.passes.splat import splat


class MergeWeighted(Rewrite):
    """`segment_sum(rows of filled ids * filled weights)`, over the sum of weights or its root, is a weighted bag.

    Legal: ids and weights are filled by equal index matrices and shapes, with one known row and a weight of 1, so that
    an empty row is that row of the table; rows are proven sorted; the sums are over the filled rows.
    """

    roots = (DivNoNan, SegmentSum)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """From the quotient, or from a sum that none divides."""
        pooling: Pooling = "sum"
        if isinstance(node.target, SegmentSum):
            if any(isinstance(u.target, DivNoNan | Sqrt) for u in node.users):
                return None
            total, divisor = node, None
        else:
            total, below = args_of(node)
            pooling = "sqrtn" if isinstance(below.target, Sqrt) else "mean"
            divisor = args_of(below)[0] if pooling == "sqrtn" else below
            if not isinstance(total.target, SegmentSum) or not isinstance(divisor.target, SegmentSum):
                return None
        products, rows = args_of(total)
        if not isinstance(products.target, Mul):
            return None
        found = _factors(products)
        if isinstance(found, Reject):
            return found
        table, ids, weights = found
        if divisor is not None and not _divides(divisor, pooling, weights, rows):
            return Reject("the divisor is not the sum of the weights over the same rows")
        return _merged(editor, pooling, table, ids, weights, rows)


def _factors(products: Node) -> tuple[Node, Node, Node] | Reject:
    """Table, ids, and weights as a matrix of one column."""
    for vectors, weights in (args_of(products), args_of(products)[::-1]):
        if isinstance(vectors.target, Gather) and isinstance(weights.target, Reshape):
            unique_rows, inverse, axis = args_of(vectors)
            if facts_of(axis).integer != 0:
                continue
            if not isinstance(unique_rows.target, Gather):
                return unique_rows, inverse, weights
            table, unique, table_axis = args_of(unique_rows)
            (made, first), (same, second) = item_of(unique), item_of(inverse)
            is_inverse = made is same and isinstance(made.target, Unique) and (first, second) == (0, 1)
            if is_inverse and facts_of(table_axis).integer == 0:
                return table, args_of(made)[0], weights
    return Reject("weights are not multiplied with rows of unique ids")


def _divides(divisor: Node, pooling: str, weights: Node, rows: Node) -> bool:
    summed, by = args_of(divisor)
    if pooling == "sqrtn":
        if not isinstance(summed.target, Pow):
            return False
        summed, exponent = args_of(summed)
        power = splat(exponent)
        if power is None or float(power) != 2.0:
            return False
    return summed is weights and by is rows


def _merged(editor: Editor, pooling: Pooling, table: Node, ids: Node, matrix: Node, rows: Node) -> Rewritten | Reject:
    weights, shape = args_of(matrix)
    if not _is_one_column(weights, shape):
        return Reject("weights are not one a row of the table")
    trimmed = trimmed_rows(editor, rows)
    if trimmed is not None:
        bag = editor.add(WeightedBag(pooling), table, ids, rows, trimmed, weights)
        return Rewritten(bag, "rows are sorted and end with one that has an element")
    (fill, place), (other, other_place) = item_of(ids), item_of(weights)
    fills = isinstance(fill.target, SparseFillEmptyRows) and isinstance(other.target, SparseFillEmptyRows)
    if not fills or place != 1 or other_place != 1:
        return Reject("ids and weights do not come of fillings of empty rows")
    found = column_of(rows)
    if found is None or item_of(found[0]) != (fill, 0) or found[1] != 0:
        return Reject("rows are not column 0 of the ids' indices")
    indices, values, size, default = args_of(fill)
    other_indices, factors, other_size, one = args_of(other)
    if not (_same(indices, other_indices) and _same(size, other_size)):
        return Reject("ids and weights are not filled by the same indices")
    packed = facts_of(indices).packed
    if packed is None or packed.axis != 1 or packed.parts[0].order < Order.NONDECREASING:
        return Reject("rows are not proven sorted before the filling")
    known, row, weight = facts_of(table), facts_of(default).integer, splat(one)
    if known.shape is None or len(known.shape) != 2 or not isinstance(known.shape[0], int):
        return Reject("the table is not a matrix of known size")
    if row is None or not 0 <= row < known.shape[0] or weight is None or float(weight) != 1.0:
        return Reject(f"an empty row is not one row of the table with the weight 1, but {row}, {weight}")
    zero = editor.constant(np.array(0, dtype=np.int32))
    count = editor.add(Gather(), size, zero, zero)
    bag = editor.add(WeightedBag(pooling, row), table, values, column(editor, indices, 0), count, factors)
    return Rewritten(bag, "ids and weights are filled by equal indices, which are proven sorted")


def _is_one_column(weights: Node, shape: Node) -> bool:
    """Whether a reshape of N weights gives `[N, 1]`."""
    parts = list(args_of(shape)[:-1]) if isinstance(shape.target, Concat) else [shape]
    sizes: list[Dim] = []
    for part in parts:
        known = facts_of(part)
        content = facts.as_indexed(known)
        if known.values is not None:
            sizes += known.values
        elif content is not None and not content.terms and known.shape is not None and known.shape[0] == 1:
            sizes.append(content.constant)
        else:
            return False
    length = facts_of(weights).shape
    return length is not None and sizes == [length[0], 1]


def _same(a: Node, b: Node) -> bool:
    """Whether two values are made alike of the same values."""
    if a is b:
        return True
    (x, i), (y, k) = item_of(a), item_of(b)
    if i != k or op_of(x) != op_of(y) or len(x.args) != len(y.args) or not x.args:
        return isinstance(op_of(x), Constant) and op_of(x) == op_of(y)
    return all(map(_same, args_of(x), args_of(y)))
