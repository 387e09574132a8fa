"""The declarative form of a model's inputs: fields, features made of them, and the tables that features look up.

    city = Feature("city").hash_bytes("farm").mod(1_000_000).embed("city", dim=16, pooling="mean")

A feature is a value: every method gives a new one. Its `expr` is interned, so that what features share is one object
and is computed once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import numpy as np

from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Expr, Field
from colonnade.core.given import is_number, is_whole
from colonnade.errors import FeatureError
from colonnade.ops.affine import Affine
from colonnade.ops.at_least import AtLeast
from colonnade.ops.at_most import AtMost
from colonnade.ops.bucketize import Bucketize
from colonnade.ops.cast import Cast
from colonnade.ops.clip import Clip
from colonnade.ops.combine import Combine
from colonnade.ops.cross import Cross
from colonnade.ops.fill_missing import FillMissing
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.hash_decimal import HashDecimal
from colonnade.ops.hash_int import HashInt
from colonnade.ops.keep import Keep
from colonnade.ops.log import Log
from colonnade.ops.mod import Mod
from colonnade.ops.multi_hash import MultiHash
from colonnade.ops.op import ColumnOp
from colonnade.ops.split import Split
from colonnade.ops.truncate import Truncate
from colonnade.ops.vocabulary import Vocabulary
from colonnade.ops.weigh import Weigh

POOLINGS = ("sum", "mean", "sqrtn", "max", "none", "tile")
"""`none`: the rows themselves, a sequence; `tile`: the rows of a fixed number of elements, one beside the other."""
FIELD_DTYPES = ("int32", "int64", "float32", "float64", "bool", "string")
TABLE_DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class FieldSpec:
    """An input of a batch: its dtype and how its elements lie in batch rows.

    ragged: levels of offsets: 0 for a dense field of `width` elements a row, 1 for rows of any length, 2 for rows of
    lists.   weighted: whether each element has a weight.   Facts: int32 and bool are read as int64.
    """

    name: str
    dtype: str
    ragged: int = 0
    width: int = 1
    weighted: bool = False


@dataclass(frozen=True)
class Embedding:
    """The rows that the ids of a feature look up in a table, and what becomes of them.

    pooling: over the elements of one batch row, or of each list.   length: of a sequence (`none`: padded to it; without
    it, ragged) and of a tile: shorter rows end in zeros.
    """

    table: str
    embedding_dim: int
    pooling: str = "sum"
    length: int | None = None


@dataclass(frozen=True)
class TableSpec:
    """A table as features declare it; features that name one table say the same of it.

    initializer, optimizer: names or frozen configurations, for whoever trains the table; None: as for all tables.
    """

    name: str
    embedding_dim: int
    dtype: str = "float32"
    initializer: Any = None
    optimizer: Any = None


@dataclass(frozen=True)
class Feature:
    """What is made of the elements of a field, or of other features.

    source: a field's name, a feature, or an expression; without it, the field of the feature's own name.
    embedding, table: set by `embed`.   is_dense: set by `dense`.
    """

    name: str
    source: str | Feature | Expr | None = None
    embedding: Embedding | None = None
    table: TableSpec | None = None
    is_dense: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", _expr(self.name if self.source is None else self.source))

    @property
    def expr(self) -> Expr:
        """What is computed, over fields."""
        assert isinstance(self.source, Expr)
        return self.source

    # --- elements to elements ---------------------------------------------------------------------------------------
    def map(self, op: ColumnOp, *others: Feature | str) -> Feature:
        """Any column op, on this feature and others."""
        return dataclasses.replace(self, source=Apply(op, self.expr, *map(_expr, others)))

    def hash_bytes(self, function: str = "farm") -> Feature:
        """Strings to 64-bit hashes of their bytes."""
        return self.map(HashBytes(function))

    def hash_int(self, function: str = "murmur") -> Feature:
        """Integers to 64-bit hashes of their eight bytes."""
        return self.map(HashInt(function))

    def hash_decimal(self, function: str = "farm") -> Feature:
        """Integers to 64-bit hashes of their decimal texts."""
        return self.map(HashDecimal(function))

    def mod(self, divisor: int) -> Feature:
        """The unsigned remainder."""
        return self.map(Mod(self._whole("mod", divisor)))

    def multi_hash(self, buckets: Sequence[int]) -> tuple[Feature, ...]:
        """Up to four features `name_0`, `name_1`, ... of fewer ids each, which together tell large ids apart."""
        sizes = [self._whole("multi_hash", b) for b in buckets]
        return tuple(Feature(f"{self.name}_{k}", Apply(MultiHash(k, b), self.expr)) for k, b in enumerate(sizes))

    def clip(self, least: float, most: float) -> Feature:
        """Numbers brought into an interval."""
        return self.map(Clip(self._number("clip", least), self._number("clip", most)))

    def affine(self, scale: float = 1.0, shift: float = 0.0) -> Feature:
        """float32 scaled, then moved."""
        by, more = (float(np.float32(self._number("affine", x))) for x in (scale, shift))
        return self.map(Affine(by, more))

    def log(self) -> Feature:
        """The natural logarithm of float32."""
        return self.map(Log())

    def fill_missing(self, fill: float, missing: int | None = None) -> Feature:
        """A number in the place of NaN, or of the integer that stands for none."""
        return self.map(FillMissing(fill, missing))

    def bucketize(self, boundaries: Sequence[float]) -> Feature:
        """Numbers to the number of boundaries that are not above them."""
        if isinstance(boundaries, str | bytes) or not isinstance(boundaries, Iterable):
            self._refuse("bucketize", boundaries, "a list of numbers")
        bounds = [self._number("bucketize", x) for x in boundaries]
        return self.map(Bucketize(Const(np.asarray(bounds, np.float32)))).map(Cast("int64"))

    def cast(self, dtype: str) -> Feature:
        """Numbers to another dtype."""
        return self.map(Cast(dtype))

    def vocabulary(self, keys: Sequence[Any], default: int = -1, num_oov: int = 0) -> Feature:
        """Keys to their places in a list; others to `default`, or to one of `num_oov` places from there on."""
        array = self._keys("vocabulary", keys)
        rest = self._whole("vocabulary", default), self._whole("vocabulary", num_oov)
        return self.map(Vocabulary(Const(array), Const(np.arange(len(array))), *rest))

    # --- elements that stay -----------------------------------------------------------------------------------------
    def filter(self, predicate: ColumnOp, of: Feature | str | None = None) -> Feature:
        """The elements for which a filter op holds, of themselves or of another feature's elements beside them."""
        looked_at = self.expr if of is None else _expr(of)
        return self.map(Keep(), Feature(self.name, Apply(predicate, looked_at)))

    def drop(self, values: Iterable[Any]) -> Feature:
        """The elements that are none of some values."""
        return self.map(Keep(), Feature(self.name, _is_none_of(self.expr, self._keys("drop", values))))

    def keep(self, values: Iterable[Any]) -> Feature:
        """The elements that are one of some values."""
        keys = self._keys("keep", values)
        return self.map(Keep(), Feature(self.name, Apply(AtLeast(0), _place(self.expr, keys))))

    def mask(self, values: Iterable[Any]) -> Feature:
        """Elements that are one of some values stay, and weigh 0."""
        return self.map(Weigh(), Feature(self.name, _is_none_of(self.expr, self._keys("mask", values))))

    def weigh(self, factor: Feature | str) -> Feature:
        """Each element's weight, times the number that another feature has in its place."""
        return self.map(Weigh(), factor)

    # --- rows to rows -----------------------------------------------------------------------------------------------
    def split(self, separator: bytes | str) -> Feature:
        """Strings to their tokens."""
        return self.map(Split(separator.encode() if isinstance(separator, str) else separator))

    def truncate(self, length: int, keep: str = "last", pad: Any = None) -> Feature:
        """The first or last elements of each row (of rows of lists: lists).

        pad: what rows are filled up with to that length, at their end, with weight 0; for rows of lists any value, as
        they are filled up with empty lists; None: they are not.
        """
        fill = pad.encode() if isinstance(pad, str) else pad
        size = self._whole("truncate", length)
        return self.map(Truncate(size, keep, pad is not None, 0 if fill is None else fill))

    @staticmethod
    def cross(name: str, *operands: Feature | str) -> Feature:
        """One hash for each choice of one element of every operand, weights multiplied."""
        return Feature(name, Apply(Cross(), *map(_expr, operands)))

    @staticmethod
    def combine(name: str, *operands: Feature | str) -> Feature:
        """The elements of the first operand, then of the second, and so on, row by row."""
        return Feature(name, Apply(Combine(), *map(_expr, operands)))

    # --- what it gives ----------------------------------------------------------------------------------------------
    def embed(
        self,
        table: str | None = None,
        dim: int = 16,
        pooling: str = "sum",
        length: int | None = None,
        dtype: str = "float32",
        initializer: Any = None,
        optimizer: Any = None,
    ) -> Feature:
        """Look the ids up in a table, by default one of the feature's own name.

        pooling, length: as in `Embedding`.   dtype, initializer, optimizer: of the table.
        """
        width, size = self._whole("embed", dim), None if length is None else self._whole("embed", length)
        spec = TableSpec(self.name if table is None else table, width, dtype, initializer, optimizer)
        return dataclasses.replace(self, embedding=Embedding(spec.name, width, pooling, size), table=spec)

    def dense(self) -> Feature:
        """The numbers themselves, as float32, `[B, width]`."""
        return dataclasses.replace(self, is_dense=True)

    # --- what is given ----------------------------------------------------------------------------------------------
    def _refuse(self, method: str, got: object, want: str) -> NoReturn:
        raise FeatureError(
            f"a value that {method} does not take", where=f"feature {self.name!r}", got=repr(got), want=want
        )

    def _whole(self, method: str, value: object) -> int:
        if not is_whole(value):
            self._refuse(method, value, "a whole number")
        return int(cast(int, value))

    def _number(self, method: str, value: object) -> float:
        """A whole number stays one."""
        if not is_number(value):
            self._refuse(method, value, "a number")
        return int(cast(int, value)) if is_whole(value) else float(cast(float, value))

    def _keys(self, method: str, values: Iterable[Any]) -> np.ndarray[tuple[int, ...], np.dtype[Any]]:
        """Strings as bytes, or int64."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            self._refuse(method, values, "a list of strings or of whole numbers")
        listed = list(values)
        if all(isinstance(v, str | bytes) for v in listed):
            keys = np.empty(len(listed), object)
            keys[:] = [v.encode() if isinstance(v, str) else v for v in listed]
            return keys
        strange = [v for v in listed if not is_whole(v) or not -(2**63) <= v < 2**63]
        if strange:
            self._refuse(method, strange[0], "strings, or whole numbers of 64 bits")
        return np.asarray(listed, np.int64)


def _expr(source: str | Feature | Expr) -> Expr:
    if isinstance(source, Feature):
        return source.expr
    return Field(source) if isinstance(source, str) else source


def _place(expr: Expr, keys: np.ndarray[tuple[int, ...], np.dtype[Any]]) -> Expr:
    return Apply(Vocabulary(Const(keys), Const(np.arange(len(keys))), -1), expr)


def _is_none_of(expr: Expr, keys: np.ndarray[tuple[int, ...], np.dtype[Any]]) -> Expr:
    return Apply(AtMost(-1), _place(expr, keys))
