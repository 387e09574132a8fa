"""`row-ids`: rows that are counted, made into splits and repeated again are the row numbers that were counted."""

from __future__ import annotations

from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.cumsum import Cumsum
from colonnade.ops.graph.dense_bincount import DenseBincount
from colonnade.ops.graph.maximum import Maximum
from colonnade.ops.graph.minimum import Minimum
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.string_split import StringSplit
from colonnade.ops.graph.unsorted_segment_sum import UnsortedSegmentSum
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten
from colonnade.passes.indices import column_of
from colonnade.passes.repeats import splits_behind


class RowIds(Rewrite):
    """`unsorted_segment_sum(x, repeat(0 .. n - 1, counts of row numbers), n)` is a sum by those row numbers; rows by
    splits that are their counts are those of the tokens.

    Legal: the row numbers are those of tokens of n strings: sorted, from 0 to n - 1, so that all are counted, and come
    back in order; values in rows are as many.
    """

    roots = (UnsortedSegmentSum, RaggedInput)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """By what the splits are made of."""
        op, args = op_of(node), args_of(node)
        by_splits = isinstance(op, RaggedInput) and op.by == "splits" and not op.trimmed
        splits = args[0] if by_splits else splits_behind(args[1]) if isinstance(op, UnsortedSegmentSum) else None
        counted = None if splits is None else _counted(splits)
        if counted is None:
            return None
        ids, size = counted
        number, split = _number(size), _split(ids)
        if split is None:
            return Reject("what is counted are not proven to be the row numbers of tokens")
        texts = facts_of(args_of(split)[0]).shape
        if not texts or facts_of(number).values != texts:
            return Reject("row numbers are not proven to be counted for all strings")
        proof = "row numbers of tokens are sorted, and each is below the number of strings"
        if isinstance(op, UnsortedSegmentSum):
            return Rewritten(editor.add(UnsortedSegmentSum(), args[0], ids, number), proof)
        if any(facts_of(value).shape != facts_of(ids).shape for value in args[1:]):
            return Reject("values in rows are not proven to be as many as tokens")
        return Rewritten((editor.item(split, 0), *args[1:], editor.item(split, 2)), proof)


def _counted(splits: Node) -> tuple[Node, Node] | None:
    """The numbers and how many of them there may be, where splits are 0 and the sums of how often each occurs."""
    if not isinstance(splits.target, Concat):
        return None
    first, *sums, axis = args_of(splits)
    if len(sums) != 1 or facts_of(first).ints != (0,) or facts_of(axis).integer != 0:
        return None
    op = op_of(sums[0])
    if not isinstance(op, Cumsum) or op.exclusive or op.reverse:
        return None
    counts, along = args_of(sums[0])
    op = op_of(counts)
    if not isinstance(op, DenseBincount) or op.binary or facts_of(along).integer != 0:
        return None
    ids, size, weights = args_of(counts)
    return (ids, size) if facts_of(ids).rank == 1 and facts_of(weights).shape == (0,) else None


def _number(size: Node) -> Node:
    """`n` where the size is `minimum(n, maximum(n, x))`; else the size."""
    if isinstance(size.target, Minimum):
        for number, most in (args_of(size), args_of(size)[::-1]):
            if isinstance(most.target, Maximum) and number in args_of(most):
                return number
    return size


def _split(ids: Node) -> Node | None:
    """The splitting whose tokens' row numbers these are."""
    found = column_of(ids)
    base, output = item_of(found[0]) if found is not None else (ids, 0)
    whole = found is not None and found[1] == 0 and output == 0 and isinstance(base.target, StringSplit)
    return base if whole else None
