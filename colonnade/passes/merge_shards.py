"""`merge-shards`: ids dealt out to the parts of a table, looked up there and put together, are one lookup."""

from __future__ import annotations

from colonnade.core import facts
from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.dynamic_partition import DynamicPartition
from colonnade.ops.graph.dynamic_stitch import DynamicStitch
from colonnade.ops.graph.floor_div import FloorDiv
from colonnade.ops.graph.floor_mod import FloorMod
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.join_shards import JoinShards, Strategy, sizes
from colonnade.ops.graph.maximum import Maximum
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.sub import Sub
from colonnade.ops.graph.variable import Variable
from colonnade.ops.op import GraphOp
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten


class MergeShards(Rewrite):
    """A `dynamic_stitch` of lookups in the parts of a table is a lookup in the whole table.

    Legal: part and row are computed from one vector of ids as `div` or `mod` deal them out, with the constants of
    parts of these very sizes; places count that vector. So id i of 0 .. R - 1 is row i of the joined parts, and any
    other is an error, of the dealing or of the lookup. (Part numbers are int32: TensorFlow's own wrap around for ids
    beyond 2^32 times a part, which are errors here.)
    """

    roots = (DynamicStitch,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """From the stitch back to the ids."""
        args = args_of(node)
        places, rows = args[: len(args) // 2], args[len(args) // 2 :]
        if not all(isinstance(x.target, Gather) for x in rows):
            return None
        order, dealt = _dealing(places), _dealing([args_of(x)[1] for x in rows])
        if order is None or dealt is None:
            return Reject("places and ids are not those of all parts, in order")
        (counted, part), (within, same) = args_of(order), args_of(dealt)
        if part is not same:
            return Reject("places and ids are not dealt out alike")
        shape = facts_of(part).shape
        if shape is None or len(shape) != 1 or facts_of(counted).shape != shape or not facts.is_iota(facts_of(counted)):
            return Reject("the places are not proven to be 0, 1, ... of all ids")
        parts = [args_of(x)[0] for x in rows]
        heights = _heights(parts, rows)
        if isinstance(heights, Reject):
            return heights
        found = _div(part, within, heights) or _mod(part, within, heights)
        if found is None:
            return Reject(f"part and row are not proven to be those of one table of {sum(heights)} rows")
        strategy, ids = found
        whole = editor.add(JoinShards(strategy), *parts)
        zero = args_of(rows[0])[2]
        proof = f"ids are dealt out to {len(parts)} parts by `{strategy}`, which have the rows of one table"
        return Rewritten(editor.add(Gather(), whole, ids, zero), proof)


def _dealing(items: list[Node] | tuple[Node, ...]) -> Node | None:
    """The op that dealt these out: all of its parts, in order."""
    found = [item_of(x) for x in items]
    base, _ = found[0]
    op = op_of(base)
    if not isinstance(op, DynamicPartition) or op.num != len(items) or op.num < 2:
        return None
    return base if found == [(base, k) for k in range(op.num)] else None


def _heights(parts: list[Node], lookups: tuple[Node, ...]) -> list[int] | Reject:
    """The number of rows of each part."""
    found = []
    widths = set()
    for part, lookup in zip(parts, lookups, strict=True):
        op, shape = op_of(lookup), facts_of(part).shape
        assert isinstance(op, Gather)
        if op.batch_dims or facts_of(args_of(lookup)[2]).integer != 0:
            return Reject("rows of parts are gathered along another axis than 0")
        if not isinstance(part.target, Variable) or facts_of(part).dtype != "float32":
            return Reject("a part is no float32 variable")
        if shape is None or len(shape) != 2 or not isinstance(shape[0], int):
            return Reject("a part is no matrix of known size")
        found.append(shape[0])
        widths.add(shape[1])
    return found if len(widths) == 1 else Reject("parts differ in the length of their rows")


def _mod(part: Node, within: Node, heights: list[int]) -> tuple[Strategy, Node] | None:
    """`ids % n` and `ids // n`."""
    count, total = len(heights), sum(heights)
    ids = _by(FloorMod, _number(part), count)
    fits = tuple(heights) == sizes(total, count)
    return ("mod", ids) if ids is not None and fits and _by(FloorDiv, within, count) is ids else None


def _div(part: Node, within: Node, heights: list[int]) -> tuple[Strategy, Node] | None:
    """`max(ids // (k + 1), (ids - e) // k)`; `ids % (k + 1)` in the first e parts, else `(ids - e) % k`."""
    count, total = len(heights), sum(heights)
    least, extra = divmod(total, count)
    number = _number(part)
    if least < 1 or tuple(heights) != sizes(total, count) or not isinstance(number.target, Maximum):
        return None
    for one, other in (args_of(number), args_of(number)[::-1]):
        ids, rest = _by(FloorDiv, one, least + 1), _by(FloorDiv, other, least)
        if ids is not None and rest is not None and ids is _before(rest, extra):
            break
    else:
        return None
    if not extra and _by(FloorMod, within, least) is not None:
        return ("div", ids) if _before(_by(FloorMod, within, least), extra) is ids else None
    if not isinstance(within.target, Select):
        return None
    first, longer, shorter = args_of(within)
    test = op_of(first)
    if not isinstance(test, Compare) or test.kind != "lt" or args_of(first)[0] is not number:
        return None
    if facts_of(args_of(first)[1]).integer != extra or facts_of(args_of(first)[1]).shape != ():
        return None
    rest = _by(FloorMod, shorter, least)
    same = _by(FloorMod, longer, least + 1) is ids and rest is not None and _before(rest, extra) is ids
    return ("div", ids) if same else None


def _before(rest: Node | None, extra: int) -> Node | None:
    """x where the node is `x - extra`; it is x itself where 0 is no longer subtracted."""
    found = None if rest is None else _by(Sub, rest, extra)
    return rest if found is None and not extra else found


def _number(part: Node) -> Node:
    """The number of the part before it was made int32."""
    return args_of(part)[0] if isinstance(part.target, Cast) and facts_of(part).dtype == "int32" else part


def _by(op: type[GraphOp], node: Node, value: int) -> Node | None:
    """x where the node is `op(x, value)`, elementwise."""
    if not isinstance(node.target, op):
        return None
    x, constant = args_of(node)
    return x if facts_of(constant).integer == value and facts_of(constant).shape == () else None
