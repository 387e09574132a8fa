"""Which elements a flat tensor holds, in which order, and how they fall into batch rows: its *domain*.

Two tensors with equal domains line up element by element; a vector that is the row number of each element of a domain
is what an embedding bag pools by.
"""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.core.examples import Feature
from colonnade.core.expr import Expr
from colonnade.core.facts import Shape
from colonnade.ir.graph import Node


@dataclass(frozen=True)
class Dense:
    """Every element of a `[rows, width]` tensor, row-major."""

    rows: Dim
    width: int

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return dims.mul(self.rows, self.width)


@dataclass(frozen=True)
class Open:
    """Every element of a tensor of known rank whose rows have no fixed width, row-major."""

    shape: Shape

    @property
    def rows(self) -> Dim:
        """The first dim."""
        return self.shape[0]

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return dims.prod(self.shape)


@dataclass(frozen=True)
class Kept:
    """The elements of `parent` for which every mask is true, in order."""

    parent: Domain
    masks: tuple[Expr, ...]


@dataclass(frozen=True)
class Tokens:
    """The tokens of each element of `parent`, in order. `split` tells one splitting from another."""

    parent: Domain
    split: Node


@dataclass(frozen=True)
class Lists:
    """The values of rows of differing lengths, row by row. `source` tells one op that makes them from another.

    feature: which one, where the op makes several (features of Examples).
    """

    rows: Dim
    source: Node
    feature: Feature | None = None


@dataclass(frozen=True)
class Chosen:
    """Each choice of one element of each of several fields, row by row, the last field's fastest.

    splits: the separators of fields whose tokens are chosen among, b"" for others; () where there is none.
    """

    rows: Dim
    among: tuple[str, ...]
    splits: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Padded:
    """The elements of `parent` in a dense tensor, one value in the places behind each row. `source` makes it."""

    parent: Domain
    source: Node


Domain = Dense | Open | Kept | Tokens | Lists | Chosen | Padded


@dataclass(frozen=True)
class Elements:
    """A tensor that holds `expr` for each element of `domain`."""

    expr: Expr
    domain: Domain


@dataclass(frozen=True)
class Aligned:
    """A feature of Examples whose rows every request must have as long as another's: checked where they are decoded.

    lengths: numbers of values of both.
    """

    parse: Node
    leader: Feature
    follower: Feature
    lengths: frozenset[Dim]
