"""`cross`: one hash for each choice of one element of every operand."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade.core.murmur import murmur_words
from colonnade.core.ragged import Ragged, offsets_of
from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, RaggedOp, RowFacts

MOST = 8


@dataclass(frozen=True)
class Cross(RaggedOp):
    """`out = murmur64 of the 8-byte words of a, b, ...`, for all choices in a row, the last operand's running fastest.

    Facts: weights are multiplied, an operand without counts as 1; equal elements of a row are crossed each by itself.
    """

    arity: ClassVar[int] = 2
    most: ClassVar[int] = MOST

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """int64, any value."""
        if any(x.dtype != "int64" for x in args) or not 2 <= len(args) <= MOST:
            raise ShapeError(f"cross takes 2 to {MOST} int64", got=", ".join(x.dtype for x in args), want="int64")
        return ElementFacts("int64")

    def rows(self, *args: RowFacts) -> RowFacts:
        """The product of all widths."""
        if any(x.levels != 1 for x in args):
            raise ShapeError("cross takes rows of elements", got="rows of lists")
        width = 1
        for x in args:
            if x.width is None:
                return RowFacts()
            width *= x.width
        return RowFacts(1, width)

    def apply(self, *args: Ragged) -> Ragged:
        """Row by row."""
        chosen: list[list[int]] = [[] for _ in args]
        counts = []
        for row in range(args[0].rows):
            spans = [range(int(x.offsets[0][row]), int(x.offsets[0][row + 1])) for x in args]
            choices = list(itertools.product(*spans))
            counts.append(len(choices))
            for k in range(len(args)):
                chosen[k] += [choice[k] for choice in choices]
        at = [torch.tensor(places, dtype=torch.int64) for places in chosen]
        words = [x.values[places].numpy().view(np.uint64) for x, places in zip(args, at, strict=True)]
        weights = None
        for x, places in zip(args, at, strict=True):
            if x.weights is not None:
                weights = x.weights[places] if weights is None else weights * x.weights[places]
        offsets = offsets_of(torch.tensor(counts, dtype=torch.int64))
        return Ragged(torch.from_numpy(murmur_words(words).view(np.int64)), (offsets,), weights)
