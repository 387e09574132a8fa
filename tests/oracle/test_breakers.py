"""Small models that try to make the compiler answer wrongly: it answers as TensorFlow, or says that it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import compiler
from colonnade.errors import ColonnadeError, UnsupportedOps
from colonnade.executable import Executable
from colonnade.testing.oracle import OracleError, TensorFlowModel
from tests.oracle.tf_models import Build, saved

Array = np.ndarray[Any, Any]
Feed = Mapping[str, Array]
TARGETS = ("reference", "cpu")
ROWS = (0, 1, 2, 5)


@dataclass(frozen=True)
class Case:
    """refused: compiling it is an error.   feeds_refused: requests that TensorFlow answers and we do not, by place."""

    build: Build
    feeds: Sequence[Feed]
    refused: bool = False
    feeds_refused: frozenset[int] = frozenset()


CASES: dict[str, Case] = {}


def case(
    feeds: Sequence[Feed], *, refused: bool = False, feeds_refused: Sequence[int] = ()
) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        CASES[build.__name__] = Case(build, feeds, refused, frozenset(feeds_refused))
        return build

    return register


def floats(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def ids(*shape: int) -> Array:
    return np.random.default_rng(2).integers(0, 7, shape)


def batches(make: Callable[..., Array], *tail: int) -> list[Feed]:
    return [{"x": make(rows, *tail)} for rows in ROWS]


def pairs(make: Callable[..., Array], *tail: int) -> list[Feed]:
    sizes = ((2, 2), (2, 1), (1, 2), (3, 2), (0, 0), (0, 1))
    return [{"x": make(a, *tail), "y": make(b, *tail)} for a, b in sizes]


def given(tf: Any, name: str, *shape: int | None, dtype: Any = None) -> Any:
    return tf.compat.v1.placeholder(dtype or tf.float32, shape, name)


def variable(tf: Any, name: str, *shape: int, dtype: Any = None) -> Any:
    initial = tf.compat.v1.initializers.random_normal(seed=3)
    return tf.compat.v1.get_variable(name, shape, dtype or tf.float32, initializer=initial)


def agree(case: Case, path: Path, target: str) -> None:
    """Errors: AssertionError where an answer is not TensorFlow's, or an error of TensorFlow is answered."""
    if case.refused:
        with pytest.raises(UnsupportedOps):
            compiler.compile(path, target)
        return
    made = compiler.compile(path, target)
    with TensorFlowModel(path, optimize=False) as model:
        for place, feed in enumerate(case.feeds):
            try:
                expected = None if place in case.feeds_refused else model.run(feed)
            except OracleError:
                expected = None
            _same(made, feed, expected, f"{target}, request {place}")


def _same(made: Executable, feed: Feed, expected: Mapping[str, Array] | None, where: str) -> None:
    if expected is None:
        with pytest.raises(ColonnadeError):
            made(feed)
        return
    got = made(feed)
    for name, want in expected.items():
        assert (got[name].dtype, got[name].shape) == (want.dtype, want.shape), f"{where}, {name}"
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-6, err_msg=f"{where}, {name}")


# -- sizes that are not what they seem -------------------------------------------------------------------------------
@case(batches(floats, 3), refused=True)
def a_first_row_broadcast(tf: Any) -> Any:
    x = given(tf, "x", None, 3)
    return {"x": x}, {"out": x - x[:1]}


@case(batches(floats, 3))
def all_rows_but_one_broadcast(tf: Any) -> Any:
    x = given(tf, "x", None, 3)
    return {"x": x}, {"out": x[1:] + x}


@case(batches(floats, 3))
def a_block_beyond_the_batch(tf: Any) -> Any:
    x = given(tf, "x", None, 3)
    return {"x": x}, {"out": tf.slice(x, [1, 0], [1, 3]) * 2.0, "row": x[1]}


@case(batches(ids))
def ids_reshaped_to_a_fixed_size(tf: Any) -> Any:
    x = given(tf, "x", None, dtype=tf.int64)
    return {"x": x}, {"out": tf.gather(variable(tf, "t", 7, 3), tf.math.floormod(tf.reshape(x, [5]), 7))}


@case(batches(ids, 1))
def the_batch_of_ids_squeezed(tf: Any) -> Any:
    x = given(tf, "x", None, 1, dtype=tf.int64)
    return {"x": x}, {"out": tf.gather(variable(tf, "t", 7, 3), tf.squeeze(x, [0]))}


@case(batches(floats, 4))
def the_batch_squeezed(tf: Any) -> Any:
    x = given(tf, "x", None, 4)
    return {"x": x}, {"out": tf.squeeze(x, [0]) * 2.0}


@case(batches(floats, 2))
def reshapes_that_seldom_fit(tf: Any) -> Any:
    x = given(tf, "x", None, 2)
    return {"x": x}, {"fives": tf.reshape(x, [-1, 5]) * 2.0, "ten": tf.reshape(x, [10]) * 2.0}


