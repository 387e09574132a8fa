"""Skeletons: a compiled model without tables and dense parameters, a few kilobytes each, and weights to fill them.

`python -m benchmarks.gpu.skeleton` makes them anew from the test models; that needs TensorFlow.
"""

from __future__ import annotations

import json
import lzma
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.core.consts import Const
from colonnade.core.expr import Apply
from colonnade.errors import OptionError, ShapeError
from colonnade.ir.column import Column, fields_read
from colonnade.ir.program import TRANSPOSED, Program, Weights
from colonnade.ir.table import Table
from colonnade.ir.text import by_digest, consts_of, parse_program, print_program
from colonnade.ops.mod import Mod

FOLDER = Path(__file__).resolve().parent / "skeletons"
MODELS: Mapping[str, str] = {"micro1000": "micro1000", "E": "E_full_cols", "F": "F_full_cols"}
"""Skeleton -> the test model it is made of."""
LARGE = "large_"
"""In the names of the tables whose number of rows a caller may choose."""
_STORED = np.dtype(np.float32)


def pack(program: Program) -> bytes:
    """The program's text and constants, compressed. Errors: ShapeError where a constant is not float32."""
    consts = {digest: const.array for digest, const in consts_of(program).items() if by_digest(const)}
    odd = [f"{digest}: {array.dtype}" for digest, array in consts.items() if array.dtype != _STORED]
    if odd:
        raise ShapeError("a skeleton holds float32 constants", got=", ".join(odd))
    stored = {"consts": {d: [float(x) for x in a] for d, a in consts.items()}, "program": print_program(program)}
    return lzma.compress(json.dumps(stored).encode(), preset=9)


def unpack(data: bytes) -> Program:
    """The program of a skeleton."""
    stored = json.loads(lzma.decompress(data))
    consts = [Const(np.asarray(values, _STORED)) for values in stored["consts"].values()]
    return parse_program(stored["program"], {const.digest: const for const in consts})


def skeleton(name: str, large_rows: int | None = None) -> Program:
    """The program called `name`.   large_rows: rows of the large tables, in place of those it has.

    Errors: OptionError where there is no such skeleton.
    """
    if name not in MODELS:
        raise OptionError("no such skeleton", got=name, want=", ".join(MODELS))
    program = unpack((FOLDER / f"{name}.xz").read_bytes())
    return program if large_rows is None else resized(program, large_rows)


def resized(program: Program, rows: int) -> Program:
    """The same program with `rows` rows in every large table, and ids that are remainders by `rows`."""
    old = {t.name: t.rows for t in program.tables if LARGE in t.name}
    tables = tuple(replace(t, rows=rows) if t.name in old else t for t in program.tables)
    return replace(program, tables=tables, columns=tuple(_resized(c, old, rows) for c in program.columns))


def _resized(column: Column, old: Mapping[str, int], rows: int) -> Column:
    if column.table is None or column.table not in old:
        return column
    ids = column.ids
    if not isinstance(ids, Apply) or ids.op != Mod(old[column.table]):
        raise ShapeError("the ids of a large table are no remainders by its rows", where=column.name, got=repr(ids))
    return replace(column, ids=Apply(Mod(rows), *ids.args))


def first(program: Program, count: int) -> Program:
    """The `count` columns that begin the one buffer, as a program without a dense rest."""
    (buffer,) = program.buffers
    columns = sorted(program.columns, key=lambda c: c.slots[0].offset)[:count]
    width = sum(slot.width for c in columns for slot in c.slots)
    read = {name for c in columns for name in fields_read(c)}
    looked_up = {c.table for c in columns}
    (output,) = program.outputs
    return replace(
        program,
        inputs=tuple(i for i in program.inputs if i.name in read),
        tables=tuple(t for t in program.tables if t.name in looked_up),
        columns=tuple(columns),
        buffers=(replace(buffer, width=width),),
        outputs=(replace(output, shape=(output.shape[0], width)),),
    )


def fill(program: Program, seed: int = 0, device: torch.device | str = "cpu") -> Weights:
    """Random weights of the program's shapes, drawn on `device`, kept on the host.

    Facts: the same program, seed and kind of device give the same weights; rows of tables are normal, matrices keep
    the size of what passes through them, so that outputs spread over their range.
    """
    generator = torch.Generator(device).manual_seed(seed)

    def normal(shape: tuple[int, ...], scale: float) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device).mul_(scale).cpu()

    tables = {t.name: _rows(t, normal((t.rows, t.embedding_dim), 1.0)) for t in program.tables}
    params = {name: normal(shape, _scale(name, shape)) for name, _, shape in program.params}
    return Weights(tables, params, consts_of(program))


def _rows(table: Table, values: torch.Tensor) -> NDArray[np.float32]:
    if table.dtype != "float32":
        raise ShapeError("only float32 tables are filled", where=table.name, got=table.dtype)
    return values.numpy()


def _scale(name: str, shape: tuple[int, ...]) -> float:
    if len(shape) < 2:
        return 0.1
    return math.sqrt(2 / (shape[1] if name.endswith(TRANSPOSED) else shape[0]))


def made() -> Iterator[tuple[str, bytes]]:
    """Every skeleton, made from its test model."""
    from colonnade.compiler import lower
    from colonnade.testing.models import cached

    for name, model in MODELS.items():
        program, *_ = lower(cached(model))
        yield name, pack(program)


def main() -> None:
    """Write every skeleton."""
    FOLDER.mkdir(exist_ok=True)
    for name, data in made():
        (FOLDER / f"{name}.xz").write_bytes(data)
        print(f"{name}: {len(data):,} bytes")


if __name__ == "__main__":
    main()
