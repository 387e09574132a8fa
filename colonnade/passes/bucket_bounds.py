"""`bucket-bounds`: the place in one row of known, sorted numbers is a bucket."""

from __future__ import annotations

import numpy as np

from colonnade.core.consts import Const
from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ops.graph.bucketize import Bucketize
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.upper_bound import UpperBound
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten


class BucketBounds(Rewrite):
    """`upper_bound(b, x)` is `bucketize(x)` with the boundaries b.

    Legal: b is proven to be one row of known float32 numbers that never decrease; x has the result's shape.
    """

    roots = (UpperBound,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """Look at the boundaries."""
        bounds, values = args_of(node)
        op = op_of(node)
        assert isinstance(op, UpperBound)
        known = _known(bounds)
        shape = facts_of(bounds).shape
        if known is None or shape is None or len(shape) != 2 or shape[0] != 1:
            return Reject("the sorted numbers are not proven to be one known row")
        if known.dtype != np.float32 or not (known[:-1] <= known[1:]).all():
            return Reject("the numbers are not sorted float32")
        if facts_of(values).shape is None or facts_of(values).shape != facts_of(node).shape:
            return Reject("the number of rows of values is not proven to be one")
        # TensorFlow's kernels run with denormals flushed to zero.
        found = editor.add(Bucketize(Const(known), flush_denormals=True), values)
        wide = found if op.out_type == "int32" else editor.add(Cast(op.out_type), found)
        return Rewritten(wide, "the boundaries are one row of known sorted numbers")


def _known(node: Node) -> np.ndarray | None:
    """The flat elements of a constant, through changes of shape."""
    while isinstance(node.target, Reshape | ExpandDims | Squeeze):
        node = args_of(node)[0]
    return node.target.value.array.reshape(-1) if isinstance(node.target, Constant) else None
