"""`fold-shapes`: shape computations become constants, or one `shape_construct`."""

from __future__ import annotations

import numpy as np
import sympy

from colonnade.core import dims, facts
from colonnade.core.facts import Facts
from colonnade.ir.graph import Node
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.ops.graph.shape_construct import ShapeConstruct
from colonnade.passes.base import Editor, Pass

KEPT = (Constant, ShapeConstruct, Placeholder)


class FoldShapes(Pass):
    """Small integer tensors whose content is known become constants or expressions of input dims.

    Legal: content is proven by inference; an op kept alive only by interest in its shape dies.
    """

    def run(self, editor: Editor) -> int:
        """Fold what is read by something that cannot be folded itself."""
        sources = _sources(editor)
        outputs = set(editor.graph.outputs.values())
        changed = 0
        seen: set[Node] = set()
        for node in list(editor.graph.nodes()):
            seen.add(node)
            known = node.meta["facts"]
            if not isinstance(known, Facts) or not _foldable(node, known):
                continue
            if node not in outputs and all(_folds_too(user) for user in node.users):
                continue
            new = _folded(editor.at(node), known, sources, seen)
            if new is None:
                continue
            editor.record(node, True, f"content is proven: {list(map(str, known.values or ()))[:8]}")
            editor.graph.replace(node, new)
            changed += 1
        return changed


def _foldable(node: Node, known: Facts) -> bool:
    return known.dtype in facts.INTEGER and known.values is not None and not isinstance(node.target, KEPT)


def _folds_too(user: Node) -> bool:
    known = user.meta.get("facts")
    return isinstance(known, Facts) and _foldable(user, known)


Sources = dict[sympy.Symbol, tuple[Node, int]]


def _sources(editor: Editor) -> Sources:
    """For each dim symbol the first tensor that has it as a bare dim."""
    found: Sources = {}
    for node in editor.graph.nodes():
        known = node.meta["facts"]
        if isinstance(known, Facts) and known.shape is not None:
            for axis, d in enumerate(known.shape):
                if isinstance(d, sympy.Symbol):
                    found.setdefault(d, (node, axis))
    return found


def _folded(editor: Editor, known: Facts, sources: Sources, seen: set[Node]) -> Node | None:
    """The content anew.   seen: the nodes that come before it: the size of a ragged input may show only behind it."""
    assert known.values is not None
    ints = known.ints
    if ints is not None and known.shape is not None and all(isinstance(d, int) for d in known.shape):
        return editor.constant(np.array(ints, dtype=known.dtype).reshape(known.shape))
    if known.rank not in (0, 1):
        return None
    symbols = sorted({s for v in known.values for s in dims.symbols_of(v)}, key=str)
    if not all(s in sources and sources[s][0] in seen for s in symbols):
        return None
    operands: list[Node] = []
    places: list[tuple[str, int, int]] = []
    for s in symbols:
        node, axis = sources[s]
        if node not in operands:
            operands.append(node)
        places.append((str(s), operands.index(node), axis))
    exprs = tuple(dims.text(v) for v in known.values)
    return editor.add(ShapeConstruct(exprs, tuple(places), known.dtype, known.rank == 0), *operands)
