"""Words split by white space or a separator, padded, looked up and pooled under a mask, beside TensorFlow."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import compiler
from colonnade.errors import IdRangeError, UnsupportedOps
from colonnade.ir.text import parse_program, print_program
from colonnade.testing.oracle import OracleError, TensorFlowModel
from colonnade.testing.tensorflow import tensorflow
from tests.oracle.tf_models import TARGETS, compiled

VOCABULARY = ["a", "b", "é"]
Array = np.ndarray[Any, Any]
Function = Callable[[Any, Any, Any], Any]
"""Of TensorFlow, a table of 8 rows of 3, and strings `[B]`."""


def exported(path: Path, function: Function, shape: tuple[int | None, ...] = (None,)) -> Path:
    tf = tensorflow()
    module = tf.Module()
    module.table = tf.Variable(np.random.default_rng(1).standard_normal((8, 3)).astype(np.float32))
    module.layers = {}

    def serve(x: Any) -> Any:
        return {"out": function(tf, module, x)}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = tf.function(serve, input_signature=[tf.TensorSpec(shape, tf.string, name="x")])
        tf.saved_model.save(module, str(path), signatures=made.get_concrete_function())
    return path


def looked_up(module: Any, words: Any, **options: Any) -> Any:
    """Ids of words, by one layer a model."""
    keras = tensorflow().keras
    if "words" not in module.layers:
        module.layers["words"] = keras.layers.StringLookup(vocabulary=VOCABULARY, **options)
    return module.layers["words"](words)


def averaged(tf: Any, module: Any, ids: Any, mask: Any) -> Any:
    """The mean of the rows that a mask keeps, as Keras pools."""
    keep = tf.expand_dims(mask, 2)
    rows = tf.where(keep, tf.gather(module.table, ids), 0.0)
    return tf.reduce_sum(rows, 1) / tf.reduce_sum(tf.cast(keep, tf.float32), 1)


def by_space(tf: Any, module: Any, x: Any) -> Any:
    ids = looked_up(module, tf.strings.split(x).to_tensor(), mask_token="")
    return averaged(tf, module, ids, ids != 0)


def by_comma(tf: Any, module: Any, x: Any) -> Any:
    ids = looked_up(module, tf.strings.split(x, ",").to_tensor(), mask_token="")
    return averaged(tf, module, ids, ids != 0)


def by_two_bytes(tf: Any, module: Any, x: Any) -> Any:
    ids = looked_up(module, tf.strings.split(x, ", ").to_tensor(), mask_token="", num_oov_indices=2)
    return averaged(tf, module, ids, ids != 0)


def default_is_masked(tf: Any, module: Any, x: Any) -> Any:
    ids = looked_up(module, tf.strings.split(x).to_tensor("#"), mask_token="#")
    return averaged(tf, module, ids, ids != 0)


def looked_up_before(tf: Any, module: Any, x: Any) -> Any:
    """Ids of ragged words, padded with an id: 0 masks no word."""
    ids = looked_up(module, tf.strings.split(x)).to_tensor(0)
    return averaged(tf, module, ids, ids != 0)


def of_an_id_of_its_own(tf: Any, module: Any, x: Any) -> Any:
    ids = looked_up(module, tf.strings.split(x, ",")).to_tensor(7)
    return averaged(tf, module, ids, ids != 7)


def hashed(tf: Any, module: Any, x: Any) -> Any:
    if "hash" not in module.layers:
        module.layers["hash"] = tf.keras.layers.Hashing(8, mask_value="")
    ids = module.layers["hash"](tf.strings.split(x).to_tensor())
    return averaged(tf, module, ids, ids != 0)


def summed_by_words(tf: Any, module: Any, x: Any) -> Any:
    """The mask is of words, not of ids."""
    words = tf.strings.split(x).to_tensor()
    rows = tf.gather(module.table, tf.strings.to_hash_bucket_fast(words, 8))
    return tf.reduce_sum(tf.where(tf.expand_dims(words != "", 2), rows, 0.0), 1)


def lower_and_squeezed(tf: Any, module: Any, x: Any) -> Any:
    """As text is made words of: small letters, no marks, one string a row."""
    clean = tf.strings.regex_replace(tf.strings.lower(x), "[!.]", "")
    ids = looked_up(module, tf.strings.split(tf.squeeze(clean, -1)).to_tensor(), mask_token="")
    return averaged(tf, module, ids, ids != 0)


def remainders(tf: Any, module: Any, x: Any, masked: int) -> Any:
    """Ids that are not negative but where rows are padded: TensorFlow's -1 % 7 is 6, that of uint64 is 1."""
    ids = tf.strings.to_hash_bucket_fast(tf.strings.split(x), 8).to_tensor(-1) % 7
    return averaged(tf, module, ids, ids != masked)


