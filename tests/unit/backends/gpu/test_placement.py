"""Which tables a budget leaves in host memory."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.backends.gpu.placement import BUS, POOLED, Placement, fitting, place
from colonnade.core import dims
from colonnade.core.expr import Field
from colonnade.errors import OptionError
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Program
from colonnade.ir.table import Table

B, N = dims.symbol("B"), dims.symbol("N")


def program(*tables: Table, uses: tuple[tuple[str, int], ...] = ()) -> Program:
    """A column a table and those of `uses`: (table, ids a batch row; 0 for a ragged field)."""
    found = [*((t.name, 1) for t in tables), *uses]
    widths = {t.name: t.embedding_dim for t in tables}
    inputs, columns, offset = [], [], 0
    for k, (table, ids) in enumerate(found):
        inputs.append(Input(f"x{k}", "int64", (B, ids)) if ids else Input(f"x{k}", "int64", (N,), "", "ends"))
        columns.append(Column(f"c{k}", Field(f"x{k}"), table, "sum", slots=(Slot("buf", offset, widths[table]),)))
        offset += widths[table]
    return Program(
        (*inputs, Input("ends", "int64", (dims.add(B, 1),))),
        tables,
        tuple(columns),
        (Buffer("buf", B, offset),),
        (),
        (),
    )


SMALL, MIDDLE, HUGE = Table("small", 10, 4), Table("middle", 1000, 4), Table("huge", 1_000_000, 4)
ALL = program(SMALL, MIDDLE, HUGE)
BYTES = 4 * 4


def host(placement: Placement) -> list[str]:
    return sorted(placement.host)


@pytest.mark.parametrize("way", [POOLED, BUS])
def test_huge_tables_move_first(way: str) -> None:
    budgets = {None: [], 1_001_010: [], 1_001_009: ["huge"], 1010: ["huge"], 1009: ["huge", "middle"]}
    for rows, want in budgets.items():
        found = place(ALL, None if rows is None else BYTES * rows, way)
        assert host(found) == want and (rows is None or found.device_bytes <= BYTES * rows)
    for budget in (0, 1, BYTES * 10 - 1):
        found = place(ALL, budget, way)
        assert host(found) == ["huge", "middle", "small"] and found.device_bytes == 0
        assert found.host_bytes == sum(t.bytes for t in ALL.tables)
    assert host(place(ALL, BYTES * 10, way)) == ["huge", "middle"]


def test_the_way_is_that_of_less_cost() -> None:
    """Few threads pool slower than the bus brings rows; what the bus reads is pinned, which a host has to have."""
    found = {n: fitting(ALL, BYTES * 10, n, 1 << 40).way for n in (1, 2, 3, 16)}
    assert found == {1: BUS, 2: BUS, 3: POOLED, 16: POOLED}
    assert fitting(ALL, BYTES * 10, 1, 1 << 20).way == POOLED
    assert host(fitting(ALL, BYTES * 10, 1, 1 << 20)) == ["huge", "middle"]
    assert not fitting(ALL, None, 1, 1 << 40).host


def test_hot_tables_stay() -> None:
    often = program(Table("hot", 1000, 8), Table("cold", 1000, 8), uses=(("hot", 50),))
    assert host(place(often, often.tables[0].bytes)) == ["cold"]
    ragged = program(Table("cold", 1000, 8), Table("hot", 1000, 8), uses=(("hot", 0),))
    assert host(place(ragged, ragged.tables[0].bytes)) == ["cold"]


def test_a_table_of_several_columns_moves_as_one_and_counts_all_of_them() -> None:
    shared = program(Table("a", 1000, 8), Table("b", 900, 8), uses=(("a", 1), ("a", 1)))
    found = place(shared, 1000 * 32)
    assert host(found) == ["b"] and found.tables[0].lookups == 3 and found.tables[1].lookups == 1
    assert host(place(shared, 950 * 32)) == ["a"]


def test_the_first_of_equal_tables_moves_first() -> None:
    equal = program(*(Table(name, 100, 4) for name in "zabc"))
    assert host(place(equal, 3 * 100 * BYTES)) == ["z"]
    assert host(place(equal, 2 * 100 * BYTES)) == ["a", "z"]


def test_what_still_fits_comes_back() -> None:
    cheap_a_byte = program(Table("one", 300, 4), Table("two", 1000, 4), uses=(("two", 8),))
    found = place(cheap_a_byte, 400 * BYTES)
    assert host(found) == ["two"] and found.device_bytes == 300 * BYTES


def test_random_placements_fit_and_no_table_could_come_back() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        tables = [Table(f"t{k}", int(rng.zipf(1.2) % 10_000), int(rng.integers(1, 65))) for k in range(12)]
        drawn = program(*tables, uses=tuple((f"t{k}", int(rng.integers(0, 9))) for k in rng.integers(0, 12, 6)))
        budget = int(rng.integers(0, sum(t.bytes for t in tables) + 2))
        for way in (POOLED, BUS):
            found = place(drawn, budget, way)
            assert found.device_bytes <= budget and found == place(drawn, budget, way)
            assert all(t.on_device or t.bytes > budget - found.device_bytes for t in found.tables)


def test_it_prints() -> None:
    text = str(place(ALL, BYTES * 1010))
    assert text.splitlines()[0] == f"3 tables, a budget of {BYTES * 1010:,} bytes"
    assert "  host: 1 tables, 16,000,000 bytes" in text and "    huge: 16,000,000 bytes, " in text
    assert "no budget is given" in str(place(ALL))
    assert "all tables fit" in str(place(ALL, 1 << 40))
    assert place(ALL, BYTES * 1010).places == {"small": "device", "middle": "device", "huge": "host"}


def test_what_is_refused() -> None:
    with pytest.raises(OptionError, match="below nothing"):
        place(ALL, -1)
    with pytest.raises(OptionError, match="pooled, bus"):
        place(ALL, 1, "elsewhere")
