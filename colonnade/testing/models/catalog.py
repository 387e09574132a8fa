"""The test models by name: micro, E and F of the RECom paper, smaller and varied forms of them.

Source: Pan et al., "RECom: A Compiler Approach to Accelerating Recommendation Model Inference with Massive Embedding
Columns", ASPLOS 2023 (sizes of the models).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import OptionError
from colonnade.testing.models.spec import ColumnSpec, ModelSpec, Pooling

MICRO_BOUNDARIES = tuple(float(5 * i) for i in range(100))
LARGE, LARGE_ROWS = "large_", 1 << 23

_POOLINGS: tuple[Pooling, ...] = ("sum", "mean", "sqrtn")
_DIMS = (1, 2, 3, 4, 5, 8, 12, 16, 17, 20, 24, 32, 33)
_COUNTS = (1, 2, 7, 8, 9, 15, 16, 17, 31, 63, 64, 65, 100, 127, 255, 256, 257, 600)
_TINY_ROWS = 500
_ROWS = (1, 2, 3, 10, 97, 100, 128, 1000, 4096, 10_000)


@dataclass(frozen=True)
class Counts:
    """How many columns of each kind a model of the E family has."""

    bucketized: int
    int_hash: int
    string_hash: int
    split_hash: int
    large: int

    def scaled(self, divisor: int) -> Counts:
        """Every count divided by `divisor`, rounded up."""
        return Counts(*(-(-getattr(self, field) // divisor) for field in self.__dataclass_fields__))


E_COUNTS = Counts(880, 50, 50, 15, 5)
F_COUNTS = Counts(1000, 90, 100, 7, 3)


def micro(num_columns: int, *, seed: int = 0, extra_outputs: bool = False) -> ModelSpec:
    """`num_columns` bucketized columns of 100 boundaries, 101 rows x 8, mean; the output is their concat."""
    columns = tuple(_bucketized(f"num_{i}") for i in range(num_columns))
    return ModelSpec(f"micro{num_columns}", columns, seed=seed, extra_outputs=extra_outputs)


def model_e(
    *, divisor: int = 1, large_rows: int = LARGE_ROWS, seed: int = 0, extra_outputs: bool = False, name: str = "E"
) -> ModelSpec:
    """Model E: 1,000 columns, 32 dense floats, top network 1024-1024-128-1."""
    columns = family_columns(E_COUNTS.scaled(divisor), large_rows)
    return ModelSpec(name, columns, 32, (32,), (1024, 1024, 128), seed, extra_outputs)


def model_f(
    *, divisor: int = 1, large_rows: int = LARGE_ROWS, seed: int = 0, extra_outputs: bool = False, name: str = "F"
) -> ModelSpec:
    """Model F: 1,200 columns, 32 dense floats, top network 2048-1024-1024-512-1."""
    columns = family_columns(F_COUNTS.scaled(divisor), large_rows)
    return ModelSpec(name, columns, 32, (32,), (2048, 1024, 1024, 512), seed, extra_outputs)


def family_columns(counts: Counts, large_rows: int) -> tuple[ColumnSpec, ...]:
    """The columns of the E family in the given numbers."""
    return (
        *(_bucketized(f"num_{i}") for i in range(counts.bucketized)),
        *(ColumnSpec(f"int_{i}", "hash", "int32", 100, 8, "mean") for i in range(counts.int_hash)),
        *(ColumnSpec(f"str_{i}", "hash", "string", 10_000, 8, "mean") for i in range(counts.string_hash)),
        *(ColumnSpec(f"split_{i}", "split_hash", "string", 10_000, 8, "sum") for i in range(counts.split_hash)),
        *(ColumnSpec(f"{LARGE}{i}", "split_hash", "string", large_rows, 32, "sum") for i in range(counts.large)),
    )


def tiny(*, seed: int = 0, extra_outputs: bool = False, name: str = "tiny") -> ModelSpec:
    """A model of every kind of column that is small enough to keep in the repository."""
    columns = tuple(replace(c, rows=min(c.rows, _TINY_ROWS)) for c in family_columns(Counts(24, 6, 6, 4, 2), 1 << 9))
    return ModelSpec(name, columns, 8, (8,), (16, 8), seed, extra_outputs)


def examples(num_columns: int, *, seed: int = 0, extra_outputs: bool = False) -> ModelSpec:
    """A model of serialized Examples: half of its columns bucketized, a quarter hashed ids, a quarter hashed strings.

    Facts: top network 256-128-1; ids and strings are lists of any length.
    """
    kinds = (
        lambda i: _bucketized(f"num_{i}"),
        lambda i: ColumnSpec(f"int_{i}", "hash", "int64", 1000, 8, "mean"),
        lambda i: _bucketized(f"num_{i}"),
        lambda i: ColumnSpec(f"str_{i}", "hash", "string", 10_000, 8, "mean"),
    )
    columns = tuple(kinds[i % len(kinds)](i) for i in range(num_columns))
    return ModelSpec(f"examples{num_columns}", columns, 8, (8,), (256, 128), seed, extra_outputs, serialized=True)


def varied(spec: ModelSpec, *, seed: int, name: str) -> ModelSpec:
    """`spec` with boundaries, rows, embedding dims, pooling, dtypes and separators drawn anew for every column.

    Facts: no hashed column but a large one gets more rows than it has.
    """
    rng = np.random.default_rng(seed)
    return replace(spec, name=name, seed=seed, columns=tuple(_vary(column, rng) for column in spec.columns))


def with_large_rows(spec: ModelSpec, rows: int) -> ModelSpec:
    """`spec` with so many rows in each large table. Errors: OptionError where it has none."""
    columns = tuple(replace(c, rows=rows) if c.name.startswith(LARGE) else c for c in spec.columns)
    if rows < 1 or not any(c.name.startswith(LARGE) for c in columns):
        raise OptionError("a model without large tables, or tables without rows", got=f"{spec.name}, {rows:,} rows")
    return replace(spec, columns=columns)


def named(name: str) -> ModelSpec:
    """The model called `name`.

    Facts: `micro<N>`; `examples<N>`; `tiny`; `E<k>` or `F<k>` with a k-th of the columns and large rows 2^12 (2^10 from
    k = 20 on); `E_full_cols` and `F_full_cols` with large rows 2^17; `E` and `F` as published. Suffix `_varied`: the
    columns differ in everything. Suffix `_outputs`: with the signature `columns`.
    Errors: OptionError for any other name.
    """
    base, *suffixes = re.split(r"_(?=varied$|outputs$|varied_outputs$)|(?<=varied)_", name)
    spec = _base(base, name)
    if "varied" in suffixes:
        spec = varied(spec, seed=spec.seed + 1, name=name)
    return replace(spec, name=name, extra_outputs="outputs" in suffixes)


def _base(base: str, name: str) -> ModelSpec:
    makers: dict[str, Callable[..., ModelSpec]] = {"E": model_e, "F": model_f}
    if match := re.fullmatch(r"micro([1-9]\d*)", base):
        return micro(int(match[1]))
    if match := re.fullmatch(r"examples([1-9]\d*)", base):
        return examples(int(match[1]))
    if match := re.fullmatch(r"([EF])([1-9]\d*)", base):
        divisor = int(match[2])
        return makers[match[1]](divisor=divisor, large_rows=1 << (12 if divisor < 20 else 10))
    if match := re.fullmatch(r"([EF])_full_cols", base):
        return makers[match[1]](large_rows=1 << 17)
    if base == "tiny":
        return tiny()
    if base in makers:
        return makers[base]()
    raise OptionError(
        "no such test model",
        got=name,
        want="keras<N>, or micro<N>, examples<N>, tiny, E, F, E<k>, F<k>, E_full_cols or F_full_cols, with _varied or "
        "_outputs at the end",
    )


def _bucketized(name: str) -> ColumnSpec:
    return ColumnSpec(name, "bucketized", "float32", len(MICRO_BOUNDARIES) + 1, 8, "mean", MICRO_BOUNDARIES)


def _vary(column: ColumnSpec, rng: np.random.Generator) -> ColumnSpec:
    pooling = _POOLINGS[rng.integers(len(_POOLINGS))]
    column = replace(column, embedding_dim=int(rng.choice(_DIMS)), pooling=pooling)
    if column.kind == "bucketized":
        boundaries = _vary_boundaries(rng)
        return replace(column, boundaries=boundaries, rows=len(boundaries) + 1)
    if column.name.startswith(LARGE):
        return replace(column, rows=max(1, column.rows - int(rng.integers(7))), separator=str(rng.choice(list(";,|"))))
    rows = min(column.rows, int(rng.choice(_ROWS)))
    dtype = str(rng.choice(["int32", "int64"])) if column.dtype == "int32" else column.dtype
    separator = str(rng.choice(list(";,|"))) if column.kind == "split_hash" else column.separator
    return replace(column, rows=rows, dtype=dtype, separator=separator)


def _vary_boundaries(rng: np.random.Generator) -> tuple[float, ...]:
    count = int(rng.choice(_COUNTS))
    shapes: tuple[Callable[[], NDArray[np.floating[Any]]], ...] = (
        lambda: np.arange(count) * rng.uniform(0.01, 10.0) + rng.uniform(-100.0, 100.0),
        lambda: rng.normal(0.0, 1.0, count),
        lambda: np.cumsum(rng.lognormal(0.0, 2.0, count)) - 50.0,
        lambda: rng.uniform(-1e-6, 1e-6, count),
        lambda: rng.choice([-1.0, 1.0], count) * 10.0 ** rng.uniform(-30.0, 30.0, count),
    )
    values = np.unique(shapes[rng.integers(len(shapes))]().astype(np.float32))
    return tuple(float(value) for value in values)
