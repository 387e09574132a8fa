"""The cases of a random model that are sequence feature columns.

Legend: B batch, T places, D width of the columns of a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from colonnade.testing.fuzz.build_ops import reduced
from colonnade.testing.fuzz.cases import Case
from colonnade.testing.kinds.columns import sequence_features

Columns = Callable[[Case], list[Any]]


def sequences(
    tf: Any, cases: Sequence[Case], features: dict[str, Any], columns: Columns, outputs: dict[str, Any]
) -> list[Any]:
    """A vector `[B, D]` for each layer; a layer has the columns of one input, or one of those that share a table.

    columns: of a case.   outputs: layers and lengths are added.
    """
    made: list[Any] = []
    for name, group in groupby(sorted(cases, key=_layer), key=_layer):
        together = list(group)
        found = [column for case in together for column in columns(case)]
        for k, layer in enumerate([[c] for c in found] if together[0].form == "shared" else [found]):
            scope = f"layer_{name}_{k}"
            rows_BTD, lengths_B = sequence_features(tf, layer, features, scope, equal=False)
            rows_BTD.set_shape([None, None, sum(c.variable_shape.num_elements() for c in layer)])
            number = together[0].number
            outputs[f"sequence_{number}_{k}"], outputs[f"lengths_{number}_{k}"] = rows_BTD, lengths_B
            made.append(_vector(tf, together[0], rows_BTD, lengths_B))
    return made


def _layer(case: Case) -> str:
    return f"{case.input}_{case.number}" if case.form == "shared" else case.input


def _vector(tf: Any, case: Case, rows_BTD: Any, lengths_B: Any) -> Any:
    if case.mode != "counted":
        return reduced(tf, case, rows_BTD, None, None)
    mask_BT1 = tf.expand_dims(tf.sequence_mask(lengths_B, tf.shape(rows_BTD)[1], tf.float32), 2)
    return tf.math.divide_no_nan(tf.reduce_sum(rows_BTD * mask_BT1, 1), tf.reduce_sum(mask_BT1, 1))
