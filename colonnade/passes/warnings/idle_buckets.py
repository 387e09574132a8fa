"""`idle-buckets`: a hash of fewer values than it has buckets for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from colonnade.core.expr import Apply, Expr, walk
from colonnade.ir.element_facts import element_facts
from colonnade.ir.explanation import Notice
from colonnade.ir.program import Program
from colonnade.ir.text import print_expr
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.hash_decimal import HashDecimal
from colonnade.ops.join_hash import JoinHash
from colonnade.ops.mod import Mod
from colonnade.ops.op import MapOp, PositionOp
from colonnade.ops.seed_hash import SeedHash
from colonnade.ops.sip_bytes import SipBytes
from colonnade.ops.sip_decimal import SipDecimal
from colonnade.passes.warnings.base import Warn, dtypes_of, where

HASHES = (HashBytes, HashDecimal, JoinHash, SeedHash, SipBytes, SipDecimal)


class IdleBuckets(Warn):
    """What is hashed is proven to have fewer values than the hash has buckets: some rows are never read, and values
    still collide.
    """

    def look(self, program: Program) -> Iterator[Notice]:
        """Once a hash of a column."""
        dtypes = dtypes_of(program)
        for column in program.columns:
            for expr in walk(column.ids):
                if not isinstance(expr, Apply) or not isinstance(expr.op, Mod) or not isinstance(expr.args[0], Apply):
                    continue
                if not isinstance(expr.args[0].op, HASHES):
                    continue
                count, buckets = distinct(expr.args[0], dtypes), expr.op.divisor
                if count < buckets:
                    yield Notice(
                        self.name,
                        f"{buckets:,} buckets for a hash of at most {int(count):,} values",
                        where=where([column]),
                        got=print_expr(expr),
                        help=f"the values themselves, as ids, need {int(count):,} rows and never collide",
                    )


def distinct(expr: Expr, dtypes: Mapping[str, str]) -> float:
    """A bound on how many different values an expression has: of its proven range, or of its operands' values."""
    known = element_facts(expr, dtypes)
    by_range = math.inf if known.lo is None or known.hi is None else known.hi - known.lo + 1
    if not isinstance(expr, Apply) or not isinstance(expr.op, MapOp) or isinstance(expr.op, PositionOp):
        return by_range
    return min(by_range, math.prod(distinct(x, dtypes) for x in expr.args))
