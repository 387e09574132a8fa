"""What the gpu backend makes of a program, as plain data: found without a device, launched nowhere."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import torch

from colonnade.backends.backend import layouts
from colonnade.backends.dense import synchronises
from colonnade.backends.gpu.columns import GpuColumns
from colonnade.backends.gpu.host_tables import divide
from colonnade.backends.gpu.memory import host_bytes
from colonnade.backends.gpu.occupancy import Occupancy, occupancy
from colonnade.backends.gpu.padding import Proven, row_independent
from colonnade.backends.gpu.placement import BUS, POOLED, Placement, fitting
from colonnade.backends.gpu.schedule import OPTIONS, Group
from colonnade.backends.gpu.split import columns_only, reasons_for_host, split
from colonnade.config import settings
from colonnade.ir.column import fields_read
from colonnade.ir.program import Program, Weights

BATCHES = (1, 32, 256, 2048)
INTERPRETED = "made by the interpreted backend, which needs no device: nothing was uploaded, nothing was launched"


def details(
    program: Program, weights: Weights, id_policy: str = "error", *, table_budget: int | None = None
) -> dict[str, Any]:
    """Launches, structures, code and data of each layout; tables; the rest of a request; registers where a device is.

    table_budget: bytes of tables that the device may hold; the others lie in host memory.
    Errors: GraphError naming a column that the gpu cannot run.
    """
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else None
    launched = columns_of(program, weights, id_policy, table_budget)
    return {
        "how": INTERPRETED,
        "launches_a_request": len(launched),
        "num_columns": len(program.columns),
        "layouts": [_layout(columns, device) for columns, _ in launched],
        "tables": _tables(program, table_budget),
        **_rest(program),
    }


def column_details(
    program: Program, weights: Weights, name: str, id_policy: str = "error", *, table_budget: int | None = None
) -> dict[str, Any]:
    """The structure that runs a column, with its code, and the columns whose ids are computed with its own."""
    for columns, names in columns_of(program, weights, id_policy, table_budget):
        for k, group in enumerate(columns.schedule.groups):
            for unit in group.units:
                members = sorted({names[t.column] for t in unit.targets})
                if name in members:
                    shared = [m for m in members if m != name]
                    return {**_structure(k, group), "shares_ids_with": shared, "code": group.structure.body}
    return {}


def columns_of(
    program: Program, weights: Weights, id_policy: str, table_budget: int | None = None
) -> list[tuple[GpuColumns, list[str]]]:
    """The columns of each layout that has any, compiled without their tables' rows, with their names."""
    bare, made = _without_rows(weights), []
    placed = _placed(program, table_budget)
    for layout in layouts(program):
        columns = [c for c in program.columns if c.slots and set(fields_read(c)) <= layout.fields]
        divided = divide(program, layout, placed.host) if placed.way == POOLED else None
        if divided is not None:
            columns, layout = list(divided.device), divided.layout
        kernel = GpuColumns(
            columns,
            program,
            bare,
            layout,
            id_policy=id_policy,
            device=torch.device("cpu"),
            interpret=True,
            in_host=placed.host,
        )
        if kernel.schedule.groups:
            made.append((kernel, [c.name for c in columns]))
    return made


def _without_rows(weights: Weights) -> Weights:
    """Tables of no rows: code and descriptors say nothing of what lies in them."""
    return replace(weights, tables={name: rows[:0] for name, rows in weights.tables.items()})


def _layout(columns: GpuColumns, device: torch.device | None) -> dict[str, Any]:
    schedule = columns.schedule
    found = None if device is None else occupancy(schedule, device)
    text = schedule.text
    return {
        "rows": str(columns.layout.rows),
        "structures": [_structure(k, group) for k, group in enumerate(schedule.groups)],
        "code": {
            "lines": text.count("\n"),
            "sha256": hashlib.sha256(text.encode()).hexdigest()[:16],
            "arguments": len(schedule.arguments),
            "options": dict(OPTIONS),
        },
        "data": {
            "descriptor_bytes": sum(8 * g.structure.num_words * len(g.units) for g in schedule.groups),
            "header_bytes": 8 * columns.header.num_words,
        },
        "batches": [_batch(schedule.plain, rows, found) for rows in BATCHES],
        "tiled_by_elements": sum(len(g.units) for g in schedule.tiled),
        "device": None if found is None else _on_device(found),
    }


def _structure(index: int, group: Group) -> dict[str, Any]:
    structure = group.structure
    return {
        "structure": index,
        "kind": structure.kind,
        "units": len(group.units),
        "lookups": sum(len(u.targets) for u in group.units),
        "columns": len({t.column for u in group.units for t in u.targets}),
        "tile": structure.items,
        "of": "elements and row ends" if group.is_tiled else "elements" if group.width > 1 else "rows",
        "words": structure.num_words,
        "lines": structure.body.count("\n") + 1,
        "uses": sorted(structure.used),
    }


def _batch(plain: Sequence[Group], rows: int, found: Occupancy | None) -> dict[str, Any]:
    """Programs of a batch, but for those whose tiles are cut from elements: only a request says how many."""
    programs = sum(group.programs(rows) for group in plain)
    return {"batch": rows, "programs": programs, "waves": None if found is None else found.waves(programs)}


def _on_device(found: Occupancy) -> dict[str, Any]:
    return {
        "name": found.device,
        "multiprocessors": found.multiprocessors,
        "resident_programs": found.resident,
        **asdict(found.resources),
    }


_WAYS = {POOLED: "pooled by the host", BUS: "read over the bus by the kernel"}


def _placed(program: Program, budget: int | None) -> Placement:
    """Where tables lie for as many threads as the settings give."""
    return fitting(program, budget, settings().threads or 1, host_bytes())


def _tables(program: Program, budget: int | None) -> dict[str, Any]:
    placed = _placed(program, budget)
    types = Counter(t.dtype for t in program.tables)
    return {
        "device_bytes": placed.device_bytes,
        "host_bytes": placed.host_bytes,
        "host_tables_are": "none" if not placed.host else _WAYS[placed.way],
        "dtypes": dict(types.most_common()),
        "places": [{"table": t.name, "bytes": t.bytes, "on_device": t.on_device, "why": t.why} for t in placed.tables],
    }


def _rest(program: Program) -> dict[str, Any]:
    """Whether batches may be padded to a few sizes, and what of the dense rest runs on the host."""
    on_device, _ = split(program)
    on_host = reasons_for_host(on_device)
    proof = row_independent(columns_only(program) if on_host else on_device)
    if isinstance(proof, Proven):
        padded = not proof.refusing
        why = "every row of the outputs is proven to depend on its own row of the inputs alone"
        if not padded:
            why = f"{', '.join(proof.refusing)} may refuse the rows that padding adds"
    else:
        padded, why = False, f"{proof.reason} ({proof.where})"
    uncaptured = () if on_host else synchronises(on_device)
    return {
        "captured": not uncaptured,
        "uncaptured": list(uncaptured),
        "padded": padded,
        "padding": why,
        "dense_on_host": list(on_host),
        "dense_lines": len(program.dense),
    }
