"""`hash_decimal_bucket`: the bucket of an integer's decimal text."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import facts
from colonnade.core.expr import Apply, Expr
from colonnade.ops.hash_decimal import HashDecimal
from colonnade.ops.mod import Mod
from colonnade.ops.op import GraphOp, Inferred, Value, structural


@dataclass(frozen=True)
class HashDecimalBucket(GraphOp):
    """`hash(decimal text of x) mod num_buckets`: `string_to_hash_bucket(as_string(x))` in one op."""

    num_buckets: int
    function: str = structural(default="farm")

    def infer(self, *args: facts.Facts) -> Inferred:
        """int64 in 0 .. num_buckets - 1, shaped as x."""
        (x,) = args
        return Inferred((facts.facts("int64", x.shape, lo=0, hi=self.num_buckets - 1),))

    def reference(self, *args: Value) -> Value:
        """By the column ops."""
        return Mod(self.num_buckets).reference(HashDecimal(self.function).reference(*args))

    def elementwise(self, *args: Expr) -> Expr | None:
        """The same, as column ops."""
        return Apply(Mod(self.num_buckets), Apply(HashDecimal(self.function), *args))