@case([{"x": floats(2, k)} for k in (3, 4, 0)])
def an_unknown_width(tf: Any) -> Any:
    x = given(tf, "x", None, None)
    return {"x": x}, {"out": tf.matmul(x, variable(tf, "w", 3, 2))}


@case(pairs(floats, 2), feeds_refused=(1, 2, 5))
def two_batches_added(tf: Any) -> Any:
    x, y = given(tf, "x", None, 2), given(tf, "y", None, 2)
    return {"x": x, "y": y}, {"out": x + y}


@case(pairs(floats, 2))
def two_batches_apart(tf: Any) -> Any:
    x, y = given(tf, "x", None, 2), given(tf, "y", None, 2)
    return {"x": x, "y": y}, {"a": x + 1.0, "b": y * 2.0, "c": tf.matmul(x, y, transpose_b=True)}


@case([{"x": floats(a, 2), "y": floats(b)} for a, b in ((2, 4), (2, 1), (2, 3), (0, 0), (0, 1))], feeds_refused=(1, 4))
def a_batch_added_to_twice_its_size(tf: Any) -> Any:
    x, y = given(tf, "x", None, 2), given(tf, "y", None)
    return {"x": x, "y": y}, {"out": y + tf.reshape(x, [-1])}


@case(pairs(ids, 1))
def two_columns_of_two_batches(tf: Any) -> Any:
    x, y = (given(tf, name, None, 1, dtype=tf.int64) for name in "xy")
    table = variable(tf, "t", 7, 3)
    return {"x": x, "y": y}, {name: tf.gather(table, tf.squeeze(v, 1)) for name, v in (("a", x), ("b", y))}


# -- names -----------------------------------------------------------------------------------------------------------
@case([{"w": floats(rows, 3)} for rows in ROWS])
def an_input_named_as_a_variable(tf: Any) -> Any:
    x = given(tf, "x", None, 3)
    return {"w": x}, {
        "out": x * variable(tf, "w", 3),
        "m": tf.matmul(x, variable(tf, "m", 3, 2)) + variable(tf, "b", 2),
    }


@case(batches(floats, 3))
def variables_named_as_nodes(tf: Any) -> Any:
    x = given(tf, "x", None, 3)
    out = x
    for k in range(1, 8):
        out = out * variable(tf, f"v{k}", 3) + 1.0
    return {"x": x}, {"out": out}


@case([{"x": ids(rows, 1), "columns": floats(rows, 2)} for rows in ROWS])
def a_table_and_an_input_named_as_a_buffer(tf: Any) -> Any:
    x, y = given(tf, "x", None, 1, dtype=tf.int64), given(tf, "y", None, 2)
    table = variable(tf, "columns", 7, 3)
    looked_up = tf.gather(table, tf.squeeze(x, [1]))
    return {"x": x, "columns": y}, {"out": tf.concat([looked_up, y], 1), "table": table * 2.0, "y": y * 2.0}


# -- tables and their vectors ----------------------------------------------------------------------------------------
@case(batches(ids, 1))
def tables_of_other_dtypes(tf: Any) -> Any:
    x = tf.squeeze(field := given(tf, "x", None, 1, dtype=tf.int64), [1])
    wide = tf.gather(variable(tf, "wide", 7, 3, dtype=tf.float64), x)
    ones = tf.compat.v1.ones_initializer
    half = tf.gather(tf.compat.v1.get_variable("half", (7, 3), tf.float16, initializer=ones()), x)
    whole = tf.gather(tf.compat.v1.get_variable("whole", (7, 3), tf.int32, initializer=ones()), x)
    return {"x": field}, {"wide": wide, "twice": tf.concat([wide, wide], 1), "half": half, "whole": whole}


@case(batches(ids, 1))
def one_column_read_in_every_way(tf: Any) -> Any:
    x = given(tf, "x", None, 1, dtype=tf.int64)
    ids = tf.squeeze(x, [1])
    table = variable(tf, "t", 7, 3)
    e = tf.gather(table, ids)
    hidden = tf.matmul(e, variable(tf, "w", 3, 3))
    active = tf.nn.relu(hidden)
    return {"x": x}, {
        "thrice": tf.concat([e, e, e], 1),
        "mixed": tf.concat([e, tf.nn.relu(e), e, tf.cast(x, tf.float32)], -1),
        "rows": tf.concat([e, e], 0),
        "itself": e,
        "again": e,
        "ids": ids,
        "input": x,
        "table": table,
        "tied": tf.matmul(e, table, transpose_b=True) + variable(tf, "b", 7),
        "hidden": hidden,
        "active": active,
        "view": tf.tanh(
            tf.reshape(tf.sigmoid(tf.matmul(tf.concat([e, active], 1), variable(tf, "w2", 6, 3))), [-1, 3])
        ),
    }


@case(batches(ids, 1))
def a_table_of_one_row(tf: Any) -> Any:
    x = given(tf, "x", None, 1, dtype=tf.int64)
    return {"x": x}, {"out": tf.gather(variable(tf, "t", 1, 3), tf.squeeze(x, [1]))}


