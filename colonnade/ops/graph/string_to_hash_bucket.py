"""`string_to_hash_bucket`: strings as bucket numbers."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import facts
from colonnade.core.expr import Apply, Expr
from colonnade.core.facts import Facts
from colonnade.errors import ShapeError
from colonnade.ops.graph._facts import one, want_dtype
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.mod import Mod
from colonnade.ops.op import GraphOp, Inferred, Value, structural


@dataclass(frozen=True)
class StringToHashBucket(GraphOp):
    """`out = hash(x) mod num_buckets`, int64, the hash taken as unsigned."""

    num_buckets: int
    function: str = structural(default="farm")

    def infer(self, *args: Facts) -> Inferred:
        """The shape is kept; 0 .. num_buckets - 1."""
        (x,) = args
        want_dtype("string_to_hash_bucket", x, ("string",))
        if self.num_buckets < 1:
            raise ShapeError("string_to_hash_bucket: no buckets", got=str(self.num_buckets), want="at least 1")
        return one(facts.facts("int64", x.shape, lo=0, hi=self.num_buckets - 1))

    def reference(self, *args: Value) -> Value:
        """By the column ops."""
        return Mod(self.num_buckets).reference(HashBytes(self.function).reference(*args))

    def elementwise(self, *args: Expr) -> Expr:
        """The column ops `hash_bytes` and `mod`."""
        return Apply(Mod(self.num_buckets), Apply(HashBytes(self.function), *args))
