"""Random columns, tables and batches, and the comparison with the reference backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.backends.cpu import CpuBackend
from colonnade.backends.reference import ReferenceBackend
from colonnade.core import dims, quantize
from colonnade.core.batch import Layout, Packed, Place
from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Expr, Field
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.at_least import AtLeast
from colonnade.ops.at_most import AtMost
from colonnade.ops.bucketize import Bucketize
from colonnade.ops.cast import Cast
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.hash_decimal import HashDecimal
from colonnade.ops.mod import Mod
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.split import Split

Array = npt.NDArray[Any]
B = dims.symbol("B")
TINY = np.float32(1e-40)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, TINY, -TINY, 1.17549435e-38, -1.17549435e-38, 3e38, 1.0])
NUM_BOUNDARIES = (0, 1, 2, 15, 16, 17, 100, 255, 256, 272, 273, 4095, 4096, 4624, 5000, 100_000)
DIMS = (1, 2, 3, 7, 8, 9, 16, 17, 31, 32, 33, 64, 100, 1000)
DIVISORS = (1, 2, 3, 7, 10, 64, 1000, 12345, 2**20)


@dataclass(frozen=True)
class Case:
    program: Program
    weights: Weights
    layout: Layout
    buffers: dict[str, Array]
    strings: list[bytes]
    rows: int

    def packed(self) -> Packed:
        offsets = np.zeros(len(self.strings) + 1, np.int64)
        np.cumsum([len(s) for s in self.strings], out=offsets[1:])
        return Packed(self.rows, self.buffers, np.frombuffer(b"".join(self.strings), np.uint8), offsets)

    def outputs(self, pad: int = 0) -> dict[str, Array]:
        """NaN-poisoned."""
        return {
            b.name: np.full((self.rows, b.width + pad), np.nan, np.float32)[:, : b.width] for b in self.program.buffers
        }


def floats(rng: np.random.Generator, n: int) -> Array:
    x = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4, n)
    special = rng.random(n) < 0.2
    return np.where(special, rng.choice(SPECIAL, n), x)


def integers(rng: np.random.Generator, n: int, dtype: str) -> Array:
    small = rng.integers(-20, 200, n)
    bits = np.iinfo(dtype)
    large = rng.integers(bits.min, bits.max, n, dtype=np.int64, endpoint=True)
    return np.where(rng.random(n) < 0.7, small, large).astype(dtype)


def text(rng: np.random.Generator, longest: int, separator: bytes) -> bytes:
    length = int(rng.integers(0, longest + 1))
    letters = bytes(rng.integers(0, 256, length, dtype=np.uint8)) if rng.random() < 0.3 else b"x" * length
    if rng.random() < 0.6:
        pieces = [letters[i : i + 5] for i in range(0, length, 5)]
        letters = separator.join(pieces)
    return b"" if rng.random() < 0.15 else letters


def boundaries(rng: np.random.Generator, count: int) -> Const:
    b = floats(rng, count).astype(np.float32)
    b = b[~np.isnan(b)]
    b = np.concatenate([b, rng.normal(size=count - len(b)).astype(np.float32)])
    if count > 3 and rng.random() < 0.5:
        b[: count // 3] = b[count // 2]
    return Const(np.sort(b))


class Maker:
    """Draws columns into one program."""

    def __init__(self, seed: int, longest: int = 40, dtypes: Sequence[str] = ("float32",)) -> None:
        self.rng = np.random.default_rng(seed)
        self.longest = longest
        self.dtypes = dtypes
        self.tables: dict[str, Array] = {}
        self.table_types: dict[str, tuple[int, str]] = {}
        self.fields: list[tuple[str, str, int]] = []
        self.columns: list[Column] = []
        self.widths = {"a": 0, "b": 0}
        self.separator = [b",", b"||", b"\0"][int(self.rng.integers(3))]

    def field(self, dtype: str, width: int) -> Field:
        name = f"f{len(self.fields)}"
        self.fields.append((name, dtype, width))
        return Field(name)

    def table(self, rows: int, dim: int, unaligned: bool = False) -> str:
        name = f"t{len(self.tables)}"
        values = floats(self.rng, rows * dim).astype(np.float32).reshape(rows, dim)
        dtype = self.dtypes[int(self.rng.integers(len(self.dtypes)))]
        if dtype != "float32":
            # Beyond the largest float16 it becomes infinite, as other values do by rounding: backends take any bits.
            values = quantize.encode(np.nan_to_num(values) if dtype == quantize.INT8_ROWWISE else values, dtype)
        if unaligned:
            raw = np.zeros(values.nbytes + 1, np.uint8)
            raw[1:] = values.reshape(-1).view(np.uint8)
            values = raw[1:].view(values.dtype).reshape(values.shape)
        values.flags.writeable = False
        self.tables[name] = values
        self.table_types[name] = (dim, dtype)
        return name

    def ids(self, rows: int, source: Expr, dtype: str) -> Expr:
        """Ids below `rows` (most of the time: an identity may leave the table)."""
        if dtype == "string":
            return Apply(Mod(rows), Apply(HashBytes(), source))
        how = self.rng.integers(4)
        if dtype.startswith("float"):
            if how == 0:
                other = "float64" if dtype == "float32" else "float32"
                source, dtype = Apply(Cast(other), source), other
            if how == 1:
                return Apply(Mod(rows), Apply(Cast("int64"), Apply(Cast("int32"), source)))
            return Apply(Bucketize(boundaries(self.rng, rows - 1), bool(self.rng.integers(2))), source)
        if how == 0:
            return Apply(Bucketize(boundaries(self.rng, rows - 1), bool(self.rng.integers(2))), source)
        if how == 1:
            return Apply(Mod(rows), Apply(HashDecimal(), source))
        if how == 2:
            return source
        return Apply(Mod(rows), Apply(Cast("int64"), source))

    def filter(self, source: Expr, dtype: str) -> Expr:
        if dtype == "string":
            return Apply(NotEqual([b"", b"xxxxx", b"x"][int(self.rng.integers(3))]), source)
        op = [NotEqual(-1), AtLeast(0), AtMost(150), AtLeast(-(2**31)), AtMost(100_000), AtMost(2**31 - 1)]
        return Apply(op[int(self.rng.integers(len(op)))], source)

    def column(self) -> None:
        rng = self.rng
        dtype = str(rng.choice(["float32", "float64", "int32", "int64", "string"]))
        width = int(rng.choice([1, 1, 1, 1, 2, 3, 5, 20, 0]))
        source = self.field(dtype, width)
        if rng.random() < 0.1 and dtype != "string":
            self.add(Column(f"c{len(self.columns)}", source, None), width)
            return
        dim = int(rng.choice(DIMS))
        split = dtype == "string" and rng.random() < 0.5
        pooling = str(rng.choice(["sum", "mean", "sqrtn", "max"] + ["none"] * (not split)))
        rows = int(rng.choice(NUM_BOUNDARIES[:9])) + 1 if dtype != "string" else int(rng.choice(DIVISORS[:7]))
        values: Expr = Apply(Split(self.separator), source) if split else source
        filters = []
        if not dtype.startswith("float"):
            if rng.random() < 0.4:
                filters.append(self.filter(source, dtype))
            if split and rng.random() < 0.5:
                filters.append(self.filter(values, dtype))
        if rng.random() < 0.15:
            filters.append(self.filter(self.field("int64", width), "int64"))
        weights = None
        if rng.random() < 0.2:
            weights = self.field(str(rng.choice(["float32", "float64", "int32"])), width)
        table = self.table(rows, dim, unaligned=rng.random() < 0.3)
        column = Column(
            f"c{len(self.columns)}",
            self.ids(rows, values, dtype),
            table,
            pooling,
            tuple(filters),
            weights,
            int(rng.integers(rows)) if rng.random() < 0.2 else None,
        )
        self.add(column, dim * width if pooling == "none" else dim)

    def add(self, column: Column, width: int) -> None:
        slots = []
        for _ in range(int(self.rng.choice([1, 1, 1, 2, 3]))):
            buffer = str(self.rng.choice(list(self.widths)))
            slots.append(Slot(buffer, self.widths[buffer], width))
            self.widths[buffer] += width
        self.columns.append(replace(column, slots=tuple(slots)))

    def case(self, rows: int) -> Case:
        places, widths = {}, {}
        for name, dtype, width in self.fields:
            places[name] = Place(dtype, widths.get(dtype, 0), width)
            widths[dtype] = widths.get(dtype, 0) + width
        buffers: dict[str, Array] = {}
        for dtype, width in widths.items():
            if dtype.startswith("float"):
                buffers[dtype] = floats(self.rng, rows * width).astype(dtype)
            elif dtype != "string":
                buffers[dtype] = integers(self.rng, rows * width, dtype)
        for array in buffers.values():
            array.flags.writeable = False
        strings = [text(self.rng, self.longest, self.separator) for _ in range(rows * widths.get("string", 0))]
        program = Program(
            (),
            tuple(Table(n, len(t), *self.table_types[n]) for n, t in self.tables.items()),
            tuple(self.columns),
            tuple(Buffer(n, B, w) for n, w in self.widths.items()),
            (),
            (),
        )
        return Case(program, Weights(self.tables, {}, {}), Layout(B, places, widths), buffers, strings, rows)


def check(case: Case, threads: int = 1, pad: int = 0) -> None:
    """The cpu backend equals the reference, NaN like NaN."""
    want, got = case.outputs(), case.outputs(pad)
    compiled = CpuBackend().compile(case.program, case.weights, case.layout, id_policy="zero", threads=threads)
    reference = ReferenceBackend().compile(case.program, case.weights, case.layout, id_policy="zero", threads=1)
    replaced = reference.run(case.packed(), want)
    assert compiled.run(case.packed(), got) == replaced
    compare(case, got, want)


def compare(case: Case, got: dict[str, Array], want: dict[str, Array]) -> None:
    for column in case.program.columns:
        for slot in column.slots:
            a, b = (o[slot.output][:, slot.offset : slot.offset + slot.width] for o in (got, want))
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            if column.pooling == "sqrtn":
                # torch's square root of a float32 may be off by its last bit.
                same |= np.isclose(a, b, rtol=5e-7, atol=1e-44)
            assert same.all(), (column, slot, np.argwhere(~same)[:5], a[~same][:5], b[~same][:5])
