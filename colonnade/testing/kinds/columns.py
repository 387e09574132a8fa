"""Feature columns by kind, and the two layers that TensorFlow has for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from colonnade.testing.kinds.cell import INF, NAN, Gap, Given, floats, ids, lists, words
from colonnade.testing.models.examples import encode_example
from colonnade.testing.tensorflow import tensorflow

FILE = Path(__file__).parent / "words.txt"
ROWS = 3


@dataclass(frozen=True)
class FeatureColumn:
    """A kind of feature column.

    make(tf.feature_column) -> the columns of a layer.   read: what makes features of the inputs, where these are not
    the features.   older: what `input_layer` takes instead.   partitions: of its table.   sequence: whether it is for
    `SequenceFeatures`.   gap: why it does not work.
    """

    inputs: tuple[Given, ...]
    make: Callable[[Any], list[Any]]
    read: Callable[[Any, dict[str, Any], list[Any]], dict[str, Any]] | None = None
    older: Callable[[Any], list[Any]] | None = None
    partitions: int = 0
    sequence: bool = False
    gap: Gap | None = None


def embedded(c: Any, of: Any, pooling: str = "mean", **options: Any) -> list[Any]:
    """An embedding column."""
    return [c.embedding_column(of, ROWS, pooling, **options)]


def _buckets(c: Any, width: int = 1) -> Any:
    return c.bucketized_column(c.numeric_column("x", (width,)), [0.0, 1.0, 10.0])


def _identity(c: Any, default: int | None = None) -> Any:
    return c.categorical_column_with_identity("x", 10, default)


def _vocabulary(c: Any, **options: Any) -> Any:
    return c.categorical_column_with_vocabulary_list("x", ["a", "yy", "w" * 64], **options)


def _file(c: Any) -> Any:
    return c.categorical_column_with_vocabulary_file("x", str(FILE), 3)


def _hash(c: Any, dtype: str = "string") -> Any:
    return c.categorical_column_with_hash_bucket("x", 40, tensorflow().as_dtype(dtype))


def _two(c: Any) -> list[Any]:
    return [c.categorical_column_with_identity(key, 10) for key in "xy"]


def _older_shared(c: Any) -> list[Any]:
    found: list[Any] = tensorflow().compat.v1.feature_column.shared_embedding_columns(_two(c), ROWS)
    return found


def _split(tf: Any, inputs: dict[str, Any], columns: list[Any]) -> dict[str, Any]:
    return {name: tf.compat.v1.strings.split(x, sep=";", result_type="SparseTensor") for name, x in inputs.items()}


def _parsed(tf: Any, inputs: dict[str, Any], columns: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = tf.io.parse_example(inputs["x"], tf.feature_column.make_parse_example_spec(columns))
    return found


def _example(ids: list[int], weights: list[float]) -> bytes:
    return encode_example({"ids": ("int64", ids), "weights": ("float32", weights)})


EXAMPLES = Given(
    "x", "string", 0, tuple(_example(k, w) for k, w in (([1, 2], [0.5, 2.0]), ([], []), ([9], [-1.0]), ([0], [0.0])))
)

WORDS_OF_EXAMPLES = Given(
    "x",
    "string",
    0,
    tuple(
        encode_example({"words": ("string", k), "weights": ("float32", w)})
        for k, w in (([b"a", b""], [0.5, 2.0]), ([], []), ([b"yy"], [-1.0]), ([b"b", b"b", b"a"], [1.0, 0.0, 3.0]))
    ),
)

CROSSED_OF_EXAMPLES = Given(
    "x",
    "string",
    0,
    tuple(
        encode_example({"words": ("string", k), "more": ("string", more)})
        for k, more in (([b"a", b""], [b"b", b"c", b"d"]), ([], [b"a"]), ([b"yy"], [b"a"]), ([b"b", b"b"], []))
    ),
)


def _sequence(c: Any) -> Any:
    return c.sequence_categorical_column_with_identity("x", 10)


def _sequences(c: Any) -> list[Any]:
    return [c.sequence_categorical_column_with_identity(key, 10) for key in "xy"]


SEVERAL = ids(3)
SPARSE_IDS = replace(ids(3, pool=range(10)), form="sparse")
COLUMNS: dict[str, FeatureColumn] = {
    "numeric": FeatureColumn((floats(2),), lambda c: [c.numeric_column("x", (2,))]),
    "bucketized": FeatureColumn((floats(),), lambda c: embedded(c, _buckets(c))),
    "bucketized, several numbers": FeatureColumn((floats(3),), lambda c: embedded(c, _buckets(c, 3))),
    "bucketized, one-hot": FeatureColumn((floats(),), lambda c: [_buckets(c)]),
    "hash of strings": FeatureColumn((words(),), lambda c: embedded(c, _hash(c))),
    "hash of integers": FeatureColumn((ids(),), lambda c: embedded(c, _hash(c, "int64"))),
    "identity": FeatureColumn((ids(),), lambda c: embedded(c, _identity(c))),
    "identity with a default": FeatureColumn((ids(),), lambda c: embedded(c, _identity(c, 3))),
    "vocabulary list": FeatureColumn((words(),), lambda c: embedded(c, _vocabulary(c))),
    "vocabulary list with buckets": FeatureColumn((words(),), lambda c: embedded(c, _vocabulary(c, num_oov_buckets=4))),
    "vocabulary file": FeatureColumn((words(),), lambda c: embedded(c, _file(c))),
    "crossed": FeatureColumn((words(1, "x"), words(1, "y")), lambda c: embedded(c, c.crossed_column(["x", "y"], 50))),
    "crossed, several values a row": FeatureColumn(
        (words(2, "x"), words(1, "y")),
        lambda c: embedded(c, c.crossed_column(["x", "y"], 50)),
    ),
    "crossed, buckets of several numbers": FeatureColumn(
        (words(2, "y"), floats(3)),
        lambda c: embedded(c, c.crossed_column(["y", _buckets(c, 3)], 50)),
    ),
    "crossed, split strings": FeatureColumn(
        (lists("x"), lists("y")),
        lambda c: embedded(c, c.crossed_column(["x", "y"], 50)),
        _split,
    ),
    "crossed, of Examples": FeatureColumn(
        (CROSSED_OF_EXAMPLES,), lambda c: embedded(c, c.crossed_column(["words", "more"], 50)), _parsed
    ),
    "shared": FeatureColumn(
        (ids(1, "x"), ids(1, "y")),
        lambda c: c.shared_embeddings(_two(c), ROWS),
        older=_older_shared,
    ),
    "indicator": FeatureColumn((SEVERAL,), lambda c: [c.indicator_column(_identity(c))]),
    "indicator of many ids": FeatureColumn(
        (ids(3, "x", (-1, 0, 1024)),),
        lambda c: [c.indicator_column(c.categorical_column_with_identity("x", 1025))],
    ),
    "indicator of words": FeatureColumn((words(3),), lambda c: [c.indicator_column(_vocabulary(c, num_oov_buckets=2))]),
    "indicator, weighted": FeatureColumn(
        (ids(3, "x", (0, 3, 7, 9, -7)), Given("y", "float32", 3, (0.5, 2.0, -1.0, NAN, INF, -INF))),
        lambda c: [c.indicator_column(c.weighted_categorical_column(_identity(c), "y"))],
    ),
    "indicator, weighted, of Examples": FeatureColumn(
        (WORDS_OF_EXAMPLES,),
        lambda c: [
            c.indicator_column(
                c.weighted_categorical_column(
                    c.categorical_column_with_vocabulary_list("words", ["a", "yy"], num_oov_buckets=2), "weights"
                )
            )
        ],
        _parsed,
    ),
    "several values, sum": FeatureColumn((SEVERAL,), lambda c: embedded(c, _identity(c), "sum")),
    "several values, mean": FeatureColumn((SEVERAL,), lambda c: embedded(c, _identity(c), "mean")),
    "several values, sqrtn": FeatureColumn((SEVERAL,), lambda c: embedded(c, _identity(c), "sqrtn")),
    "several values, open width": FeatureColumn(
        (replace(words(3), form="open"),), lambda c: embedded(c, _hash(c), "sqrtn")
    ),
    "split strings": FeatureColumn((lists(),), lambda c: embedded(c, _vocabulary(c)), _split),
    "max_norm": FeatureColumn(
        (SEVERAL,),
        lambda c: embedded(c, _identity(c), max_norm=0.5),
    ),
    "partitioned table": FeatureColumn((ids(),), lambda c: embedded(c, _identity(c)), partitions=3),
    "features of Examples": FeatureColumn(
        (EXAMPLES,), lambda c: embedded(c, c.categorical_column_with_identity("ids", 10)), _parsed
    ),
    "weighted, of Examples": FeatureColumn(
        (EXAMPLES,),
        lambda c: embedded(c, c.weighted_categorical_column(c.categorical_column_with_identity("ids", 10), "weights")),
        _parsed,
    ),
    "weighted, of dense inputs": FeatureColumn(
        (ids(3, "x", (0, 3, 7, 9, -7)), Given("y", "float32", 3, (0.5, 2.0, -1.0))),
        lambda c: embedded(c, c.weighted_categorical_column(_identity(c), "y")),
    ),
    "weighted hash, of Examples": FeatureColumn(
        (WORDS_OF_EXAMPLES,),
        lambda c: embedded(
            c, c.weighted_categorical_column(c.categorical_column_with_hash_bucket("words", 40), "weights")
        ),
        _parsed,
    ),
    "sequence, not pooled": FeatureColumn((SPARSE_IDS,), lambda c: embedded(c, _sequence(c)), sequence=True),
    "sequence of words": FeatureColumn(
        (replace(words(3), form="sparse"),),
        lambda c: embedded(c, c.sequence_categorical_column_with_vocabulary_list("x", ["a", "yy"], num_oov_buckets=2)),
        sequence=True,
    ),
    "sequence of one-hots": FeatureColumn((SPARSE_IDS,), lambda c: [c.indicator_column(_sequence(c))], sequence=True),
    "sequence of numbers": FeatureColumn(
        (replace(floats(3), form="sparse"),), lambda c: [c.sequence_numeric_column("x")], sequence=True
    ),
    "sequences that share a table": FeatureColumn(
        (SPARSE_IDS, replace(SPARSE_IDS, name="y")), lambda c: c.shared_embeddings(_sequences(c), ROWS), sequence=True
    ),
    "sequence of Examples": FeatureColumn(
        (EXAMPLES,),
        lambda c: embedded(c, c.sequence_categorical_column_with_identity("ids", 10)),
        _parsed,
        sequence=True,
    ),
}


def _features(tf: Any, of: FeatureColumn, inputs: dict[str, Any], columns: list[Any]) -> dict[str, Any]:
    return of.read(tf, inputs, columns) if of.read is not None else dict(inputs)


def input_layer(tf: Any, of: FeatureColumn, inputs: dict[str, Any], name: str) -> Any:
    """By `tf.compat.v1.feature_column.input_layer`."""
    columns = (of.older or of.make)(tf.feature_column)
    features = _features(tf, of, inputs, columns)
    partitioner = tf.compat.v1.fixed_size_partitioner(of.partitions) if of.partitions else None
    with tf.compat.v1.variable_scope(name, partitioner=partitioner):
        return tf.compat.v1.feature_column.input_layer(features, columns)


def dense_features(tf: Any, of: FeatureColumn, inputs: dict[str, Any], name: str) -> Any:
    """What `DenseFeatures` does: columns make their variables in a state manager, and read features through a cache."""
    columns = of.make(tf.feature_column)
    if of.sequence:
        return sequence_features(tf, columns, _features(tf, of, inputs, columns), name, equal=False)[0]
    partitioner = tf.compat.v1.fixed_size_partitioner(of.partitions) if of.partitions else None
    with tf.compat.v1.variable_scope(name, use_resource=True, partitioner=partitioner):
        found = dense_parts(tf, columns, _features(tf, of, inputs, columns))
        return tf.concat([found[c] for c in sorted(columns, key=lambda c: c.name)], -1)


def dense_parts(tf: Any, columns: list[Any], features: dict[str, Any]) -> dict[Any, Any]:
    """The vectors of each column as `DenseFeatures` makes them."""
    from tensorflow.python.feature_column import feature_column_v2 as v2

    cache, state = v2.FeatureTransformationCache(features), _state_of(tf, v2)
    found = {}
    for column in sorted(columns, key=lambda c: c.name):
        column.create_state(state)
        dense = column.get_dense_tensor(cache, state)
        found[column] = tf.reshape(dense, (tf.shape(dense)[0], column.variable_shape.num_elements()))
    return found


def sequence_features(
    tf: Any, columns: list[Any], features: dict[str, Any], name: str, equal: bool = True
) -> tuple[Any, Any]:
    """What `SequenceFeatures` does: padded vectors side by side, and the lengths.

    equal: whether all columns must have the same lengths, as TensorFlow's layer has it.
    """
    from tensorflow.python.feature_column import feature_column_v2 as v2

    cache = v2.FeatureTransformationCache(features)
    with tf.compat.v1.variable_scope(name, use_resource=True):
        state = _state_of(tf, v2)
        parts, lengths = [], []
        for column in sorted(columns, key=lambda c: c.name):
            column.create_state(state)
            dense, length = column.get_sequence_dense_tensor(cache, state)
            size = tf.concat([tf.shape(dense)[:2], [column.variable_shape.num_elements()]], 0)
            parts.append(tf.reshape(dense, size))
            lengths.append(length)
        others = lengths[1:] if equal else []
        with tf.control_dependencies([tf.compat.v1.assert_equal(lengths[0], other) for other in others]):
            return tf.concat(parts, -1), tf.identity(lengths[0])


def _state_of(tf: Any, v2: Any) -> Any:
    class State(v2.StateManager):  # type: ignore[misc]
        """Variables by column and name."""

        def __init__(self) -> None:
            self.made: dict[tuple[Any, str], Any] = {}

        def create_variable(self, column: Any, name: str, shape: Any, dtype: Any = None, **options: Any) -> Any:
            """A variable in the scope of its column."""
            with tf.compat.v1.variable_scope(f"column_{len(self.made)}"):
                made = tf.compat.v1.get_variable(
                    name, shape, dtype or tf.float32, initializer=options.get("initializer")
                )
            self.made[column, name] = made
            return made

        def get_variable(self, column: Any, name: str) -> Any:
            """The variable that was made."""
            return self.made[column, name]

        def add_resource(self, column: Any, name: str, resource: Any) -> None:
            """Lookup tables need no care here."""

        def has_resource(self, column: Any, name: str) -> bool:
            """None is kept."""
            return False

    return State()
