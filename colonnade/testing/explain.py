"""What a compilation did, as plain data: for `explain`, the summary of `compile`, and reports."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from colonnade.backends.tape.lower import skips
from colonnade.backends.tape.part import Skip
from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Expr, Field, fields_of, walk
from colonnade.errors import OptionError, listed
from colonnade.ir.column import Column, Slot
from colonnade.ir.explanation import Decision, Explanation, StoredTable
from colonnade.ir.program import PLACE, Program, Weights
from colonnade.ir.text import print_expr
from colonnade.ops.op import torch_dtype

_OWN_SIZE = re.compile(r"\bv\d+(_\d+)*\b")


def structure(column: Column) -> str:
    """The column's form without its data: columns of one structure share code.

    `mod(hash_bytes(string)) | mean` stands for every column that hashes a string and averages rows.
    """
    parts = [_shape(column.ids)]
    parts += [f"where {_shape(f)}" for f in column.filters]
    if column.weights is not None:
        parts.append(f"weight {_shape(column.weights)}")
    parts.append("value" if column.table is None else column.pooling)
    if column.default_row is not None:
        parts.append("default row")
    return " | ".join(parts)


def _shape(expr: Expr) -> str:
    if isinstance(expr, Field):
        return "x"
    assert isinstance(expr, Apply)
    kept = expr.op.structure[1:]
    attributes = f"[{', '.join(map(str, kept))}]" if kept else ""
    return f"{expr.op.name}{attributes}({', '.join(map(_shape, expr.args))})"


def summary(program: Program, explanation: Explanation) -> dict[str, Any]:
    """The whole compilation in numbers."""
    before, after = sum(explanation.ops_before.values()), sum(explanation.ops_after.values())
    structures = Counter(structure(c) for c in program.columns)
    guards = _last_guard_decisions(explanation)
    return {
        "model": explanation.model,
        "signature": explanation.signature,
        "source_nodes": explanation.source_nodes,
        "nodes_before": before,
        "nodes_after": after,
        "share_removed": _share(before, after),
        "embedding_before": explanation.embedding_before,
        "embedding_after": explanation.embedding_after,
        "embedding_share_removed": _share(explanation.embedding_before, explanation.embedding_after),
        "num_columns": len(program.columns),
        "kinds": [{"kind": name, "columns": n} for name, n in Counter(map(kind_of, program.columns)).most_common()],
        "structures": [{"structure": name, "columns": count} for name, count in structures.most_common()],
        "num_tables": len(program.tables),
        "table_bytes": sum(t.bytes for t in program.tables),
        "table_types": _table_types(program),
        "stored_columns": stored_columns(program, explanation),
        "guards_removed": sum(d.applied for d in guards),
        "guards_kept": sum(not d.applied for d in guards),
        "dense_lines": len(program.dense),
        "param_bytes": sum(math.prod(shape) * torch_dtype(dtype).itemsize for _, dtype, shape in program.params),
        "warnings": [vars(w) for w in explanation.warnings],
        "seconds": dict(explanation.seconds),
    }


def _share(before: int, after: int) -> float:
    return 1 - after / before if before else 0.0


def kind_of(column: Column) -> str:
    """The kind of feature that a column is, in a user's words: by its ops, whatever made them.

    `hash of tokens, mean` hashes the parts of split strings; `indicator of buckets` counts bucketized numbers.
    """
    if column.table is None:
        return "numeric"
    ops = {x.op.name for x in walk(column.ids) if isinstance(x, Apply)}
    kind = next((name for op, name in _KINDS if op in ops), "ids")
    if "split" in ops:
        kind += " of tokens"
    if column.table.startswith("identity["):
        return f"indicator of {kind}"
    weighted = ", weighted" if column.weights is not None else ""
    return f"{kind}{weighted}, {column.pooling}"


_KINDS = (
    ("join_hash", "cross"),
    ("vocabulary", "vocabulary"),
    ("hash_bytes", "hash"),
    ("hash_decimal", "hash of integers"),
    ("bucketize", "buckets"),
)
"""Op -> kind; the first that occurs."""


def _table_types(program: Program) -> list[dict[str, Any]]:
    counts = Counter(t.dtype for t in program.tables)
    sizes = Counter[str]()
    for table in program.tables:
        sizes[table.dtype] += table.bytes
    return [{"dtype": dtype, "tables": count, "bytes": sizes[dtype]} for dtype, count in counts.most_common()]


def stored_columns(program: Program, explanation: Explanation) -> list[dict[str, Any]]:
    """The columns whose table is stored in another type than the model, the worst error of its rows first."""
    stored = {t.table: t for t in explanation.tables}
    rows = [_stored_column(c.name, stored[c.table]) for c in program.columns if c.table in stored]
    return sorted(rows, key=lambda row: -row["largest_error"])


def _stored_column(column: str, table: StoredTable) -> dict[str, Any]:
    errors = {"largest_error": table.largest, "rms_error": table.rms}
    return {"column": column, "table": table.table, "dtype": table.dtype} | errors


def _last_guard_decisions(explanation: Explanation) -> list[Decision]:
    """What became of each guard: a rewrite, or the last reason for declining."""
    found: dict[str, Decision] = {}
    for decision in explanation.decisions:
        if decision.pass_name == "drop-guards" and not (decision.source in found and found[decision.source].applied):
            found[decision.source] = decision
    return list(found.values())


def skipped_zeros(program: Program, weights: Weights, threads: int = 1) -> list[dict[str, Any]]:
    """The products of the dense rest, on a CPU, that do not multiply the zeros of marks: decision 0035.

    ranges: begins and ends of the operand's elements that are looked at before they are multiplied.   columns: those
    that write them, where the operand is a buffer, filled up or not.
    """
    sources = {line.output: line.source for line in program.dense}
    filled = {line.output: line.args[1].name for line in program.dense if line.op == PLACE}
    return [
        {
            "product": skip.product,
            "source": sources.get(skip.product, ""),
            "of": skip.of,
            "elements": skip.width,
            "ranges": [list(each) for each in skip.ranges],
            "skipped": sum(end - begin for begin, end in skip.ranges),
            "columns": [c.name for c in program.columns if any(_within(s, skip, filled) for s in c.slots)],
        }
        for skip in skips(program, weights.params, threads, weights.tables)
    ]


def _within(slot: Slot, skip: Skip, filled: Mapping[str, str]) -> bool:
    """filled: results of what is copied into a buffer -> that, or what was copied into it before."""
    of = skip.of
    while of in filled:
        of = filled[of]
    return slot.output == of and any(b <= slot.offset and slot.offset + slot.width <= e for b, e in skip.ranges)


def details(program: Program, explanation: Explanation, weights: Weights) -> dict[str, Any]:
    """`summary`, and the lists behind it."""
    guards = _last_guard_decisions(explanation)
    return summary(program, explanation) | {
        "ops": _ops(explanation),
        "passes": [vars(p) for p in explanation.passes],
        "rewrites": _grouped(d for d in explanation.decisions if d.applied),
        "declined": _grouped(d for d in explanation.decisions if not d.applied),
        "guards_removed_by_proof": _reasons(d for d in guards if d.applied),
        "guards_kept_by_reason": _reasons(d for d in guards if not d.applied),
        "tables": [
            {"name": t.name, "rows": t.rows, "embedding_dim": t.embedding_dim, "dtype": t.dtype, "bytes": t.bytes}
            for t in sorted(program.tables, key=lambda t: -t.bytes)
        ],
        "decodes": [
            {"key": d.name, "features": len(d.features), "read": sum(made is not None for _, made in d.features)}
            for d in program.decodes
        ],
        "skipped_zeros": skipped_zeros(program, weights),
        "dense": [{"op": line.op, "output": line.output, "source": line.source} for line in program.dense],
        "outputs": [{"name": o.name, "dtype": o.dtype, "shape": [str(d) for d in o.shape]} for o in program.outputs],
    }


def _ops(explanation: Explanation) -> list[dict[str, Any]]:
    names = sorted(explanation.ops_before.keys() | explanation.ops_after.keys())
    rows = [(name, explanation.ops_before.get(name, 0), explanation.ops_after.get(name, 0)) for name in names]
    return [{"op": n, "before": b, "after": a} for n, b, a in sorted(rows, key=lambda r: -r[1])]


def _general(reason: str) -> str:
    """The reason without the numbers of one node's own sizes, so that equal proofs count together."""
    return _OWN_SIZE.sub("n", reason)


