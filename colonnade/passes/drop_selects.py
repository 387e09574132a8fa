"""`drop-selects`: a select whose condition is proven."""

from __future__ import annotations

from colonnade.ir.graph import Node, args_of, facts_of
from colonnade.ops.graph.select import Select
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten
from colonnade.passes.splat import splat


class DropSelects(Rewrite):
    """`select(cond, a, b)` is `b` where cond is proven all false, `a` where it is proven all true.

    Legal: the kept operand has the result's shape (nothing is broadcast).
    """

    roots = (Select,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """Look at the condition's range, and at the constants that it is made of."""
        cond, a, b = args_of(node)
        known = facts_of(cond)
        value = splat(cond)
        if known.hi == 0 or (value is not None and not value):
            kept, proof = b, "the condition is proven all false"
        elif known.lo == 1 or value is not None:
            kept, proof = a, "the condition is proven all true"
        else:
            return None
        if facts_of(kept).shape is None or facts_of(kept).shape != facts_of(node).shape:
            return Reject(f"{proof}, but the kept operand is broadcast")
        return Rewritten(kept, proof)
