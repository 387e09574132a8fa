"""`drop-sparse-reshapes`: a sparse reshape to the shape it has."""

from __future__ import annotations

from colonnade.ir.graph import Node, args_of, facts_of
from colonnade.ops.graph.sparse_reshape import SparseReshape
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten


class DropSparseReshapes(Rewrite):
    """`sparse_reshape(indices, shape, shape)` is `(indices, shape)`.

    Legal: the content of the old and of the new shape is known and proven equal, dim by dim.
    """

    roots = (SparseReshape,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """Compare the contents."""
        indices, shape, _ = args_of(node)
        old, result = facts_of(shape).values, node.meta["facts"][1].values
        if old is None or result is None:
            return Reject(f"the content of the {'old' if old is None else 'new'} shape is not known")
        if old != result:
            return Reject(f"the shape changes from {list(map(str, old))} to {list(map(str, result))}")
        return Rewritten((indices, shape), f"the shape is proven unchanged: {list(map(str, old))}")
