"""`float-ids`: ids that pass through float32, which has no odd number above 2^24."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from colonnade.core.expr import Apply, Expr, walk
from colonnade.ir.element_facts import element_facts
from colonnade.ir.explanation import Notice
from colonnade.ir.program import Program
from colonnade.ir.text import print_expr
from colonnade.ops.bucketize import Bucketize
from colonnade.ops.cast import BOUNDS, Cast
from colonnade.ops.replace_outside import ReplaceOutside
from colonnade.ops.vocabulary import Vocabulary
from colonnade.passes.warnings.base import Warn, dtypes_of, where

EXACT = 2**24
"""float32 holds every integer up to this one."""


class FloatIds(Warn):
    """Integers that are not proven to lie within 2^24 are cast to float32 and used as more than a number to bucketize;
    or ids of a table of more rows, or words of a vocabulary beyond, are made of float32.
    """

    def look(self, program: Program) -> Iterator[Notice]:
        """Once a column."""
        dtypes = dtypes_of(program)
        rows = {t.name: t.rows for t in program.tables}
        for column in program.columns:
            if column.table is None:
                continue
            rounded = _cast_away(column.ids, dtypes) or _made_of_floats(column.ids, rows[column.table] - 1, dtypes)
            if rounded:
                yield Notice(
                    self.name,
                    "ids above 2^24 pass through float32, which rounds them",
                    where=where([column]),
                    got=rounded,
                    help="keep ids integers from the request to the table, or feed float64",
                )


def _cast_away(ids: Expr, dtypes: Mapping[str, str]) -> str:
    """The first cast of integers to float32 that may round one, and is not bucketized."""
    for user in walk(ids):
        if not isinstance(user, Apply) or isinstance(user.op, Bucketize):
            continue
        for x in user.args:
            if not isinstance(x, Apply) or not isinstance(x.op, Cast) or x.op.to != "float32":
                continue
            known = element_facts(x.args[0], dtypes)
            least, most = BOUNDS.get(known.dtype, (0, 0))
            lo, hi = known.lo if known.lo is not None else least, known.hi if known.hi is not None else most
            if lo < -EXACT or hi > EXACT:
                return f"{print_expr(user)}, of integers {lo} .. {hi}"
    return ""


def _made_of_floats(expr: Expr, most: int, dtypes: Mapping[str, str]) -> str:
    """The cast of float32 to what must be integers up to `most`, if that is more than float32 has."""
    if not isinstance(expr, Apply):
        return ""
    op = expr.op
    if isinstance(op, Cast) and op.to in BOUNDS and element_facts(expr.args[0], dtypes).dtype == "float32":
        return f"{print_expr(expr)}, for ids up to {most}" if most > EXACT else ""
    if isinstance(op, Vocabulary) and op.keys.array.dtype != object and op.keys.array.size:
        most = max(abs(int(np.max(op.keys.array))), abs(int(np.min(op.keys.array))))
    elif isinstance(op, ReplaceOutside):
        most = min(most, max(abs(op.lo), abs(op.hi)))
    elif not isinstance(op, Cast):
        return ""
    return _made_of_floats(expr.args[0], most, dtypes)
