"""Tables in parts and rows scaled to a norm: one column on one table, with TensorFlow's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import compiler
from colonnade.errors import IdRangeError
from colonnade.executable import Executable
from colonnade.ir.text import parse_program, print_program
from colonnade.testing.oracle import OracleError, TensorFlowModel
from colonnade.testing.tensorflow import tensorflow
from tests.oracle.tf_models import TARGETS, Build, compiled, saved

Make = Callable[[Any, Any], Any]
ROWS, WIDTH = 11, 5
SPARSE = np.array([[3, -1, 0], [-1, -1, -1], [10, 10, 9], [7, 2, 10], [0, -1, 1]])
DENSE = np.array([[0], [10], [4], [3], [9]])


def variable(tf: Any, name: str, rows: int = ROWS, parts: int = 0, width: int = WIDTH) -> Any:
    """A table of ordinary and of long rows."""
    v1 = tf.compat.v1
    partitioner = v1.fixed_size_partitioner(parts) if parts else None
    normal = v1.random_normal_initializer(stddev=2.0)
    return v1.get_variable(name, (rows, width), initializer=normal, partitioner=partitioner)


def several(tf: Any, heights: tuple[int, ...]) -> list[Any]:
    return [variable(tf, f"t{k}", height) for k, height in enumerate(heights)]


def sparse(tf: Any, x: Any) -> Any:
    places = tf.where(tf.not_equal(x, -1))
    return tf.SparseTensor(places, tf.gather_nd(x, places), tf.shape(x, out_type=tf.int64))


def safe(tf: Any, table: Any, x: Any, pooling: str, strategy: str = "div", **options: Any) -> Any:
    return tf.compat.v1.nn.safe_embedding_lookup_sparse(
        table, sparse(tf, x), combiner=pooling, partition_strategy=strategy, **options
    )


def embedded(tf: Any, x: Any, parts: int, pooling: str, **options: Any) -> Any:
    fc, v1 = tf.feature_column, tf.compat.v1
    column = fc.embedding_column(fc.categorical_column_with_identity("x", ROWS), WIDTH, pooling, **options)
    partitioner = v1.fixed_size_partitioner(parts) if parts else None
    with v1.variable_scope("layer", partitioner=partitioner):
        return v1.feature_column.input_layer({"x": x}, [column])


def looked_up(tf: Any, table: Any, x: Any, strategy: str = "mod", **options: Any) -> Any:
    return tf.compat.v1.nn.embedding_lookup(table, tf.reshape(x, [-1]), partition_strategy=strategy, **options)


KINDS: dict[str, tuple[np.ndarray[Any, Any], Make]] = {
    "column in parts": (SPARSE, lambda tf, x: embedded(tf, x, 4, "mean")),
    "column in parts of sums": (SPARSE, lambda tf, x: embedded(tf, x, 2, "sum")),
    "column in parts of one size": (SPARSE, lambda tf, x: embedded(tf, x, ROWS, "sqrtn")),
    "column to a norm": (SPARSE, lambda tf, x: embedded(tf, x, 0, "sum", max_norm=0.7)),
    "column to a norm of one": (SPARSE, lambda tf, x: embedded(tf, x, 0, "mean", max_norm=1.0)),
    "column in parts to a norm": (SPARSE, lambda tf, x: embedded(tf, x, 3, "sqrtn", max_norm=2.5)),
    "rows in parts": (DENSE, lambda tf, x: looked_up(tf, variable(tf, "t", parts=3), x, "div")),
    "rows in parts by turns": (DENSE, lambda tf, x: looked_up(tf, variable(tf, "t", parts=3), x)),
    "rows of several": (DENSE, lambda tf, x: looked_up(tf, several(tf, (3, 3, 3, 2)), x)),
    "rows of several, not by turns": (DENSE, lambda tf, x: looked_up(tf, several(tf, (6, 5)), x, "div")),
    "narrow ids": (DENSE.astype(np.int32), lambda tf, x: looked_up(tf, several(tf, (6, 5)), x, "div")),
    "rows to a norm": (DENSE, lambda tf, x: looked_up(tf, variable(tf, "t"), x, max_norm=0.3)),
    "rows of several to a norm": (DENSE, lambda tf, x: looked_up(tf, several(tf, (6, 5)), x, max_norm=3.0)),
    "safe, by turns": (SPARSE, lambda tf, x: safe(tf, several(tf, (4, 4, 3)), x, "mean", "mod")),
    "safe, to a norm": (SPARSE, lambda tf, x: safe(tf, several(tf, (4, 4, 3)), x, "sqrtn", max_norm=0.9)),
    "safe, with a default": (SPARSE, lambda tf, x: safe(tf, several(tf, (6, 5)), x, "sum", default_id=8)),
    "long rows to a norm": (DENSE, lambda tf, x: looked_up(tf, variable(tf, "t", width=77), x, max_norm=1.5)),
}


def built(make: Make, dtype: Any, width: int) -> Build:
    def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        x = tf.compat.v1.placeholder(dtype, (None, width), "x")
        return {"x": x}, {"out": make(tf, x)}

    return build


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    folder = tmp_path_factory.mktemp("tables")

    def found(name: str) -> Path:
        values, make = KINDS[name]
        place = folder / name.replace(" ", "_").replace(",", "")
        return place if place.exists() else saved(place, built(make, values.dtype, values.shape[1]))

    yield found


@pytest.mark.parametrize("name", KINDS)
def test_answers_are_tensorflows_bit_for_bit(path: Callable[[str], Path], name: str) -> None:
    values, _ = KINDS[name]
    with TensorFlowModel(path(name)) as model:
        for target in TARGETS:
            executable = compiled(path(name), target)
            program = executable.program
            assert len(program.columns) == len(program.tables) == 1 and not program.dense
            assert program.tables[0].rows == ROWS and program.tables[0].made is not None
            assert parse_program(print_program(program), {}) == program
            for rows in (slice(None), slice(0), slice(2, 3)):
                want, got = model.run({"x": values[rows]})["out"], executable({"x": values[rows]})["out"]
                assert (got.dtype, got.shape) == (want.dtype, want.shape)
                if target == "gpu":
                    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
                else:
                    assert got.tobytes() == want.tobytes(), target


@pytest.mark.parametrize("name", ["rows in parts", "rows in parts by turns", "column in parts", "rows to a norm"])
@pytest.mark.parametrize("bad", [-3, 11, 12, 2**31])
def test_ids_outside_are_refused(path: Callable[[str], Path], name: str, bad: int) -> None:
    values, _ = KINDS[name]
    feed = {"x": np.full((2, values.shape[1]), bad)}
    safe_below = name.startswith("column") and bad < 0
    with TensorFlowModel(path(name)) as model:
        if safe_below:
            assert not model.run(feed)["out"].any() and not compiler.compile(path(name))(feed)["out"].any()
            return
        with pytest.raises(OracleError):
            model.run(feed)
    with pytest.raises(IdRangeError):
        compiler.compile(path(name))(feed)


def test_one_table_with_several_norms(tmp_path: Path) -> None:
    def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        x = tf.compat.v1.placeholder(tf.int64, (None, 1), "x")
        table = variable(tf, "t")
        norms = {"plain": None, "short": 0.25, "long": 2.5}
        return {"x": x}, {name: looked_up(tf, table, x, max_norm=norm) for name, norm in norms.items()}

    model = saved(tmp_path / "model", build)
    for target in TARGETS:
        executable = compiled(model, target)
        assert len(executable.program.tables) == 3
        with TensorFlowModel(model) as oracle:
            want = oracle.run({"x": DENSE})
        for name, got in executable({"x": DENSE}).items():
            assert got.tobytes() == want[name].tobytes()


def of_seed(seed: int) -> Build:
    def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        tf.compat.v1.set_random_seed(seed)
        x = tf.compat.v1.placeholder(tf.int64, (None, 3), "x")
        parts = safe(tf, variable(tf, "parts", parts=3), x, "mean", max_norm=0.5)
        turns = safe(tf, several(tf, (6, 5)), x, "sum", "mod")
        return {"x": x}, {"parts": parts, "turns": turns}

    return build


@pytest.mark.parametrize("table_dtype", [None, "float16"])
def test_new_weights_are_made_tables_anew(tmp_path: Path, table_dtype: str | None) -> None:
    old, new = (saved(tmp_path / f"{seed}", of_seed(seed)) for seed in (1, 2))
    executable = compiler.compile(old, table_dtype=table_dtype)
    executable.save(tmp_path / "old")
    compiler.refresh(new, tmp_path / "old", tmp_path / "new")
    with TensorFlowModel(new) as oracle:
        want = oracle.run({"x": SPARSE})
    executable.swap(tmp_path / "new")
    fresh: Executable = compiler.load(tmp_path / "new")
    for answer in (executable({"x": SPARSE}), fresh({"x": SPARSE})):
        for name, got in answer.items():
            np.testing.assert_allclose(got, want[name], rtol=2e-3 if table_dtype else 1e-6, atol=1e-3)


def test_what_is_no_lookup_of_ids_is_clipped_as_it_comes(tmp_path: Path) -> None:
    def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        x = tf.compat.v1.placeholder(tf.int64, (None, 1), "x")
        return {"x": x}, {"out": looked_up(tf, variable(tf, "t"), x * x % 11, max_norm=0.3)}

    model = saved(tmp_path / "model", build)
    executable = compiler.compile(model)
    assert not executable.program.columns
    with TensorFlowModel(model) as oracle:
        want = oracle.run({"x": DENSE})["out"]
    np.testing.assert_allclose(executable({"x": DENSE})["out"], want, rtol=1e-6)


def test_functions_of_tensorflow_2(tmp_path: Path) -> None:
    tf = tensorflow()

    class Model(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.parts = [tf.Variable(tf.random.stateless_normal((6 - k, WIDTH), (k, 7))) for k in range(2)]

        @tf.function(input_signature=[tf.TensorSpec((None,), tf.int64, "x")])  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            return {"out": tf.nn.embedding_lookup(self.parts, x, max_norm=1.0)}

    module = Model()
    tf.saved_model.save(module, str(tmp_path / "model"), signatures={"serving_default": module.__call__})
    want = module(DENSE[:, 0])["out"].numpy()
    executable = compiler.compile(tmp_path / "model")
    assert len(executable.program.columns) == 1
    assert executable({"x": DENSE[:, 0]})["out"].tobytes() == want.tobytes()