def _grouped(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    counts = Counter((d.pass_name, d.op, _general(d.reason)) for d in decisions)
    return [{"pass": p, "op": o, "reason": r, "count": n} for (p, o, r), n in counts.most_common()]


def _reasons(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    return [{"reason": r, "count": n} for r, n in Counter(_general(d.reason) for d in decisions).most_common()]


def explain_column(program: Program, explanation: Explanation, name: str) -> dict[str, Any]:
    """One column, from the source nodes to its slots, with every decision among them.

    Errors: OptionError that names columns of similar names.
    """
    column = next((c for c in program.columns if c.name == name), None)
    if column is None:
        known = [c.name for c in program.columns]
        near = difflib.get_close_matches(name, known, 5, 0.4) or [k for k in known if name.lower() in k.lower()][:5]
        raise OptionError(
            "no such column", got=repr(name), want=listed(near or known, 8), help="names are those of the input fields"
        )
    origin = next((o for o in explanation.columns if o.column == name), None)
    table = program.table(column.table) if column.table is not None else None
    decisions = [explanation.decisions[i] for i in origin.decisions] if origin is not None else []
    return {
        "name": column.name,
        "source": column.source,
        "source_nodes": origin.nodes if origin is not None else 0,
        "fields": [
            {"name": f, "dtype": program.input(f).dtype, "shape": [str(d) for d in program.input(f).shape]}
            for f in dict.fromkeys(fields_of(column.ids))
        ],
        "structure": structure(column),
        "ids": print_expr(column.ids),
        "filters": [print_expr(f) for f in column.filters],
        "weights": None if column.weights is None else print_expr(column.weights),
        "constants": _constants(column.ids),
        "ids_proven": column.ids_proven,
        "pooling": column.pooling,
        "default_row": column.default_row,
        "table": None
        if table is None
        else {
            "name": table.name,
            "rows": table.rows,
            "embedding_dim": table.embedding_dim,
            "dtype": table.dtype,
            "bytes": table.bytes,
        },
        "stored": next((row for row in stored_columns(program, explanation) if row["column"] == name), None),
        "slots": [{"buffer": s.output, "offset": s.offset, "width": s.width} for s in column.slots],
        "decisions": [vars(d) for d in decisions],
    }


def _constants(expr: Expr) -> list[dict[str, Any]]:
    if not isinstance(expr, Apply):
        return []
    found = [
        {"op": expr.op.name, "name": key, "length": value.array.size, "first": value.array.reshape(-1)[:6].tolist()}
        for key, value in expr.op.attributes()
        if isinstance(value, Const)
    ]
    return found + [c for a in expr.args for c in _constants(a)]