def negative_is_masked(tf: Any, module: Any, x: Any) -> Any:
    return remainders(tf, module, x, 6)


def counted_from_the_end(tf: Any, module: Any, x: Any) -> Any:
    ids = tf.strings.to_hash_bucket_fast(tf.strings.split(x), 8).to_tensor(-1)
    ids = tf.where(ids < 0, ids + 8, ids)
    return averaged(tf, module, ids, ids != 7)


WORKING = {
    f.__name__: f
    for f in (by_space, by_comma, by_two_bytes, default_is_masked, looked_up_before, of_an_id_of_its_own, hashed)
} | {f.__name__: f for f in (summed_by_words, lower_and_squeezed, negative_is_masked, counted_from_the_end)}
TEXTS = [
    *("a b", "", " ", ",", ", ", "a, b,a,,zz", "  a\tb\n\vé\f\r# ", "a\x1cb\x85c", "é e\u0301", "b" * 300, "# # a"),
    *("a\u00a0b a", "\ta", "b ", "A b! a.", "a,b , é", " ".join("ab#z"[k % 4] for k in range(90))),
]


def feeds() -> list[Array]:
    rng = np.random.default_rng(5)
    drawn = ["".join(rng.choice(list("ab #,\t\nz"), rng.integers(0, 30))) for _ in range(40)]
    rows = [[t.encode() for t in TEXTS], [t.encode() for t in drawn], [b"", b" "], [b"b"], [], [b"\xff a\0b", b"a"]]
    made = []
    for row in rows:
        feed = np.empty(len(row), object)
        feed[:] = row
        made.append(feed)
    return made


@pytest.mark.parametrize("name", WORKING)
def test_answers_are_tensorflows(tmp_path: Path, name: str) -> None:
    squeezed = name == "lower_and_squeezed"
    path = exported(tmp_path / "model", WORKING[name], (None, 1) if squeezed else (None,))
    with TensorFlowModel(path) as oracle:
        wanted = [(x, oracle.run({"x": x[:, None] if squeezed else x})["out"]) for x in feeds()]
    for target in TARGETS:
        executable = compiled(path, target)
        assert len(executable.program.columns) == (1 if name == "summed_by_words" else 2)
        assert not any(i.by is not None and "split" in i.name for i in executable.program.inputs)  # nothing is padded
        for x, want in wanted[:1] + wanted[3:] if target == "gpu" else wanted:
            got = executable({"x": x[:, None] if squeezed else x})["out"]
            assert got.shape == want.shape, target
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=f"{target} {x.tolist()}")


def test_text_vectorization(tmp_path: Path) -> None:
    """What Keras makes of text: as wide as its longest row."""
    tf = tensorflow()
    keras = tf.keras
    x = keras.Input((1,), dtype="string", name="x")
    ids = keras.layers.TextVectorization(vocabulary=["a", "b", "é"], split="whitespace", standardize="lower")(x)
    pooled = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(6, 4, mask_zero=True)(ids))
    path = tmp_path / "model"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keras.Model({"x": x}, {"out": pooled}).export(str(path), verbose=False)
    with TensorFlowModel(path) as oracle:
        wanted = [(x[:, None], oracle.run({"x": x[:, None]})["out"]) for x in feeds() if len(x)]
    for target in TARGETS:
        executable = compiled(path, target)
        for fed, want in wanted:
            np.testing.assert_allclose(executable({"x": fed})["out"], want, rtol=1e-5, atol=1e-6)


# -- what depends on the other rows of a batch -------------------------------------------------------------------------
def without_a_mask(tf: Any, module: Any, x: Any) -> Any:
    ids = looked_up(module, tf.strings.split(x).to_tensor(), mask_token="")
    return tf.reduce_sum(tf.gather(module.table, ids), 1)


def default_is_a_word(tf: Any, module: Any, x: Any) -> Any:
    """The mask drops id 0; what rows are padded with is a word of the vocabulary."""
    ids = looked_up(module, tf.strings.split(x).to_tensor("a"), mask_token="")
    return averaged(tf, module, ids, ids != 0)


def default_is_unknown(tf: Any, module: Any, x: Any) -> Any:
    ids = looked_up(module, tf.strings.split(x).to_tensor("?"), mask_token="")
    return averaged(tf, module, ids, ids != 0)


def outside_the_table(tf: Any, module: Any, x: Any) -> Any:
    """TensorFlow looks what rows are padded with up, too: an error that is not turned into an answer."""
    ids = looked_up(module, tf.strings.split(x)).to_tensor(8)
    return averaged(tf, module, ids, ids != 8)


