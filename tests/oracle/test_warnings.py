"""Models that are legal and surely not what their owner wants: they are answered, and each is warned of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from colonnade import compiler
from colonnade.cli.app import app
from colonnade.cli.explain import report
from colonnade.ir.explanation import Notice
from colonnade.testing.explain import details
from tests.oracle.tf_models import saved


def _given(tf: Any, dtype: Any) -> Any:
    return tf.compat.v1.placeholder(dtype, (None,), "x")


def _table(tf: Any, name: str, rows: int = 40) -> Any:
    return tf.compat.v1.get_variable(name, (rows, 4), tf.float32)


def through_float(tf: Any, wanted: bool) -> Any:
    x = _given(tf, tf.int64)
    number = tf.cast(tf.cast(x, tf.float32 if wanted else tf.float64), tf.int64)
    ids = tf.strings.to_hash_bucket_fast(tf.strings.as_string(number), 40)
    return {"x": x}, {"out": tf.gather(_table(tf, "t"), ids)}


def few_values(tf: Any, wanted: bool) -> Any:
    x = _given(tf, tf.float32)
    buckets = tf.raw_ops.Bucketize(input=x, boundaries=[0.0] if wanted else [float(k) for k in range(39)])
    ids = tf.strings.to_hash_bucket_fast(tf.strings.as_string(buckets), 40)
    return {"x": x}, {"out": tf.gather(_table(tf, "t"), ids)}


def twice(tf: Any, wanted: bool) -> Any:
    x = _given(tf, tf.string)
    table = _table(tf, "t")
    other = table if wanted else _table(tf, "u")
    ids = tf.strings.to_hash_bucket_fast(x, 40)
    again = tf.strings.to_hash_bucket_fast(x, 40)
    return {"x": x}, {"out": tf.concat([tf.gather(table, ids), tf.gather(other, again)], 1)}


def left_out(tf: Any, wanted: bool) -> Any:
    x = _given(tf, tf.string)
    ids = tf.strings.to_hash_bucket_fast(x, 40)
    lost = tf.gather(_table(tf, "lost"), ids)
    out = tf.gather(_table(tf, "t"), ids)
    return {"x": x}, {"out": out} if wanted else {"out": out, "lost": lost}


BUILDS = {
    "float-ids": through_float,
    "idle-buckets": few_values,
    "identical-columns": twice,
    "unread-tables": left_out,
}


def warnings_of(path: Path) -> tuple[Notice, ...]:
    return compiler.lower(path)[2].warnings


@pytest.mark.parametrize("kind", BUILDS)
def test_each_kind_is_warned_of(kind: str, tmp_path: Path) -> None:
    (found,) = warnings_of(saved(tmp_path / "yes", lambda tf: BUILDS[kind](tf, True)))
    assert found.kind == kind and found.where and found.help
    assert not warnings_of(saved(tmp_path / "no", lambda tf: BUILDS[kind](tf, False)))


def vocabulary(tf: Any, file: Path, size: int) -> Any:
    x = tf.compat.v1.placeholder(tf.string, (None, 1), "x")
    column = tf.feature_column.categorical_column_with_vocabulary_file("x", str(file), size)
    layer = tf.compat.v1.feature_column.input_layer({"x": x}, [tf.feature_column.embedding_column(column, 4)])
    return {"x": x}, {"out": layer}


@pytest.mark.parametrize(
    ("data", "size", "problem"),
    [
        (b"a\nb\nc\n", 3, ""),
        (b"a\nb\nc", 3, ""),
        (b"a\r\nb\r\nc\r\n", 3, "CR"),
        (b"a\nb\nc\n\n", 3, "blank"),
        (b"a\nb\nc\n \n", 4, "blank"),
        (b"a\nb\nc\nd\n", 3, "1 of 4 lines"),
        (b"a\n b\nc\n", 3, "blanks"),
    ],
)
def test_vocabulary_files(data: bytes, size: int, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_bytes(data)
    found = warnings_of(saved(tmp_path / "model", lambda tf: vocabulary(tf, file, size)))
    assert [n.kind for n in found] == ["vocabulary-files"] * bool(problem)
    assert all(problem in n.got and "words.txt" in n.where for n in found)


def test_warnings_are_printed_and_kept(tmp_path: Path) -> None:
    model = saved(tmp_path / "model", lambda tf: twice(tf, True))
    artifact = tmp_path / "artifact"
    done = CliRunner().invoke(app, ["compile", str(model), "-o", str(artifact), "--target", "reference"])
    assert done.exit_code == 0 and "warning: identical-columns: " in done.stdout
    explained = CliRunner().invoke(app, ["explain", str(artifact)])
    assert "embedding graph: " in explained.stdout and "% removed; 2 columns in one kernel" in explained.stdout
    assert "warnings: 1" in explained.stdout and "identical-columns" in explained.stdout
    loaded = compiler.load(artifact, target="reference")
    found = details(loaded.program, loaded.explanation, loaded.weights)
    assert found["warnings"][0]["kind"] == "identical-columns" and "identical-columns" in report(found)
    rows = np.array([b"a", b"b"], object)
    assert np.array_equal(loaded({"x": rows})["out"][:, :4], loaded({"x": rows})["out"][:, 4:])
