"""Where each table lies: on the device, or in host memory where the device is to hold fewer bytes of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from colonnade.errors import OptionError
from colonnade.ir.column import Column, fields_read
from colonnade.ir.evaluate import expands
from colonnade.ir.program import Input, Program
from colonnade.ir.table import Table

POOLED, BUS, AUTO = "pooled", "bus", "auto"
WAYS = (POOLED, BUS)
"""How a table in host memory is read: pooled by the host, or row by row over the bus by the kernel."""
MOST_BUS_THREADS = 2
"""With more threads the host pools faster than the bus brings rows (decision 0019)."""
MOST_PINNED = 1 / 4
"""Of the host's memory: rows that the bus brings lie in pages of their own, which no other process shares."""
UNKNOWN_LOOKUPS = 8
"""Lookups a batch row, where only a request says how many there are."""
LOOKUP_NS, BUS_ROW_NS = 50.0, 21.0
"""A lookup of a row that no cache holds: by one thread of the host, with its id's computation, and over the bus."""
HOST_BYTES_A_NS, BUS_BYTES_A_NS, BUS_ROWS_BYTES_A_NS = 10.0, 25.0, 6.0
"""What a core reads from memory, what one copy moves over the bus, and what a kernel's reads of rows move over it."""


@dataclass(frozen=True)
class Placed:
    """A table and where it lies.

    bytes: of its rows.   lookups, cost: a batch row, the latter if it lay in host memory. Units: cost in nanoseconds.
    """

    name: str
    bytes: int
    on_device: bool
    lookups: int
    cost: float
    why: str


@dataclass(frozen=True)
class Placement:
    """All tables of a program, in its order. budget: bytes of tables that the device may hold, or None for all."""

    budget: int | None
    way: str
    tables: tuple[Placed, ...]

    @property
    def host(self) -> frozenset[str]:
        """The tables in host memory."""
        return frozenset(t.name for t in self.tables if not t.on_device)

    @property
    def device_bytes(self) -> int:
        """What the device holds of tables."""
        return sum(t.bytes for t in self.tables if t.on_device)

    @property
    def host_bytes(self) -> int:
        """What lies in host memory."""
        return sum(t.bytes for t in self.tables if not t.on_device)

    @property
    def places(self) -> Mapping[str, str]:
        """`device` or `host`, by table."""
        return {t.name: "device" if t.on_device else "host" for t in self.tables}

    def __str__(self) -> str:
        budget = "no budget" if self.budget is None else f"a budget of {self.budget:,} bytes"
        lines = [f"{len(self.tables)} tables, {budget}"]
        for on_device, where, size in ((True, "device", self.device_bytes), (False, "host", self.host_bytes)):
            found = [t for t in self.tables if t.on_device == on_device]
            lines.append(f"  {where}: {len(found)} tables, {size:,} bytes")
            lines += [f"    {t.name}: {t.bytes:,} bytes, {t.why}" for t in found]
        return "\n".join(lines)


def fitting(program: Program, budget: int | None, threads: int, host_bytes: int) -> Placement:
    """The placement with the way that costs less: over the bus where few threads would pool, and the host has room.

    threads: that may pool.   host_bytes: of the host's memory.
    """
    found = place(program, budget, BUS)
    fits = threads <= MOST_BUS_THREADS and found.host_bytes <= MOST_PINNED * host_bytes
    return found if fits else place(program, budget, POOLED)


def place(program: Program, budget: int | None = None, way: str = POOLED) -> Placement:
    """Leave in host memory the tables that cost least there for each byte they save, until the others fit.

    Facts: a table moves as one, with all columns that read it; of equal tables the first of the program moves first.
    What then still fits comes back, the dearest first.
    Errors: OptionError for a budget or a way that is none.
    """
    if way not in WAYS:
        raise OptionError("tables in host memory are read in another way", got=repr(way), want=", ".join(WAYS))
    if budget is not None and budget < 0:
        raise OptionError("a budget for tables that is below nothing", got=f"{budget:,} bytes", want="at least 0")
    uses = _uses(program)
    inputs = {i.name: i for i in program.inputs}
    lookups = {name: sum(_lookups(c, inputs) for c in columns) for name, columns in uses.items()}
    costs = {t.name: sum(_cost(c, t, inputs, way) for c in uses[t.name]) for t in program.tables}
    moved = _moved(program.tables, costs, budget)
    tables = [
        Placed(t.name, t.bytes, t.name not in moved, lookups[t.name], costs[t.name], _why(t, moved, costs, budget))
        for t in program.tables
    ]
    return Placement(budget, way, tuple(tables))


def _uses(program: Program) -> dict[str, list[Column]]:
    """The columns that read each table."""
    uses: dict[str, list[Column]] = {t.name: [] for t in program.tables}
    for column in program.columns:
        if column.table is not None and column.slots:
            uses[column.table].append(column)
    return uses


def _moved(tables: Sequence[Table], costs: Mapping[str, float], budget: int | None) -> frozenset[str]:
    left = sum(t.bytes for t in tables)
    if budget is None or left <= budget:
        return frozenset()
    moved: list[Table] = []
    for table in sorted((t for t in tables if t.bytes), key=lambda t: costs[t.name] / t.bytes):
        if left <= budget:
            break
        moved.append(table)
        left -= table.bytes
    for table in reversed(moved[:]):
        if left + table.bytes <= budget:
            moved.remove(table)
            left += table.bytes
    return frozenset(t.name for t in moved)


def _lookups(column: Column, inputs: Mapping[str, Input]) -> int:
    """Lookups of a column in a batch row."""
    item = inputs[fields_read(column)[0]]
    if item.offsets is not None or any(map(expands, (column.ids, *column.filters))):
        return UNKNOWN_LOOKUPS
    width = 1
    for dim in item.shape[1:]:
        width *= dim if isinstance(dim, int) else UNKNOWN_LOOKUPS
    return width


def _cost(column: Column, table: Table, inputs: Mapping[str, Input], way: str) -> float:
    """What a column costs a batch row if its table lies in host memory. Units: nanoseconds."""
    read = _lookups(column, inputs) * table.row_bytes
    if way == BUS:
        return max(_lookups(column, inputs) * BUS_ROW_NS, read / BUS_ROWS_BYTES_A_NS)
    vector = 4 * column.slots[0].width
    return _lookups(column, inputs) * LOOKUP_NS + read / HOST_BYTES_A_NS + vector / BUS_BYTES_A_NS


def _why(table: Table, moved: frozenset[str], costs: Mapping[str, float], budget: int | None) -> str:
    if budget is None:
        return "no budget is given"
    if not moved:
        return "all tables fit into the budget"
    cost = f"{costs[table.name]:.0f} ns a batch row in host memory"
    if table.name in moved:
        return f"{cost}: little for its size"
    return f"{cost}: much for its size, or it fits beside the others"
