"""The table: every cell there is, and the page that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from colonnade.ir.table_types import TYPES
from colonnade.testing.kinds import columns, keras_layers, plain
from colonnade.testing.kinds.cell import NEVER, OK, Cell, Gap

INPUT_LAYER, DENSE_FEATURES, KERAS, PLAIN = "input_layer", "DenseFeatures", "Keras", "tf.nn"
STYLES = (INPUT_LAYER, DENSE_FEATURES, KERAS, PLAIN)
BACKENDS = ("reference", "cpu", "gpu")
ABSENT = Gap(NEVER, "the style has no such column")

ONLY_SOME: dict[tuple[str, str], dict[str, Gap]] = {}
"""(kind, style) -> why single backends lack it."""


def cells() -> tuple[Cell, ...]:
    """Every cell that can be built, kinds in order."""
    return tuple(cell for kind in kinds() for style in STYLES if (cell := cell_of(kind, style)) is not None)


def kinds() -> tuple[str, ...]:
    """The rows, in order."""
    return tuple(dict.fromkeys((*columns.COLUMNS, *plain.PLAIN, *keras_layers.LAYERS)))


def cell_of(kind: str, style: str) -> Cell | None:
    """A cell; None where the style has no such column."""
    some = tuple(ONLY_SOME.get((kind, style), {}).items())
    if style in (INPUT_LAYER, DENSE_FEATURES) and kind in columns.COLUMNS:
        of = columns.COLUMNS[kind]
        if of.sequence and style == INPUT_LAYER:
            return None
        return Cell(kind, style, of.inputs, _of_columns(of, style), of.gap, some)
    if style == KERAS and kind in keras_layers.LAYERS:
        layers = keras_layers.LAYERS[kind]
        return Cell(kind, style, layers.inputs, lambda tf, x, name: layers.make(tf.keras, x), layers.gap, some)
    if style == PLAIN and kind in plain.PLAIN:
        ops = plain.PLAIN[kind]
        return Cell(kind, style, ops.inputs, ops.make, ops.gap, some)
    return None


def _of_columns(of: columns.FeatureColumn, style: str) -> Callable[[Any, dict[str, Any], str], Any]:
    layer = columns.input_layer if style == INPUT_LAYER else columns.dense_features
    return lambda tf, x, name: layer(tf, of, x, name)


def gap_of(kind: str, style: str, backend: str) -> Gap | None:
    """Why a kind does not work in a style on a backend; None where it does."""
    cell = cell_of(kind, style)
    return ABSENT if cell is None else cell.of(backend)


def rows() -> list[dict[str, str]]:
    """Every kind, style and backend with what stands there, for `--json`."""
    return [
        {"kind": k, "style": s, "backend": b, "status": g.status if g else OK, "reason": g.reason if g else ""}
        for k in kinds()
        for s in STYLES
        for b in BACKENDS
        for g in (gap_of(k, s, b),)
    ]


def shown(kind: str, style: str) -> str:
    """What stands in one place of the table: one word where all backends agree."""
    found = {b: g.status if (g := gap_of(kind, style, b)) else OK for b in BACKENDS}
    if len(set(found.values())) == 1:
        status = next(iter(found.values()))
        return "" if gap_of(kind, style, BACKENDS[0]) is ABSENT else status
    return ", ".join(f"{b} {status}" for b, status in found.items())


def reasons() -> Iterator[tuple[str, str]]:
    """Kind and reason of everything that is not `ok`, but for what a style has not."""
    seen = set()
    for kind in kinds():
        for style in STYLES:
            for backend in BACKENDS:
                gap = gap_of(kind, style, backend)
                if gap is not None and gap is not ABSENT and (kind, gap.reason) not in seen:
                    seen.add((kind, gap.reason))
                    yield kind, gap.reason


PAGE = """# Kinds of columns

What is understood, by the style in which a model is written. `ok`: on every backend (reference, cpu, gpu), which a
test builds and compares with TensorFlow. `notyet`: refused when the model is compiled, with an error that says so;
`notimpl`: possible, and nobody asked yet. Nothing: the style has no such column, or a test does not build it.
`input_layer` is `tf.compat.v1.feature_column.input_layer`; `DenseFeatures` makes the same columns through TensorFlow's
newer classes, `SequenceFeatures` among them; `Keras` is Keras 3; `tf.nn` is a graph of plain ops.

Made by `.venv/bin/python -m colonnade.testing.kinds`; `colonnade ops --kinds` prints the same.

"""


def page() -> str:
    """The table in Markdown."""
    lines = [_line(("kind", *STYLES)), _line(("---",) * (len(STYLES) + 1))]
    lines += [_line((kind, *(shown(kind, style) for style in STYLES))) for kind in kinds()]
    missing = [f"- {kind}: {reason}." for kind, reason in reasons()]
    types = ", ".join(TYPES[:-1]) + f" and {TYPES[-1]}"
    stored = f"On every backend, tables are stored as {types} (`--table-dtype`)."
    return PAGE + "\n".join([*lines, "", *missing, *([""] if missing else []), stored]) + "\n"


def _line(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"
