"""Which ids of a batch lie outside their tables: computed again on the host, after the kernel has counted some."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from colonnade.backends.reference.backend import fields_of_batch
from colonnade.core.batch import Layout, Packed
from colonnade.errors import ConsistencyError, IdRangeError, listed
from colonnade.ir.column import Column, fields_read
from colonnade.ir.evaluate import elements_of
from colonnade.ir.program import Program


def outside(columns: Sequence[Column], program: Program, layout: Layout, packed: Packed) -> IdRangeError:
    """The error that names every column with an id outside its table, and the first such id.

    Errors: ConsistencyError where the host finds none, which the kernel has counted.
    """
    fields = fields_of_batch(packed, layout)
    bad = []
    for column in columns:
        if column.table is None or column.ids_proven:
            continue
        names = fields_read(column)
        offsets = layout.offsets_of(names[0])
        lengths = None if offsets is None else torch.from_numpy(np.diff(packed.offsets[offsets]))
        elements = elements_of(column, {n: fields[n] for n in names}, packed.rows, lengths)
        ids, bound = elements.ids.long(), program.table(column.table).rows
        at = ((ids < 0) | (ids >= bound)).nonzero().reshape(-1).tolist()
        if at:
            bad.append((column, int(elements.rows[at[0]]), int(ids[at[0]]), bound))
    if not bad:
        read = [c.name for c in columns if c.table is not None and not c.ids_proven]
        raise ConsistencyError(
            "the device counted ids outside their tables, and the host finds none in the same request",
            where=listed([f"column {name!r}" for name in read]),
            got=f"{packed.rows} rows",
            help="the request was not answered. Where its arrays were changed during the call, that is why; otherwise "
            "keep it and report this. The target 'cpu' can answer it",
        )
    return IdRangeError(
        "ids outside their tables",
        where=listed([f"column {c.name!r}" + (f" <- {c.source}" if c.source else "") for c, *_ in bad]),
        got=listed([f"id {value} in batch row {row}" for _, row, value, _ in bad]),
        want=listed([f"0 <= id < {bound} (table {c.table!r})" for c, _, _, bound in bad]),
        help="correct the feed, or compile with the id policy 'zero'",
    )
