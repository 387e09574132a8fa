"""Padded inputs: values in their places whatever a request holds them in, marks, ends, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from colonnade.backends.feed_pads import PaddedInputs
from colonnade.backends.feed_values import Unusual
from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.errors import FeedError, GraphError
from colonnade.ir.check_program import check
from colonnade.ir.program import Input, Pad, Program, RowKeys
from colonnade.ir.text import consts_of, parse_program, print_program

B, N, T = map(dims.symbol, "BNT")
ENDS = np.array([0, 2, 2, 3])
WRAPPED = [0, 2**62, 2**63 - 1, -(2**63), -(2**62), 0, 3]
"""They fall, and no difference is below 0 in int64."""


def program(dtype: str, fill: Any, places: str | None = None, width: Any = T) -> Program:
    """width: a number cuts rows."""
    flat = (dims.mul(B, width),)
    made = np.empty((), object)
    made[()] = fill
    const = Const(made if dtype == "string" else np.array(fill, dtype))
    inputs = [
        Input("x", dtype, (N,), offsets="x.offsets"),
        Input("x.offsets", "int64", (dims.add(B, 1),)),
        Input("x.padded", dtype, flat),
        Input("x.marks", "int64", flat),
        Input("x.ends", "int64", (B,)),
    ]
    keys = []
    if places is not None:
        inputs.append(Input(places, "int64", (N,)))
        keys.append(RowKeys("x.indices", "indices", "x.offsets", N, B, T, "x.shape", strict=True, places=places))
    pads = (
        Pad("x.padded", "values", B, width, "x.offsets", places, "x", const),
        Pad("x.marks", "marks", B, width, "x.offsets", places),
        Pad("x.ends", "ends", B, T, "x.offsets", places),
    )
    return Program(tuple(inputs), (), (), (), (), (), row_keys=tuple(keys), pads=pads)


def test_rows_are_padded_to_the_longest() -> None:
    sizes: dict[str, int] = {}
    made = PaddedInputs(program("float32", -1)).added({"x": np.float32([1, 2, 3]), "x.offsets": ENDS}, sizes)
    assert made["x.padded"].tolist() == [1, 2, -1, -1, 3, -1] and made["x.padded"].dtype == np.float32
    assert made["x.marks"].tolist() == [1, 1, 0, 0, 1, 0] and made["x.ends"].tolist() == [2, 0, 1]
    assert sizes == {"B": 3, "T": 2, "N": 3}


def test_places_may_have_gaps_and_rows_more_places() -> None:
    feed = {"x": np.array([1, 2, 3]), "x.offsets": ENDS, "p": np.array([0, 2, 1])}
    made = PaddedInputs(program("int64", 0, "p")).added(feed, {"T": 4})
    assert made["x.padded"].reshape(3, 4).tolist() == [[1, 0, 2, 0], [0] * 4, [0, 3, 0, 0]]
    assert made["x.marks"].reshape(3, 4).tolist() == [[1, 0, 1, 0], [0] * 4, [0, 1, 0, 0]]
    assert made["x.ends"].tolist() == [3, 0, 2]


@pytest.mark.parametrize(("width", "wanted"), [(1, [1, 0, 3]), (3, [1, 2, 0, 0, 0, 0, 3, 0, 0])])
def test_rows_are_cut_to_a_width(width: int, wanted: list[int]) -> None:
    whole = program("int64", 0, width=width)
    padded, sizes = PaddedInputs(whole), {"T": 2}
    for values in (np.array([1, 2, 3]), torch.tensor([1, 2, 3])):
        made = padded.added({"x": values, "x.offsets": ENDS}, sizes)
        assert made["x.padded"].tolist() == wanted
        assert made["x.marks"].tolist() == [int(x != 0) for x in wanted] and made["x.ends"].tolist() == [2, 0, 1]
    assert sizes == {"B": 3, "T": 2, "N": 3}
    check(whole)
    assert parse_program(print_program(whole), consts_of(whole)) == whole


def test_strings_and_places_with_gaps_are_cut_to_a_width() -> None:
    texts = pa.array([b"no", b"a", b"", b"\xff\x00"], pa.binary())[1:]
    feed = {"x": texts, "x.offsets": ENDS, "p": np.array([0, 2, 1])}
    made = PaddedInputs(program("string", b"", "p", width=2)).added(feed, {"T": 4})
    assert made["x.padded"].to_pylist() == [b"a", b"", b"", b"", b"", b"\xff\x00"]
    assert made["x.marks"].tolist() == [1, 0, 0, 0, 0, 1] and made["x.ends"].tolist() == [3, 0, 2]


@pytest.mark.parametrize("fill", [b"", b"zz"])
def test_strings(fill: bytes) -> None:
    padded, texts = PaddedInputs(program("string", fill)), [b"a", b"", b"\xff\x00"]
    objects = np.empty(3, object)
    objects[:] = texts
    made = padded.added({"x": objects, "x.offsets": ENDS}, {})["x.padded"]
    wanted = [b"a", b"", fill, fill, b"\xff\x00", fill]
    assert made.tolist() == wanted
    arrow = {"x": pa.array(texts, pa.binary()), "x.offsets": ENDS}
    if fill:
        with pytest.raises(Unusual):
            padded.added(arrow, {})
    else:
        assert padded.added(arrow, {})["x.padded"].to_pylist() == wanted


def test_tensors_stay_tensors() -> None:
    feed = {"x": torch.tensor([1, 2, 3]), "x.offsets": torch.tensor(ENDS)}
    made = PaddedInputs(program("int64", 0)).added(feed, {})["x.padded"]
    assert isinstance(made, torch.Tensor) and made.tolist() == [1, 2, 0, 0, 3, 0]


@pytest.mark.parametrize("ends", [[0], [], [0, 0, 0]])
def test_no_elements(ends: list[int]) -> None:
    padded, feed = (
        PaddedInputs(program("int64", 0)),
        {"x": np.zeros(0, np.int64), "x.offsets": np.array(ends, np.int64)},
    )
    if not ends:
        with pytest.raises(Unusual):
            padded.added(feed, {})
        return
    assert padded.added(feed, {})["x.padded"].shape == (0,)
    assert padded.added(feed, {})["x.ends"].tolist() == [0] * (len(ends) - 1)


@pytest.mark.parametrize("ends", [[1, 2, 3], [0, 2, 1, 3], [0, 2, 2], [0, 2**40], [0.0, 1.0, 3.0], [[0, 3]], WRAPPED])
def test_offsets_that_say_no_rows_are_left_to_who_names_them(ends: Any) -> None:
    with pytest.raises(Unusual):
        PaddedInputs(program("int64", 0)).added({"x": np.array([1, 2, 3]), "x.offsets": np.array(ends)}, {})


def test_rows_of_another_width_than_others_are_refused() -> None:
    with pytest.raises(FeedError, match="differ in width"):
        PaddedInputs(program("int64", 0)).added({"x": np.array([1, 2, 3]), "x.offsets": ENDS}, {"T": 5})


def test_the_text_says_all_of_it() -> None:
    whole = program("float32", -1.5, "x.places")
    check(whole)
    assert parse_program(print_program(whole), consts_of(whole)) == whole
    assert {i.name for i in whole.signature} == {"x", "x.indices", "x.shape"}


def test_what_is_not_sound_is_refused() -> None:
    whole = program("float32", 0)
    first, *others = whole.pads
    wrong = [
        Pad("x.padded", "values", B, T, "x.offsets", None, "x", Const(np.array(0))),
        Pad("x.padded", "values", B, T, "x.offsets", None, "x.ends", first.fill),
        Pad("x.padded", "values", B, T, "x", None, "x", first.fill),
        Pad("x.padded", "values", B, N, "x.offsets", None, "x", first.fill),
        Pad("x.padded", "values", B, T, "x.offsets", "x.ends", "x", first.fill),
        Pad("x.padded", "other", B, T, "x.offsets", None, "x", first.fill),
        Pad("x.padded", "values", B, T, "x.offsets"),
        Pad("nothing", "values", B, T, "x.offsets", None, "x", first.fill),
    ]
    for pad in wrong:
        with pytest.raises(GraphError, match="rule"):
            check(Program(whole.inputs, (), (), (), (), (), pads=(pad, *others)))