def negative_is_no_uint64(tf: Any, module: Any, x: Any) -> Any:
    return remainders(tf, module, x, 1)


def of_some_width(tf: Any, module: Any, x: Any) -> Any:
    ids = looked_up(module, tf.strings.split(x).to_tensor(shape=(None, 4)), mask_token="")
    return averaged(tf, module, ids, ids != 0)


def pooled_over_a_width(tf: Any, module: Any, x: Any) -> Any:
    """Places without a word count: their row is that of the empty word."""
    ids = looked_up(module, tf.strings.split(x, ",").to_tensor(shape=(None, 4)), num_oov_indices=3)
    return tf.reduce_mean(tf.gather(module.table, ids), 1)


def every_vector(tf: Any, module: Any, x: Any) -> Any:
    return tf.gather(module.table, looked_up(module, tf.strings.split(x).to_tensor(), mask_token=""))


def ids_of_their_own(tf: Any, module: Any, x: Any) -> Any:
    """An id that no word has, not even the empty one, stands behind rows."""
    return tf.gather(module.table, looked_up(module, tf.strings.split(x, ","), mask_token="").to_tensor(7))


def vectors(tf: Any, module: Any, x: Any) -> Any:
    """What is padded are looked up rows."""
    words = tf.strings.split(x, ",")
    rows = tf.gather(module.table, tf.strings.to_hash_bucket_fast(words.values, 8))
    return words.with_values(rows).to_tensor()


def averaged_by_words(tf: Any, module: Any, x: Any) -> Any:
    words = tf.strings.split(x, ",").to_tensor()
    keep = tf.cast(tf.not_equal(words, ""), tf.float32)[..., tf.newaxis]
    rows = tf.gather(module.table, tf.strings.to_hash_bucket_fast(words, 8))
    return tf.math.divide_no_nan(tf.reduce_sum(rows * keep, 1), tf.reduce_sum(keep, 1))


def averaged_where_known(tf: Any, module: Any, x: Any) -> Any:
    """Two masks, of words and of ids, and a product in the place of a choice."""
    words = tf.strings.split(x).to_tensor()
    ids = looked_up(module, words, mask_token="")
    keep = tf.cast(tf.logical_and(tf.not_equal(words, "b"), ids > 1), tf.float32)[..., tf.newaxis]
    return tf.reduce_sum(tf.gather(module.table, ids) * keep, 1) / tf.maximum(tf.reduce_sum(keep, 1), 1.0)


def attended(tf: Any, module: Any, x: Any) -> Any:
    words = tf.strings.split(x).to_tensor()
    rows = tf.gather(module.table, tf.strings.to_hash_bucket_fast(words, 8))
    scores = tf.where(tf.not_equal(words, ""), tf.reduce_sum(rows, 2), -1e9)
    return tf.reduce_sum(rows * tf.nn.softmax(scores)[..., tf.newaxis], 1)


def two_lookups(tf: Any, module: Any, x: Any) -> Any:
    """Rows of one splitting have as many places, whatever stands behind them."""
    words = tf.strings.split(x)
    hashed_rows = tf.gather(module.table, tf.strings.to_hash_bucket_fast(words.to_tensor(), 8))
    return hashed_rows + tf.gather(module.table, looked_up(module, words).to_tensor(3))


def how_many(tf: Any, module: Any, x: Any) -> Any:
    return tf.reduce_sum(tf.cast(tf.not_equal(tf.strings.split(x, ",").to_tensor("#"), "#"), tf.float32), 1)


def of_rows(tf: Any, words: Any, rows: Any) -> Any:
    return words.with_values(rows)


def ragged_mean(tf: Any, module: Any, x: Any) -> Any:
    """Words are never padded: rows say where they are."""
    words = tf.strings.split(x, ",")
    return tf.reduce_mean(of_rows(tf, words, tf.gather(module.table, looked_up(module, words.values))), 1)


def ragged_sum(tf: Any, module: Any, x: Any) -> Any:
    """Rows without a word, the last ones among them."""
    words = tf.strings.split(x)
    rows = tf.gather(module.table, tf.strings.to_hash_bucket_fast(words.values, 8))
    return tf.reduce_sum(of_rows(tf, words, rows), 1)


def ragged_and_sparse(tf: Any, module: Any, x: Any) -> Any:
    words = tf.strings.split(x, ",")
    ids = words.with_values(tf.strings.to_hash_bucket_fast(words.values, 8))
    pooled = tf.nn.safe_embedding_lookup_sparse(module.table, ids.to_sparse(), combiner="sqrtn")
    return tf.concat([pooled, tf.reduce_sum(tf.gather(module.table, ids.to_tensor(shape=(None, 3))), 1)], 1)


