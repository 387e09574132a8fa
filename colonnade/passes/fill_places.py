"""`fill-places`: sparse values that have every place of a dense tensor are that tensor."""

from __future__ import annotations

import numpy as np
import sympy

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts, Term
from colonnade.ir.graph import Graph, Node, args_of, facts_of, item_of
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.sparse_cross import SparseCross
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten


class FillPlaces(Rewrite):
    """`sparse_to_dense(indices, shape, values)` with an index for each place, in order, is `reshape(values)`.

    Legal: the indices are proven to be `(i // width, i % width)` for rows * width values, and the shape is `(rows,
    width)`. A cross gives the width 0 to a batch without rows: then nothing but empty tensors, and their rows, may be
    made of it.
    """

    roots = (SparseToDense,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """Compare the index columns with row-major places."""
        indices, shape, values, _ = args_of(node)
        sizes = facts_of(shape).values
        if facts_of(values).rank != 1 or sizes is None or len(sizes) != 2:
            return None
        width = _width(facts_of(indices), sizes[0])
        if width is None:
            return Reject("the places of values are not proven to be all places in order")
        if sizes[1] != width:
            op = item_of(shape)[0].target
            if not isinstance(op, SparseCross) or item_of(shape)[0] is not item_of(indices)[0]:
                return Reject(f"the values are not proven to fill rows of {sizes[1]} places")
            leak = _leak(node, sizes[1], editor.graph)
            if leak is not None:
                return Reject(leak)
        target = editor.constant(np.array([-1, width], dtype=np.int32))
        return Rewritten(editor.add(Reshape(), values, target), f"each row has a value for each of its {width} places")


def _width(indices: Facts, rows: Dim) -> int | None:
    """The number of places of each row, where the index matrix enumerates all of them."""
    packed = indices.packed
    if packed is None or packed.axis != 1 or len(packed.parts) != 2 or not packed.parts[0].shape:
        return None
    count = packed.parts[0].shape[0]
    width = dims.div_exact(count, rows)
    if not isinstance(width, int) or width < 1:
        return None
    for part, term in zip(packed.parts, (Term(1, width, None), Term(1, 1, width)), strict=True):
        if facts.as_indexed(part) != facts.indexed((term,), 0, count):
            return None
    return width


def _leak(node: Node, width: Dim, graph: Graph) -> str | None:
    """Why the width of a batch without rows may be seen. Follows what reads it, up to facts that do not have it."""
    symbols, outputs = dims.symbols_of(width), set(graph.outputs.values())
    rows = (facts_of(node).shape or (0,))[0]
    seen, stack = {node}, [node]
    while stack:
        at = stack.pop()
        if at in outputs:
            return "an output has the width of a cross, which is 0 where there are no rows"
        in_content = _has(facts_of(at).values, symbols)
        for user in (u for u in at.users if u.op != "output" and u not in seen):
            known = facts_of(user) if "facts" in user.meta else None
            if known is None or known.shape is None:
                return "what is made of a cross is not known well enough to be empty where there are no rows"
            if _has(known.shape, symbols) or _has(known.values, symbols):
                seen.add(user)
                stack.append(user)
            elif in_content and known.values is None and rows not in known.shape:
                return "a number may be made of the width of a cross, which is 0 where there are no rows"
    return None


def _has(values: tuple[Dim, ...] | None, symbols: frozenset[sympy.Symbol]) -> bool:
    return any(dims.symbols_of(d) & symbols for d in values or ())
