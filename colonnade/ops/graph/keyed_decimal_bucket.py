"""`keyed_decimal_bucket`: the bucket of an integer's decimal text, by a hash with a key."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import facts
from colonnade.core.expr import Apply, Expr
from colonnade.ops.mod import Mod
from colonnade.ops.op import GraphOp, Inferred, Value
from colonnade.ops.sip_decimal import SipDecimal


@dataclass(frozen=True)
class KeyedDecimalBucket(GraphOp):
    """`string_to_keyed_bucket(as_string(x))` in one op."""

    num_buckets: int
    key0: int
    key1: int

    def infer(self, *args: facts.Facts) -> Inferred:
        """int64 in 0 .. num_buckets - 1, shaped as x."""
        (x,) = args
        return Inferred((facts.facts("int64", x.shape, lo=0, hi=self.num_buckets - 1),))

    def reference(self, *args: Value) -> Value:
        """By the column ops."""
        return Mod(self.num_buckets).reference(SipDecimal(self.key0, self.key1).reference(*args))

    def elementwise(self, *args: Expr) -> Expr:
        """The column ops `sip_decimal` and `mod`."""
        return Apply(Mod(self.num_buckets), Apply(SipDecimal(self.key0, self.key1), *args))
