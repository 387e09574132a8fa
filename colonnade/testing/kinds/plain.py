"""Columns written in TensorFlow's own ops, by kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from colonnade.testing.kinds.cell import ANY_INTEGERS, Gap, Given, floats, ids, words

Build = Callable[[Any, dict[str, Any], str], Any]


@dataclass(frozen=True)
class Plain:
    """make(tf, inputs, name) -> the output."""

    inputs: tuple[Given, ...]
    make: Build
    gap: Gap | None = None


def _table(tf: Any, name: str, rows: int = 10) -> Any:
    return tf.compat.v1.get_variable(f"{name}/table", (rows, 3), tf.float32)


def _row(tf: Any, name: str, found: Any, rows: int = 10) -> Any:
    return tf.nn.embedding_lookup(_table(tf, name, rows), tf.reshape(found, [-1]))


def _bucketized(tf: Any, x: dict[str, Any], name: str) -> Any:
    return _row(tf, name, tf.raw_ops.Bucketize(input=x["x"], boundaries=[0.0, 1.0, 10.0]))


def _hashed(tf: Any, x: dict[str, Any], name: str) -> Any:
    return _row(tf, name, tf.strings.to_hash_bucket_fast(x["x"], 10))


def _hashed_integers(tf: Any, x: dict[str, Any], name: str) -> Any:
    return _row(tf, name, tf.strings.to_hash_bucket_fast(tf.strings.as_string(x["x"]), 10))


def _identity(tf: Any, x: dict[str, Any], name: str) -> Any:
    return _row(tf, name, x["x"])


def _identity_default(tf: Any, x: dict[str, Any], name: str) -> Any:
    inside = tf.logical_and(x["x"] >= 0, x["x"] < 10)
    return _row(tf, name, tf.where(inside, x["x"], tf.fill(tf.shape(x["x"]), tf.constant(3, tf.int64))))


def _vocabulary(tf: Any, x: dict[str, Any], name: str) -> Any:
    keys = tf.lookup.KeyValueTensorInitializer(["a", "yy"], tf.constant([0, 1], tf.int64))
    return _row(tf, name, tf.lookup.StaticHashTable(keys, 2).lookup(x["x"]))


def _vocabulary_buckets(tf: Any, x: dict[str, Any], name: str) -> Any:
    keys = tf.lookup.KeyValueTensorInitializer(["a", "yy"], tf.constant([0, 1], tf.int64))
    return _row(tf, name, tf.lookup.StaticVocabularyTable(keys, 8).lookup(x["x"]))


def _one_hot(tf: Any, x: dict[str, Any], name: str) -> Any:
    buckets = tf.raw_ops.Bucketize(input=x["x"], boundaries=[0.0, 1.0, 10.0])
    return tf.reshape(tf.one_hot(buckets, 4), [-1, 4])


def _sparse(tf: Any, dense: Any) -> Any:
    places = tf.where(tf.not_equal(dense, -1))
    return tf.SparseTensor(places, tf.gather_nd(dense, places), tf.shape(dense, out_type=tf.int64))


def _pooled(pooling: str, **options: Any) -> Build:
    def make(tf: Any, x: dict[str, Any], name: str) -> Any:
        return tf.nn.safe_embedding_lookup_sparse(_table(tf, name), _sparse(tf, x["x"]), combiner=pooling, **options)

    return make


def _lists(tf: Any, x: dict[str, Any], name: str) -> Any:
    split = tf.compat.v1.strings.split(x["x"], sep=";", result_type="SparseTensor")
    hashed = tf.SparseTensor(split.indices, tf.strings.to_hash_bucket_fast(split.values, 10), split.dense_shape)
    return tf.nn.safe_embedding_lookup_sparse(_table(tf, name), hashed, combiner="mean")


def _padded_words(tf: Any, x: dict[str, Any], name: str) -> Any:
    words = tf.strings.split(tf.reshape(x["x"], [-1])).to_tensor()
    rows = tf.nn.embedding_lookup(_table(tf, name), tf.strings.to_hash_bucket_fast(words, 10))
    return tf.reduce_sum(tf.where(tf.expand_dims(tf.not_equal(words, ""), 2), rows, tf.zeros_like(rows)), 1)


def _shared(tf: Any, x: dict[str, Any], name: str) -> Any:
    table = _table(tf, name)
    return tf.concat([tf.nn.embedding_lookup(table, tf.reshape(x[key], [-1])) for key in "xy"], 1)


def _partitioned(tf: Any, x: dict[str, Any], name: str) -> Any:
    parts = [_table(tf, f"{name}_{k}", 5) for k in range(2)]
    return tf.compat.v1.nn.embedding_lookup(parts, tf.reshape(x["x"], [-1]), partition_strategy="div")


def _max_norm(tf: Any, x: dict[str, Any], name: str) -> Any:
    return tf.nn.embedding_lookup(_table(tf, name), tf.reshape(x["x"], [-1]), max_norm=0.5)


def _of_sparse(tf: Any, x: dict[str, Any], name: str) -> Any:
    return tf.nn.safe_embedding_lookup_sparse(_table(tf, name), x["x"], combiner="mean")


def _ragged_mean(tf: Any, x: dict[str, Any], name: str) -> Any:
    table = _table(tf, name)
    return tf.reduce_mean(tf.ragged.map_flat_values(lambda ids: tf.nn.embedding_lookup(table, ids), x["x"]), axis=1)


def _inner_first(tf: Any, x: dict[str, Any], name: str) -> Any:
    table = _table(tf, name)
    rows = tf.ragged.map_flat_values(lambda ids: tf.nn.embedding_lookup(table, ids), x["x"])
    return tf.reduce_sum(tf.reduce_sum(rows, axis=2), axis=1)


def _both_levels(tf: Any, x: dict[str, Any], name: str) -> Any:
    return _ragged_mean(tf, {"x": x["x"].merge_dims(1, 2)}, name)


def _sequence(tf: Any, x: dict[str, Any], name: str) -> Any:
    return tf.nn.embedding_lookup(_table(tf, name), x["x"])


def _padded_buckets(tf: Any, x: dict[str, Any], name: str) -> Any:
    made = x["x"].with_values(tf.raw_ops.Bucketize(input=x["x"].values, boundaries=[0.0, 1.0, 10.0]))
    return tf.nn.embedding_lookup(_table(tf, name), made.to_tensor(2))


def _padded_norms(tf: Any, x: dict[str, Any], name: str) -> Any:
    table = _table(tf, name)
    return x["x"].with_values(tf.nn.embedding_lookup(table, x["x"].values, max_norm=0.5)).to_tensor()


def _words_times_mask(tf: Any, x: dict[str, Any], name: str) -> Any:
    said = tf.strings.split(tf.reshape(x["x"], [-1])).to_tensor()
    keep = tf.cast(tf.not_equal(said, ""), tf.float32)[..., tf.newaxis]
    rows = tf.nn.embedding_lookup(_table(tf, name), tf.strings.to_hash_bucket_fast(said, 10))
    return tf.math.divide_no_nan(tf.reduce_sum(rows * keep, 1), tf.reduce_sum(keep, 1))


def _words_in_places(tf: Any, x: dict[str, Any], name: str) -> Any:
    said = tf.strings.split(tf.reshape(x["x"], [-1])).to_tensor(shape=(None, 3))
    return tf.nn.embedding_lookup(_table(tf, name), tf.strings.to_hash_bucket_fast(said, 10))


def _ragged_words(tf: Any, x: dict[str, Any], name: str) -> Any:
    said = tf.strings.split(tf.reshape(x["x"], [-1]), ",")
    return _ragged_mean(tf, {"x": said.with_values(tf.strings.to_hash_bucket_fast(said.values, 10))}, name)


def _cut(tf: Any, x: dict[str, Any], name: str) -> Any:
    return tf.nn.embedding_lookup(_table(tf, name), x["x"].to_tensor(shape=(None, 2)))


def _both_levels_padded(tf: Any, x: dict[str, Any], name: str) -> Any:
    return tf.nn.embedding_lookup(_table(tf, name), x["x"].merge_dims(1, 2).to_tensor())


def _remainder_in_parts(tf: Any, x: dict[str, Any], name: str) -> Any:
    parts = [_table(tf, f"{name}_{k}", 5) for k in range(2)]
    return tf.compat.v1.nn.embedding_lookup(parts, tf.reshape(x["x"], [-1]) % 10, partition_strategy="div")


def _marks(tf: Any, x: dict[str, Any], name: str) -> Any:
    return tf.one_hot(tf.strings.to_hash_bucket_fast(x["x"], 10), 10)


KNOWN = ids(1, pool=range(10))
SEVERAL = ids(3)
PLAIN: dict[str, Plain] = {
    "numeric": Plain((floats(2),), lambda tf, x, name: tf.identity(x["x"])),
    "bucketized": Plain((floats(),), _bucketized),
    "bucketized, one-hot": Plain((floats(),), _one_hot),
    "hash of strings": Plain((words(),), _hashed),
    "hash of integers": Plain((ids(),), _hashed_integers),
    "hash with a salt": Plain(
        (words(),),
        lambda tf, x, name: _row(tf, name, tf.strings.to_hash_bucket_strong(x["x"], 10, [3, 5])),
    ),
    "places of one matrix": Plain(
        (SEVERAL,),
        lambda tf, x, name: _row(tf, name, tf.strings.to_hash_bucket_fast(tf.strings.as_string(x["x"][:, 1]), 10)),
    ),
    "indicator of words": Plain((words(3),), lambda tf, x, name: tf.reduce_max(_marks(tf, x, name), 1)),
    "indicator of many ids": Plain(
        (words(2),),
        lambda tf, x, name: tf.reduce_sum(tf.one_hot(tf.strings.to_hash_bucket_fast(x["x"], 3000), 3000), 1),
    ),
    "one-hot of each value": Plain((words(3),), _marks),
    "remainder of signed ids": Plain(
        (ids(3, pool=ANY_INTEGERS),),
        lambda tf, x, name: tf.reduce_mean(tf.nn.embedding_lookup(_table(tf, name), x["x"] % 10), 1),
    ),
    "remainder of signed ids, in parts": Plain((ids(pool=ANY_INTEGERS),), _remainder_in_parts),
    "identity": Plain((KNOWN,), _identity),
    "identity with a default": Plain((ids(),), _identity_default),
    "vocabulary list": Plain((Given("x", "string", 1, (b"a", b"yy")),), _vocabulary),
    "vocabulary list with buckets": Plain((words(),), _vocabulary_buckets),
    "shared": Plain((ids(1, "x", range(10)), ids(1, "y", range(10))), _shared),
    "several values, sum": Plain((SEVERAL,), _pooled("sum")),
    "several values, mean": Plain((SEVERAL,), _pooled("mean")),
    "several values, sqrtn": Plain((SEVERAL,), _pooled("sqrtn")),
    "several values, open width": Plain((replace(SEVERAL, form="open"),), _pooled("mean")),
    "split strings": Plain((Given("x", "string", 0, (b"a;b", b"", b";", b"x;x;y")),), _lists),
    "partitioned table": Plain((KNOWN,), _partitioned),
    "max_norm": Plain((KNOWN,), _max_norm),
    "sequence, several values a place": Plain(
        (ids(4, pool=range(10)),),
        lambda tf, x, name: tf.reduce_mean(_sequence(tf, {"x": tf.reshape(x["x"], [-1, 2, 2])}, name), 2),
    ),
    "sequence, not pooled": Plain((ids(3, pool=range(10)),), _sequence),
    "sequence of buckets, ragged": Plain((replace(floats(3), form="ragged"),), _padded_buckets),
    "max_norm, padded": Plain((replace(ids(3, pool=range(10)), form="ragged"),), _padded_norms),
    "words split, padded and masked": Plain((words(),), _padded_words),
    "words split, masked by a product": Plain((words(),), _words_times_mask),
    "words split, places of a width": Plain((words(),), _words_in_places),
    "words split, ragged mean": Plain((words(),), _ragged_words),
    "ragged inputs, places of a width": Plain((replace(ids(3, pool=range(10)), form="ragged"),), _cut),
    "ragged inputs of two levels, padded at once": Plain(
        (replace(ids(3, pool=range(10)), form="nested"),), _both_levels_padded
    ),
    "sparse inputs": Plain((replace(SEVERAL, form="sparse"),), _of_sparse),
    "ragged inputs of two levels": Plain((replace(ids(3, pool=range(10)), form="nested"),), _inner_first),
    "ragged inputs of two levels, at once": Plain((replace(ids(3, pool=range(10)), form="nested"),), _both_levels),
    "ragged inputs, mean": Plain((replace(ids(3, pool=range(10)), form="ragged"),), _ragged_mean),
    "ragged inputs": Plain(
        (replace(SEVERAL, form="ragged"),),
        lambda tf, x, name: _of_sparse(tf, {"x": x["x"].to_sparse()}, name),
    ),
}
