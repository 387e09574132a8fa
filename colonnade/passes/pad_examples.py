"""`pad-examples`: a sparse feature of Examples that is made dense at once is decoded as dense."""

from __future__ import annotations

from colonnade.core.consts import Const
from colonnade.core.examples import Feature
from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.passes.base import Editor, Pass, Reject


class PadExamples(Pass):
    """`sparse_to_dense` of a sparse feature is a padded feature: its values, then the default up to the width.

    Legal: indices and values are of one feature; the shape is proven to be (number of Examples, w); the default is a
    constant. An Example with more than w values stays an error, as the index out of range was one.
    """

    def run(self, editor: Editor) -> int:
        """One new op for each op that parses Examples, with its features and the padded ones."""
        found: dict[Node, list[tuple[Node, Feature]]] = {}
        for node in list(editor.graph.nodes()):
            if not isinstance(node.target, SparseToDense):
                continue
            match = _padded(node)
            if match is None:
                continue
            if isinstance(match, Reject):
                editor.record(node, False, match.reason)
                continue
            editor.record(node, True, "indices and values are of one feature, one row an Example")
            found.setdefault(match[0], []).append((node, match[1]))
        for parse, matches in found.items():
            _replace(editor.at(parse), parse, matches)
        return sum(map(len, found.values()))


def _padded(node: Node) -> tuple[Node, Feature] | Reject | None:
    indices, shape, values, default = args_of(node)
    (parse, first), (other, second) = item_of(indices), item_of(values)
    op, fill = op_of(parse), op_of(default)
    if not isinstance(op, ParseExample) or parse is not other:
        return None
    feature, what = op.place(first)
    if what != "indices" or op.place(second) != (feature, "values"):
        return Reject("indices and values are not of one feature")
    wanted, rows = facts_of(shape).values, facts_of(args_of(parse)[0]).shape
    if wanted is None or rows is None or len(wanted) != 2 or wanted[0] != rows[0] or not isinstance(wanted[1], int):
        return Reject("the shape is not proven to be (number of Examples, a known width)")
    if not isinstance(fill, Constant):
        return Reject("the default is computed")
    return parse, Feature(feature.key, feature.dtype, "padded", (max(wanted[1], 0),), Const(fill.value.array))


def _replace(editor: Editor, parse: Node, matches: list[tuple[Node, Feature]]) -> None:
    old = op_of(parse)
    assert isinstance(old, ParseExample)
    features = dict.fromkeys((*old.features, *(feature for _, feature in matches)))
    op = ParseExample(tuple(features), old.widths)
    new = editor.add(op, *args_of(parse))
    places = {op.place(k): k for k in range(op.num_outputs)}
    for user in [parse] if old.num_outputs == 1 else list(parse.users):
        editor.graph.replace(user, editor.item(new, places[old.place(item_of(user)[1])]))
    for node, feature in matches:
        editor.graph.replace(node, editor.item(new, places[feature, "values"]))
