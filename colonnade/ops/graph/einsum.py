"""`einsum`: products of elements, summed over labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.core import facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts, Shape
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._elementwise import NUMBERS
from colonnade.ops.graph._facts import broadcast, one, want_dtype, want_same_dtype
from colonnade.ops.graph._values import numbers
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, structural

REST = "..."


@dataclass(frozen=True)
class Einsum(GraphOp):
    """`out[labels of the result] = sum over the other labels of the product of the operands' elements`.

    equation: `ab,bc->ac`; each label is a letter. `...` stands for leading dims that broadcast and come back in the
    result.
    Errors: ShapeError on an equation that repeats a label within one term, or whose result has a label of no operand.
    """

    equation: str = structural()

    def terms(self) -> tuple[list[str], str]:
        """The labels of each operand and of the result. Errors: ShapeError."""
        left, arrow, right = self.equation.partition("->")
        operands = left.split(",")
        for term in (*operands, right):
            letters = term.replace(REST, "", 1)
            plain = all(c.isascii() and c.isalpha() for c in letters)
            if not arrow or not plain or len(set(letters)) != len(letters):
                raise ShapeError("einsum: an equation that is not supported", got=self.equation)
        if set(right.replace(REST, "")) - set(left) or (REST in left) != (REST in right):
            raise ShapeError("einsum: the result has labels of no operand", got=self.equation)
        return operands, right

    def infer(self, *args: Facts) -> Inferred:
        """A label stands for one size; dims of `...` broadcast."""
        operands, result = self.terms()
        dtype = want_same_dtype("einsum", args)
        want_dtype("einsum", args[0], NUMBERS)
        self._check_count(len(args), ShapeError)
        if any(f.shape is None for f in args):
            return one(facts.facts(dtype, None))
        sizes: dict[str, Dim] = {}
        equal: list[tuple[Dim, Dim]] = []
        rests = [
            self._labelled(t, f.shape or (), sizes, equal, ShapeError) for t, f in zip(operands, args, strict=True)
        ]
        rest, same = broadcast("einsum", *(r for r in rests if r is not None))
        assert rest is not None
        shape: list[Dim] = []
        for part in _parts(result):
            shape.extend(rest if part == REST else (sizes[part],))
        return one(facts.facts(dtype, tuple(shape)), (*equal, *same))

    def _check_count(self, count: int, kind: type[GraphError] | type[ShapeError]) -> None:
        if count != len(self.terms()[0]):
            raise kind("einsum: not one term an operand", got=f"{count} operands, {self.equation}")

    def _labelled(
        self,
        term: str,
        shape: Shape,
        sizes: dict[str, Dim],
        equal: list[tuple[Dim, Dim]],
        kind: type[GraphError] | type[ShapeError],
    ) -> Shape | None:
        """Notes the size of each label; gives the dims of `...`."""
        parts = _parts(term)
        free = len(shape) - len(parts) + 1 if REST in parts else None
        if (free is None and len(parts) != len(shape)) or (free is not None and free < 0):
            raise kind("einsum: an operand has another number of dims", got=f"{shape} for {term!r}")
        rest: Shape | None = None
        at = 0
        for part in parts:
            if part == REST:
                rest = shape[at : at + (free or 0)]
                at += free or 0
                continue
            have, size = sizes.setdefault(part, shape[at]), shape[at]
            if isinstance(have, int) and isinstance(size, int) and have != size:
                raise kind("einsum: a label stands for two sizes", got=f"{part}: {have} and {size} in {self.equation}")
            if not isinstance(have, int):
                sizes[part] = size if isinstance(size, int) else have
            equal.append((have, size))
            at += 1
        return rest

    def reference(self, *args: Value) -> Value:
        """By torch."""
        operands = [numbers(v, "einsum") for v in args]
        self._check_count(len(args), GraphError)
        sizes: dict[str, Dim] = {}
        rests = [
            self._labelled(t, tuple(x.shape), sizes, [], GraphError)
            for t, x in zip(self.terms()[0], operands, strict=True)
        ]
        try:
            torch.broadcast_shapes(*(r for r in rests if r is not None))
        except RuntimeError as error:
            raise GraphError("einsum: leading dims that do not broadcast", got=str(rests)) from error
        return torch.einsum(self.equation, *operands)

    def lower(self, *args: Operand) -> Lowered:
        """aten.einsum."""
        return Lowered("aten.einsum.default", (self.equation, tuple(a.value for a in args)))


def _parts(term: str) -> list[str]:
    """`a...b` -> a, ..., b."""
    before, rest, after = term.partition(REST)
    return [*before, *([REST] if rest else []), *after]
