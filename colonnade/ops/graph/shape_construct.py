"""`shape_construct`: integers made of the dims of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import sympy

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one
from colonnade.ops.graph._values import array, tensor
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class ShapeConstruct(GraphOp):
    """`out = exprs`: printed dims, in which symbol `name` is dim `k` of operand `n` for each (name, n, k) of symbols.

    dtype: int32 or int64.   scalar: a scalar of the only expression, not a vector.
    """

    exprs: tuple[str, ...]
    symbols: tuple[tuple[str, int, int], ...]
    dtype: str = "int64"
    scalar: bool = False

    def infer(self, *args: Facts) -> Inferred:
        """The content is the expressions, in the operands' dims."""
        if self.scalar and len(self.exprs) != 1:
            raise ShapeError("shape_construct: a scalar of more than one expression", got=str(self.exprs), want="one")
        shape = () if self.scalar else (len(self.exprs),)
        known: dict[sympy.Symbol, Dim] = {}
        for name, operand, k in self.symbols:
            source = args[operand].shape
            if source is None:
                return one(facts.facts(self.dtype, shape))
            known[dims.symbol(name)] = source[k]
        content = tuple(dims.substitute(dims.parse(e), known) for e in self.exprs)
        return one(facts.facts(self.dtype, shape, content=content if len(content) <= facts.MAX_CONTENT else None))

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.full of each dim."""
        content = self.infer(*(a.facts for a in args)).outputs[0].values
        if content is None:
            return None
        shape = () if self.scalar else (1,)
        parts = tuple(Lowered("aten.full.default", (shape, d), (("dtype", self.dtype),)) for d in content)
        return parts[0] if self.scalar else Lowered("aten.cat.default", (parts, 0))

    def reference(self, *args: Value) -> Value:
        """The expressions at the operands' sizes."""
        known = {dims.symbol(name): array(args[operand]).shape[k] for name, operand, k in self.symbols}
        made = np.array([_evaluate(e, known) for e in self.exprs], dtype=self.dtype)
        return tensor(made.reshape(()) if self.scalar else made)


def _evaluate(expr: str, known: Mapping[sympy.Symbol, int]) -> int:
    try:
        return dims.evaluate(dims.parse(expr), known)
    except (ValueError, ZeroDivisionError) as e:
        raise GraphError("shape_construct: an expression that has no value", got=expr, want=str(known)) from e
