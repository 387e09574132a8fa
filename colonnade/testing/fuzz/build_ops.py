"""The cases of a random model that are written in plain ops: ids, a lookup of them, and what makes one vector of it.

Legend: B batch, T ids a row, D embedding_dim.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from colonnade.testing.fuzz.cases import Case, Input, Model, placed, taken
from colonnade.testing.fuzz.strings import prepared

Tables = dict[int, Any]


def whole(name: str) -> str:
    """The name of strings beside that of what they are split into."""
    return f"{name}, not split"


def vector(
    tf: Any, model: Model, case: Case, features: Mapping[str, Any], tables: Tables, outputs: dict[str, Any]
) -> Any:
    """The vectors of a case, `[B, D]`: B is 1 where its input has one row.

    tables: what other cases have made.   outputs: what is an output itself is added.
    """
    item = placed(next(i for i in model.inputs if i.name == case.input), case)
    if case.form == "padded":
        return _padded(tf, case, features[whole(case.input)], item.separator, _table(tf, model, case, tables))
    given = taken(case, features[case.input])
    if case.prep:
        given = prepared(tf, given, case.prep, features[case.others[0]] if case.others else None)
    if case.label:
        outputs[f"label_{case.number}"] = LABELS[case.label](tf, case, given)
    if case.kind == "numeric":
        return tf.reshape(tf.cast(given, tf.float32), [-1, max(1, item.width)])
    if case.form in ("bag", "raw"):
        weights = features[case.weights] if case.weights else None
        return _pooled(tf, case, _ids_of(tf, case, item, given), weights, _table(tf, model, case, tables))
    if case.form == "nested":
        return _nested(tf, case, given, _table(tf, model, case, tables))
    if isinstance(given, tf.RaggedTensor):
        return _sequence(tf, case, _of_ragged(tf, case, given, _table(tf, model, case, tables)), given, outputs)
    if case.form == "values":
        return _of_values(tf, case, given, _table(tf, model, case, tables), item.width)
    ids = _ids(tf, case, given)
    if case.form == "one_hot":
        hot = tf.one_hot(ids, case.rows)
        return hot if not item.width else reduced(tf, case, hot, given, item.width)
    table = _table(tf, model, case, tables)
    if case.form == "row":
        return _rows(tf, case, table, ids if not item.width else _flat(tf, case, ids))
    rows = _rows(tf, case, table, ids)
    if case.form == "sequence":
        return _sequence(tf, case, rows, given, outputs)
    return reduced(tf, case, rows, given, item.width if item.form == "dense" else None)


def _sequence(tf: Any, case: Case, rows_BTD: Any, given: Any, outputs: dict[str, Any]) -> Any:
    """One vector of the rows, which are an output."""
    outputs[f"sequence_{case.number}"] = rows_BTD
    return reduced(tf, case, rows_BTD, given, None)


def _padded(tf: Any, case: Case, text: Any, separator: str, table: Any) -> Any:
    """The sum over words, by the separator or by white space, of what is padded and masked."""
    words = (tf.strings.split(text) if case.number % 2 else tf.strings.split(text, separator)).to_tensor()
    rows = _rows(tf, case, table, _ids(tf, case, words))
    return tf.reduce_sum(tf.where(tf.expand_dims(tf.not_equal(words, ""), 2), rows, tf.zeros_like(rows)), 1)


def _nested(tf: Any, case: Case, given: Any, table: Any) -> Any:
    """The sum over rows of rows: over both levels at once, or over the inner ones and then the outer ones."""
    if zlib.crc32(case.input.encode()) % 2:  # an input is read in one of the two ways
        given = given.merge_dims(1, 2)
    rows = tf.ragged.map_flat_values(lambda x: _rows(tf, case, table, _ids(tf, case, x)), given)
    while isinstance(rows, tf.RaggedTensor):
        rows = tf.reduce_sum(rows, axis=rows.ragged_rank)
    return rows


def _of_values(tf: Any, case: Case, given: Any, table: Any, width: int) -> Any:
    """One vector of the rows of several values a place, `[B, T, K]`: first of the values, then of the places."""
    places = next(k for k in (3, 2, 1) if width % k == 0)
    given = tf.reshape(given, [-1, places, width // places])
    rows_BTKD = _rows(tf, case, table, _ids(tf, case, given))
    kept = tf.cast(tf.not_equal(given, tf.zeros([], given.dtype)), tf.float32)
    return tf.reduce_mean(VALUES[case.mode](tf, rows_BTKD, tf.expand_dims(kept, 3)), 1)


VALUES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mean": lambda tf, rows, kept: tf.reduce_mean(rows, 2),
    "sum": lambda tf, rows, kept: tf.reduce_sum(rows, 2),
    "max": lambda tf, rows, kept: tf.reduce_max(rows, -2),
    "masked": lambda tf, rows, kept: tf.math.divide_no_nan(tf.reduce_sum(rows * kept, 2), tf.reduce_sum(kept, 2)),
}
"""What makes one vector of the values of a place."""


def _of_ragged(tf: Any, case: Case, given: Any, table: Any) -> Any:
    """Padded rows of ragged ids: zeros where there is no id, or the row of what ids or values are padded with."""
    if case.number % 3 == 1 or case.max_norm:  # scaled rows are columns where values are padded
        return _rows(tf, case, table, _ids(tf, case, given.to_tensor()))
    if case.number % 3 == 0 or case.kind == "bucketized":  # padded buckets are no ids of a column
        return tf.ragged.map_flat_values(lambda x: _rows(tf, case, table, _ids(tf, case, x)), given).to_tensor()
    return _rows(tf, case, table, tf.ragged.map_flat_values(lambda x: _ids(tf, case, x), given).to_tensor())


def _rows(tf: Any, case: Case, table: Any, ids: Any) -> Any:
    return tf.compat.v1.nn.embedding_lookup(table, ids, **_of_table(case))


def _of_table(case: Case) -> dict[str, Any]:
    """How the parts of a table are joined, and what its rows are scaled to."""
    number = case.number if case.table < 0 else case.table
    return {"partition_strategy": ("div", "mod")[number % 2], "max_norm": case.max_norm or None}


def _flat(tf: Any, case: Case, ids_B1: Any) -> Any:
    """One id a row, in one of the ways in which people take it."""
    ways: tuple[Callable[[], Any], ...] = (
        lambda: tf.reshape(ids_B1, [-1]),
        lambda: tf.squeeze(ids_B1, [1]),
        lambda: ids_B1[:, 0],
    )
    return ways[case.number % len(ways)]()


def _table(tf: Any, model: Model, case: Case, tables: Tables) -> Any:
    number = case.number if case.table < 0 else case.table
    if number not in tables:
        seed = np.random.default_rng([model.seed, model.index, number])
        rows = seed.uniform(-1, 1, (case.rows, case.embedding_dim)).astype(np.float32)
        parts = (
            np.array_split(rows, case.parts) if number % 2 == 0 else [rows[k :: case.parts] for k in range(case.parts)]
        )
        names = [f"table_{number}/part_{k}" for k in range(case.parts)]
        made = [tf.compat.v1.get_variable(n, initializer=p) for n, p in zip(names, parts, strict=True)]
        tables[number] = made if case.parts > 1 else made[0]
    return tables[number]


def _ids_of(tf: Any, case: Case, item: Input, given: Any) -> Any:
    """Sparse or ragged ids: of an input of that form, or of the values of a dense one that are not missing."""
    if isinstance(given, tf.RaggedTensor):
        return tf.ragged.map_flat_values(lambda x: _ids(tf, case, x), given)
    if not isinstance(given, tf.SparseTensor):
        given = tf.reshape(given, [-1, 1]) if not item.width else given
        places = tf.where(tf.not_equal(given, "" if case.dtype == "string" else tf.constant(-1, given.dtype)))
        given = tf.SparseTensor(places, tf.gather_nd(given, places), tf.shape(given, out_type=tf.int64))
    return tf.SparseTensor(given.indices, _ids(tf, case, given.values), given.dense_shape)


def _pooled(tf: Any, case: Case, ids: Any, weights: Any, table: Any) -> Any:
    if case.form == "raw":
        return tf.compat.v1.nn.embedding_lookup_sparse(table, ids, weights, combiner=case.pooling, **_of_table(case))
    if isinstance(ids, tf.RaggedTensor):
        ids, weights = ids.to_sparse(), None if weights is None else weights.to_sparse()
    options = _of_table(case) | ({"default_id": case.default} if case.kind == "identity" else {})
    return tf.compat.v1.nn.safe_embedding_lookup_sparse(table, ids, weights, combiner=case.pooling, **options)


# -- ids ------------------------------------------------------------------------------------------------------------
def _ids(tf: Any, case: Case, x: Any) -> Any:
    return _IDS[case.kind](tf, case, x)


def _hash(tf: Any, case: Case, x: Any) -> Any:
    x = x if case.dtype == "string" else tf.strings.as_string(x)
    if case.salt:
        return tf.strings.to_hash_bucket_strong(x, case.size, [case.salt, 7])
    return tf.strings.to_hash_bucket_fast(x, case.size)


def _identity(tf: Any, case: Case, x: Any) -> Any:
    if case.default is None or case.form == "bag":  # of a bag, it is what rows without ids have
        return x
    inside, default = tf.logical_and(x >= 0, x < case.size), tf.constant(case.default, x.dtype)
    return tf.where(inside, x, default if case.number % 2 else tf.fill(tf.shape(x), default))


def _modulo(tf: Any, case: Case, x: Any) -> Any:
    return tf.math.floormod(x, tf.constant(case.size, x.dtype))


def _bucketized(tf: Any, case: Case, x: Any) -> Any:
    return tf.raw_ops.Bucketize(input=x, boundaries=list(case.boundaries))


def _vocabulary(tf: Any, case: Case, x: Any) -> Any:
    keys = tf.constant(list(case.words), tf.string if case.dtype == "string" else tf.int64)
    initial = tf.lookup.KeyValueTensorInitializer(keys, tf.range(len(case.words), dtype=tf.int64))
    x = x if case.dtype in ("string", "int64") else tf.cast(x, tf.int64)
    if case.oov_buckets:
        return tf.lookup.StaticVocabularyTable(initial, case.oov_buckets).lookup(x)
    return tf.lookup.StaticHashTable(initial, -1 if case.default is None else case.default).lookup(x)


_IDS: dict[str, Callable[[Any, Case, Any], Any]] = {
    "hash": _hash,
    "identity": _identity,
    "modulo": _modulo,
    "bucketized": _bucketized,
    "vocabulary": _vocabulary,
}


def _names(case: Case) -> list[str]:
    """What ids are called: of differing lengths, one of them nothing."""
    return ["", *(f"name {k} é" * (1 + k % 3) for k in range(1, max(case.rows, 1)))]


def _called(tf: Any, case: Case, x: Any) -> Any:
    names = {7: "seven", 0: "", -1: "minus one", 2**31: "large", 2**63 - 1: "most"}
    keys = tf.constant(list(names), tf.int64)
    initial = tf.lookup.KeyValueTensorInitializer(keys, tf.constant(list(names.values())))
    return tf.lookup.StaticHashTable(initial, "none").lookup(tf.cast(x, tf.int64))


LABELS: dict[str, Callable[[Any, Case, Any], Any]] = {
    "gather": lambda tf, case, x: tf.gather(tf.constant(_names(case)), _ids(tf, case, x)),
    "table": _called,
}
"""What ids, or the numbers themselves, are called: strings."""


# -- from [B, T, D] to [B, D] ---------------------------------------------------------------------------------------
def reduced(tf: Any, case: Case, rows: Any, given: Any, width: int | None) -> Any:
    """One vector of the rows of a lookup, by the mode or the pooling.

    width: how many there are, `None` where a request says it.
    """
    name = case.mode or case.pooling
    if name == "flat":
        return tf.reshape(rows, [-1, (width or 1) * rows.shape[-1]])
    return _REDUCE[name](tf, rows, given)


def _masked(tf: Any, rows: Any, given: Any) -> Any:
    mask = tf.expand_dims(tf.cast(tf.not_equal(given, tf.zeros([], given.dtype)), tf.float32), 2)
    return tf.math.divide_no_nan(tf.reduce_sum(rows * mask, 1), tf.reduce_sum(mask, 1))


def _attention(tf: Any, rows: Any, given: Any) -> Any:
    scores = tf.nn.softmax(tf.reduce_mean(rows, 2))  # of a sum, the rounding would be much of a score
    return tf.squeeze(tf.matmul(tf.expand_dims(scores, 1), rows), 1)


_REDUCE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda tf, rows, given: tf.reduce_sum(rows, 1),
    "mean": lambda tf, rows, given: tf.reduce_mean(rows, axis=1),
    "max": lambda tf, rows, given: tf.reduce_max(rows, 1),
    "min": lambda tf, rows, given: tf.reduce_min(rows, axis=[-2]),
    "prod": lambda tf, rows, given: tf.reduce_prod(rows, 1),
    "first": lambda tf, rows, given: rows[:, 0],
    "last": lambda tf, rows, given: rows[:, -1, :],
    "transposed": lambda tf, rows, given: tf.reduce_sum(tf.transpose(rows, [0, 2, 1]), 2),
    "masked": _masked,
    "attention": _attention,
}
