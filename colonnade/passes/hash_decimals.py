"""`hash-decimals`: the hash of a number's text needs no text."""

from __future__ import annotations

from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ops.graph.as_string import AsString
from colonnade.ops.graph.hash_decimal_bucket import HashDecimalBucket
from colonnade.ops.graph.keyed_decimal_bucket import KeyedDecimalBucket
from colonnade.ops.graph.string_to_hash_bucket import StringToHashBucket
from colonnade.ops.graph.string_to_keyed_bucket import StringToKeyedBucket
from colonnade.ops.op import GraphOp
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten


class HashDecimals(Rewrite):
    """`string_to_hash_bucket(as_string(x))` is `hash_decimal_bucket(x)`, and so with a key.

    Legal: x is int32 or int64, whose text is plain decimal.
    """

    roots = (StringToHashBucket, StringToKeyedBucket)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """Match the text's maker."""
        (text,) = args_of(node)
        if not isinstance(text.target, AsString):
            return None
        (x,) = args_of(text)
        if facts_of(x).dtype not in ("int32", "int64"):
            return Reject(f"the text of {facts_of(x).dtype} is not plain decimal")
        op = op_of(node)
        made: GraphOp
        if isinstance(op, StringToKeyedBucket):
            made = KeyedDecimalBucket(op.num_buckets, op.key0, op.key1)
        else:
            assert isinstance(op, StringToHashBucket)
            made = HashDecimalBucket(op.num_buckets, op.function)
        return Rewritten(editor.add(made, x), "the text is the number's decimal digits")
