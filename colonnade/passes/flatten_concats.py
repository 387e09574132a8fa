"""`flatten-concats`: a concat inside a concat along the same axis."""

from __future__ import annotations

from colonnade.ir.graph import Node, args_of, facts_of
from colonnade.ops.graph.concat import Concat
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten


class FlattenConcats(Rewrite):
    """`concat(a, concat(b, c))` is `concat(a, b, c)`, so that columns can write into the outer result.

    Legal: both along the same, known axis; the inner one has no other reader (it would be made twice).
    """

    roots = (Concat,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """Splice every inner concat once; deeper ones are spliced before, in topological order."""
        *operands, axis = args_of(node)
        if not any(isinstance(x.target, Concat) for x in operands):
            return None
        spliced: list[Node] = []
        refused = ""
        for x in operands:
            if not isinstance(x.target, Concat):
                spliced.append(x)
                continue
            reason = _refusal(x, node, axis)
            refused = refused or reason
            spliced.extend([x] if reason else args_of(x)[:-1])
        if len(spliced) == len(operands):
            return Reject(refused)
        proof = "the inner concat is along the same axis and read only here"
        return Rewritten(editor.add(Concat(), *spliced, axis), proof)


def _refusal(inner: Node, outer: Node, axis: Node) -> str:
    rank = facts_of(outer).rank
    a, b = facts_of(args_of(inner)[-1]).integer, facts_of(axis).integer
    if rank is None or a is None or b is None or a % rank != b % rank:
        return "the inner concat is not proven to be along the same axis"
    return "" if len(inner.users) == 1 else "the inner concat has other readers"
