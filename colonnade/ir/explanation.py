"""What a compilation did, node by node, in a form that is stored beside the program and read by `explain`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from colonnade.errors import render


@dataclass(frozen=True)
class Decision:
    """What one pass did or declined at one node of the source, and the proof or the reason."""

    pass_name: str
    source: str
    op: str
    applied: bool
    reason: str


@dataclass(frozen=True)
class PassCount:
    """Nodes before and after a pass, and its time. Units: seconds."""

    pass_name: str
    before: int
    after: int
    seconds: float


@dataclass(frozen=True)
class ColumnOrigin:
    """Where a column was read from: the source node of its lookup, how many source nodes it stands for, and the
    decisions taken among them (indices into `Explanation.decisions`).
    """

    column: str
    source: str
    nodes: int
    decisions: tuple[int, ...]


@dataclass(frozen=True)
class StoredTable:
    """A float32 table that is stored in another type, and the error that this makes.

    largest: absolute error of a value.   rms: root of the mean squared error. Units: bytes.
    """

    table: str
    dtype: str
    bytes_float32: int
    bytes: int
    largest: float
    rms: float


@dataclass(frozen=True)
class Notice:
    """A warning of one kind, about what is legal and surely unwanted: the fields are those of an error."""

    kind: str
    message: str
    where: str = ""
    got: str = ""
    want: str = ""
    help: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {render(self)}"


@dataclass(frozen=True)
class Explanation:
    """model, signature: what was compiled.   source_nodes: nodes of the source that the outputs need.
    ops_before, ops_after: graph ops by name, as imported and after the passes.   columns: origins by column.
    embedding_before, embedding_after: operators of the source that the columns stand for, and what is left of them: ops
    of columns, a lookup each, and calls of the dense rest.
    seconds: time by part (import, passes, assemble, tables, backend).   tables: those stored in another type.
    warnings: what is legal and surely unwanted.
    """

    model: str = ""
    signature: str = ""
    source_nodes: int = 0
    embedding_before: int = 0
    embedding_after: int = 0
    ops_before: Mapping[str, int] = field(default_factory=dict)
    ops_after: Mapping[str, int] = field(default_factory=dict)
    passes: tuple[PassCount, ...] = ()
    decisions: tuple[Decision, ...] = ()
    columns: tuple[ColumnOrigin, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    tables: tuple[StoredTable, ...] = ()
    warnings: tuple[Notice, ...] = ()

    def to_json(self) -> str:
        """As JSON text; reasons that repeat are stored once."""
        reasons: dict[str, int] = {}
        rows = [
            [d.pass_name, d.source, d.op, d.applied, reasons.setdefault(d.reason, len(reasons))] for d in self.decisions
        ]
        data = asdict(self) | {"decisions": rows, "reasons": list(reasons)}
        for key in ("tables", "warnings"):
            if not data[key]:
                del data[key]
        return json.dumps(data, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Explanation:
        """What `to_json` wrote. Errors: ValueError, KeyError or TypeError where the text is something else."""
        data = json.loads(text)
        reasons = data.pop("reasons")
        decisions = tuple(Decision(p, s, o, bool(a), reasons[r]) for p, s, o, a, r in data.pop("decisions"))
        passes = tuple(PassCount(**p) for p in data.pop("passes"))
        columns = tuple(ColumnOrigin(**(c | {"decisions": tuple(c["decisions"])})) for c in data.pop("columns"))
        tables = tuple(StoredTable(**t) for t in data.pop("tables", ()))
        warnings = tuple(Notice(**w) for w in data.pop("warnings", ()))
        return Explanation(
            **data, decisions=decisions, passes=passes, columns=columns, tables=tables, warnings=warnings
        )