PADDED = {
    f.__name__: f
    for f in (
        *(without_a_mask, default_is_a_word, default_is_unknown, outside_the_table, of_some_width),
        *(pooled_over_a_width, every_vector, ids_of_their_own, vectors, averaged_by_words, averaged_where_known),
        *(attended, two_lookups, how_many, ragged_mean, ragged_sum, ragged_and_sparse),
    )
}


@pytest.mark.parametrize("name", PADDED)
def test_rows_are_padded_as_tensorflow_pads(tmp_path: Path, name: str) -> None:
    path = exported(tmp_path / "model", PADDED[name])
    wanted: list[tuple[Array, Array | None]] = []
    with TensorFlowModel(path) as oracle:
        for x in feeds():
            try:
                wanted.append((x, oracle.run({"x": x})["out"]))
            except OracleError:
                wanted.append((x, None))
    assert (None in [want if want is None else 0 for _, want in wanted]) == (name == "outside_the_table")
    for target in TARGETS:
        executable = compiled(path, target)
        for x, want in wanted[2:] if target == "gpu" else wanted:
            if want is None:
                with pytest.raises(IdRangeError):
                    executable({"x": x})
                continue
            got = executable({"x": x})["out"]
            assert got.shape == want.shape, target
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=f"{target} {x.tolist()}")


def test_strings_that_the_host_made_before(tmp_path: Path) -> None:
    """As text becomes ids of some width: small letters, no marks, one string a row."""

    def function(tf: Any, module: Any, x: Any) -> Any:
        clean = tf.strings.regex_replace(tf.strings.lower(x), "[!.]", "")
        words = tf.strings.split(tf.squeeze(clean, -1)).to_tensor()
        return tf.gather(module.table, tf.strings.to_hash_bucket_fast(words, 8))

    path = exported(tmp_path / "model", function, (None, 1))
    with TensorFlowModel(path) as oracle:
        wanted = [(x, oracle.run({"x": x[:, None]})["out"]) for x in feeds()]
    for target in TARGETS:
        executable = compiled(path, target)
        assert parse_program(print_program(executable.program), executable.weights.consts) == executable.program
        for x, want in wanted[2:] if target == "gpu" else wanted:
            np.testing.assert_allclose(executable({"x": x[:, None]})["out"], want, rtol=1e-6)


@pytest.mark.parametrize("width", [None, 6])
@pytest.mark.parametrize("standardize", [None, "lower_and_strip_punctuation"])
def test_text_vectorization_of_every_kind(tmp_path: Path, width: int | None, standardize: str | None) -> None:
    """Ids of a text are ragged in Keras, and padded with 0 in the end."""
    keras = tensorflow().keras
    x = keras.Input((1,), dtype="string", name="x")
    ids = keras.layers.TextVectorization(
        vocabulary=["a", "b", "é"], standardize=standardize, output_sequence_length=width
    )(x)
    rows = keras.layers.Embedding(6, 4, mask_zero=True)(ids)
    flat = keras.layers.Embedding(6, 2)(ids)
    pooled = keras.layers.GlobalAveragePooling1D()
    outputs = {"mean": pooled(rows), "all": rows, "max": keras.layers.GlobalMaxPooling1D()(flat), "flat": pooled(flat)}
    path = tmp_path / "model"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keras.Model({"x": x}, outputs).export(str(path), verbose=False)
    with TensorFlowModel(path) as oracle:
        wanted = [(x[:, None], oracle.run({"x": x[:, None]})) for x in feeds() if len(x) > 1]
    for target in TARGETS:
        executable = compiled(path, target)
        for fed, want in wanted[2:] if target == "gpu" else wanted:
            for key, value in want.items():
                got = executable({"x": fed})[key]
                np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-6, err_msg=f"{target} {key}")


def of_crossed_tokens(tf: Any, module: Any, x: Any) -> Any:
    """Tokens of strings that are made of tokens."""
    words = tf.strings.split(tf.strings.join([tf.strings.split(x).to_tensor()[:, 0], "a"], " "))
    return tf.gather(module.table, tf.strings.to_hash_bucket_fast(words.to_tensor(), 8))


REFUSED = {of_crossed_tokens: "neither part of a column", negative_is_no_uint64: "what is no id"}


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_the_host_does_not_make_is_refused(tmp_path: Path, function: Function) -> None:
    with pytest.raises(UnsupportedOps, match=REFUSED[function]):
        compiler.compile(exported(tmp_path / "model", function), "reference")
