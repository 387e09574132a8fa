"""`string_to_keyed_bucket`: strings as bucket numbers, by a hash with a key."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import facts
from colonnade.core.expr import Apply, Expr
from colonnade.core.facts import Facts
from colonnade.errors import ShapeError
from colonnade.ops.graph._facts import one, want_dtype
from colonnade.ops.mod import Mod
from colonnade.ops.op import GraphOp, Inferred, Value
from colonnade.ops.sip_bytes import SipBytes


@dataclass(frozen=True)
class StringToKeyedBucket(GraphOp):
    """`out = SipHash-2-4(x) mod num_buckets`, int64, the hash taken as unsigned."""

    num_buckets: int
    key0: int
    key1: int

    def infer(self, *args: Facts) -> Inferred:
        """The shape is kept; 0 .. num_buckets - 1."""
        (x,) = args
        want_dtype("string_to_keyed_bucket", x, ("string",))
        if self.num_buckets < 1:
            raise ShapeError("string_to_keyed_bucket: no buckets", got=str(self.num_buckets), want="at least 1")
        return one(facts.facts("int64", x.shape, lo=0, hi=self.num_buckets - 1))

    def reference(self, *args: Value) -> Value:
        """By the column ops."""
        return Mod(self.num_buckets).reference(SipBytes(self.key0, self.key1).reference(*args))

    def elementwise(self, *args: Expr) -> Expr:
        """The column ops `sip_bytes` and `mod`."""
        return Apply(Mod(self.num_buckets), Apply(SipBytes(self.key0, self.key1), *args))
