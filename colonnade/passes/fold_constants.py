"""`fold-constants`: arithmetic on constant floats is done once."""

from __future__ import annotations

import numpy as np

from colonnade.core import facts
from colonnade.ir.graph import args_of, facts_of, op_of
from colonnade.ops.graph._elementwise import Binary, Unary
from colonnade.ops.graph.constant import Constant
from colonnade.ops.op import GraphOp
from colonnade.passes.base import Editor, Pass

MOST = 1 << 16
"""Elements of a constant that may be made."""


class FoldConstants(Pass):
    """Elementwise arithmetic on constant floats is a constant.

    Legal: every operand is a constant of the graph, not a variable, which may be given new weights.
    """

    def run(self, editor: Editor) -> int:
        """Every such node, operands first."""
        changed = 0
        for node in list(editor.graph.nodes()):
            op = op_of(node)
            if not isinstance(op, Unary | Binary):
                continue
            known, operands = facts_of(node), [op_of(arg) for arg in args_of(node)]
            if known.dtype not in facts.FLOATING or not isinstance(known.size, int) or known.size > MOST:
                continue
            if not all(isinstance(operand, Constant) for operand in operands):
                continue
            assert isinstance(op, GraphOp)
            value = op.reference(*(operand.reference() for operand in operands if operand is not None))
            editor.record(node, True, "every operand is a constant")
            editor.graph.replace(node, editor.at(node).constant(np.asarray(value)))
            changed += 1
        return changed