@case(batches(floats, 4))
def indices_along_axes(tf: Any) -> Any:
    x = given(tf, "x", None, 4)
    return {"x": x}, {"out": tf.gather(x, [3, 0, 3], axis=-1), "one": tf.gather(x, 2, axis=1)}


@case(batches(floats, 4), refused=True)
def a_negative_index(tf: Any) -> Any:
    x = given(tf, "x", None, 4)
    return {"x": x}, {"out": tf.gather(x, -1, axis=1)}


@case(batches(ids), refused=True)
def ids_of_an_op_of_several_outputs(tf: Any) -> Any:
    x = given(tf, "x", None, dtype=tf.int64)
    return {"x": x}, {"out": tf.gather(variable(tf, "t", 7, 3), tf.unique(x).y)}


@case(pairs(ids), refused=True)
def ids_shaped_by_what_a_mask_keeps(tf: Any) -> Any:
    x, y = (given(tf, name, None, dtype=tf.int64) for name in "xy")
    kept = tf.shape(tf.where(y > 2))[:1]
    return {"x": x, "y": y}, {"out": tf.gather(variable(tf, "t", 7, 3), tf.reshape(x, kept))}


# -- the dense rest --------------------------------------------------------------------------------------------------
@case(batches(floats, 3))
def biases_that_broadcast_the_product(tf: Any) -> Any:
    x = given(tf, "x", None, 3)
    product = tf.matmul(x, variable(tf, "w", 3, 4))
    narrow = tf.matmul(x, variable(tf, "v", 3, 1))
    return {"x": x}, {
        "wide": narrow + variable(tf, "four", 4),
        "one": product + variable(tf, "one", 1),
        "scalar": product * 2.0 + variable(tf, "scalar"),
    }


@case([{"x": np.array([[2], [3]], np.int32), "y": np.array([[k], [1]], np.int32)} for k in (2, -1)], refused=True)
def powers_of_integers(tf: Any) -> Any:
    x, y = (given(tf, name, None, 1, dtype=tf.int32) for name in "xy")
    return {"x": x, "y": y}, {"out": tf.pow(x, y)}


@case([{"x": np.array([[7], [-7]], np.int32), "y": np.array([[k], [2]], np.int32)} for k in (2, -2, 0)])
def quotients_of_integers(tf: Any) -> Any:
    x, y = (given(tf, name, None, 1, dtype=tf.int32) for name in "xy")
    return {"x": x, "y": y}, {"mod": tf.math.floormod(x, y), "div": tf.math.floordiv(x, y)}


@case([{"x": np.float32([[3.4e38], [-7.0]]), "y": np.float32([[0.5], [2.0]])}])
def remainders_of_floats(tf: Any) -> Any:
    x, y = given(tf, "x", None, 1), given(tf, "y", None, 1)
    return {"x": x, "y": y}, {"out": tf.math.floormod(x, y)}


@case([{"x": np.float32([[np.nan], [-0.0], [1e-40], [3.0]])}])
def truth_of_floats(tf: Any) -> Any:
    x = given(tf, "x", None, 1)
    return {"x": x}, {"out": tf.cast(tf.cast(x, tf.bool), tf.float32)}


@case([{"x": np.float32([[np.nan, np.inf, -np.inf, -0.0, 0.5, 1.5, 2.5, -0.5, 200.0, -200.0]])}])
def extreme_values(tf: Any) -> Any:
    x = given(tf, "x", None, 10)
    ops = (tf.nn.relu, tf.round, tf.sigmoid, tf.tanh, tf.abs, tf.nn.elu, tf.nn.softplus, tf.floor, tf.nn.softmax)
    outputs = {op.__name__: op(x) for op in ops}
    outputs |= {"relu6": tf.nn.relu6(x), "leaky": tf.nn.leaky_relu(x, 0.3), "selu": tf.nn.selu(x)}
    return {"x": x}, {**outputs, "max": tf.maximum(x, 0.0), "min": tf.minimum(0.0, x), "sum": tf.reduce_max(x, 1)}


@case(batches(floats, 1))
def a_broadcast_to_a_known_width(tf: Any) -> Any:
    x = given(tf, "x", None, 1)
    return {"x": x}, {"out": tf.broadcast_to(x, [tf.shape(x)[0], 4]) * 2.0}


@case([{"x": ids(rows, 1), "y": floats(rows, 3)} for rows in ROWS], refused=True)
def a_concat_with_an_operand_that_is_not_supported(tf: Any) -> Any:
    x, y = given(tf, "x", None, 1, dtype=tf.int64), given(tf, "y", None, 3)
    looked_up = tf.gather(variable(tf, "t", 7, 3), tf.squeeze(x, [1]))
    return {"x": x, "y": y}, {"out": tf.concat([looked_up, tf.cast(tf.cast(y, tf.int8), tf.float32)], 1)}


# --------------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("breakers")
    made: dict[str, Path] = {}

    def model(name: str) -> Path:
        if name not in made:
            made[name] = saved(folder / name, CASES[name].build)
        return made[name]

    return model


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_that_of_tensorflow(models: Callable[[str], Path], name: str, target: str) -> None:
    agree(CASES[name], models(name), target)
