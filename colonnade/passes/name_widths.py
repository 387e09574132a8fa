"""`name-widths`: the most values of a row of Examples, where something depends on it, is a size with a name."""

from __future__ import annotations

from dataclasses import replace

from colonnade.ir.graph import Graph, Node, args_of, item_of, op_of
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.ops.graph.sparse_reshape import SparseReshape
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.passes.base import Editor, Pass


class NameWidths(Pass):
    """Features whose elements keep their places have a named width, which requests tell once they are decoded.

    Legal: always: a name for a size that only the data decide.
    """

    def run(self, editor: Editor) -> int:
        """Every op that parses Examples anew, with the names it lacks."""
        changed = 0
        for node in [n for n in editor.graph.nodes() if isinstance(n.target, ParseExample)]:
            old = op_of(node)
            assert isinstance(old, ParseExample)
            named = dict(old.widths)
            keys = [key for key in _placed(node, old) if key not in named]
            if not keys:
                continue
            taken = _taken(editor.graph)
            free = (name for k in range(len(taken) + len(keys)) if (name := f"p{k}") not in taken)
            op = replace(old, widths=(*old.widths, *zip(keys, free, strict=False)))
            editor.record(node, True, f"the widths of {', '.join(keys)} have names")
            new = editor.at(node).add(op, *args_of(node))
            for user in [node] if op.num_outputs == 1 else list(node.users):
                editor.graph.replace(user, editor.item(new, item_of(user)[1]))
            changed += 1
        return changed


def _placed(node: Node, op: ParseExample) -> dict[str, None]:
    """The keys of features of any number of blocks, and of those whose elements are cut or spread by their places."""
    found = dict.fromkeys(f.key for f in op.of("steps"))
    for item in node.users:
        base, output = item_of(item)
        if base is not node:
            continue
        feature, what = op.place(output)
        if what == "indices" and any(isinstance(user.target, SparseReshape | SparseToDense) for user in item.users):
            found[feature.key] = None
    return found


def _taken(graph: Graph) -> set[str]:
    return {name for n in graph.nodes() if isinstance(n.target, ParseExample) for _, name in n.target.widths}
