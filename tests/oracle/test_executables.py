"""Every stored model, compiled for every target, answers as TensorFlow did, whatever form the request has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from colonnade import compiler
from colonnade.backends.feed import PackedFeed
from colonnade.errors import ColonnadeError, FeedError
from colonnade.executable import Executable
from colonnade.ir.program import Output, Program, Ref
from colonnade.testing import golden

Answer = Mapping[str, Any]
# The dense network's products are summed in another order, and `round` then may flip.
TOLERANCE = 1e-5
TARGETS = ("reference", "cpu", pytest.param("gpu", marks=pytest.mark.gpu))


def with_buffers(program: Program) -> Program:
    """The program with its columns' buffers among the outputs."""
    buffers = tuple(Output(f"buffer:{b.name}", Ref(b.name), b.dtype, (b.rows, b.width)) for b in program.buffers)
    return replace(program, outputs=(*program.outputs, *buffers))


@pytest.fixture(scope="module", params=golden.NAMES)
def stored(request: pytest.FixtureRequest) -> golden.Golden:
    return golden.load(request.param)


@pytest.fixture(scope="module")
def reference(stored: golden.Golden) -> Executable:
    compiled = compiler.compile(stored.model, "reference")
    return compiler.compile(with_buffers(compiled.program), "reference", weights=compiled.weights)


@pytest.fixture(scope="module", params=TARGETS)
def executable(request: pytest.FixtureRequest, reference: Executable) -> Executable:
    return compiler.compile(reference.program, request.param, weights=reference.weights)


def concat_of(got: Answer, stored: golden.Golden) -> Any:
    """The columns' concat: the end of the one buffer, which begins with what else its concat takes."""
    width = sum(slot.width for slot in stored.slots)
    (buffer,) = (value for key, value in got.items() if key.startswith("buffer:"))
    return buffer[:, buffer.shape[1] - width :]


def check(stored: golden.Golden, case: golden.GoldenCase, got: Answer, executable: Executable) -> None:
    if executable.report().backend == "gpu":  # adds pooled rows in another order
        np.testing.assert_allclose(concat_of(got, stored), case.concat, TOLERANCE, TOLERANCE, err_msg=case.name)
    else:
        assert concat_of(got, stored).tobytes() == case.concat.tobytes(), case.name
    for key, expected in case.outputs.items():
        assert got[key].shape == expected.shape and got[key].dtype == expected.dtype, (case.name, key)
        if "score:0" in case.tensors:
            sure = np.abs(case.tensors["score:0"] - 0.5) > TOLERANCE
            np.testing.assert_array_equal(got[key][sure], expected[sure], err_msg=case.name)
        else:
            assert got[key].tobytes() == expected.tobytes(), case.name


def test_all_cases_equal_tensorflow(stored: golden.Golden, executable: Executable) -> None:
    answered = 0
    width = sum(slot.width for slot in stored.slots)
    for case in stored.cases:
        if case.name == "uneven":
            with pytest.raises(FeedError, match="has 8 rows, want B = 7"):
                executable(case.feed)
        elif case.raises:
            # TensorFlow refuses a batch of 0 in some ops; here it is an empty answer.
            assert {len(v) for v in case.feed.values()} == {0}
            assert concat_of(executable(case.feed), stored).shape == (0, width)
        else:
            check(stored, case, executable(case.feed), executable)
            answered += 1
    assert answered >= 6


def test_batches_of_0_1_and_n_in_any_order(stored: golden.Golden, executable: Executable) -> None:
    width = sum(slot.width for slot in stored.slots)
    for name in ("ordinary-33", "ordinary-0", "ordinary-1", "corner-7", "ordinary-0", "ordinary-33"):
        case = stored.case(name)
        got = executable(case.feed)
        assert concat_of(got, stored).shape == (int(name.split("-")[1]), width)
        if not case.raises:
            check(stored, case, got, executable)


def as_torch(feed: Answer, _: Program) -> Any:
    return {k: v if v.dtype == object else torch.from_numpy(v) for k, v in feed.items()}


def as_record_batch(feed: Answer, _: Program) -> Any:
    columns = {}
    for name, value in feed.items():
        kind = pa.binary() if value.dtype == object else pa.from_numpy_dtype(value.dtype)
        flat = pa.array(value.reshape(-1), kind)
        wide = value.ndim == 2 and value.shape[1] > 1
        columns[name] = pa.FixedSizeListArray.from_arrays(flat, value.shape[1]) if wide else flat
    return pa.RecordBatch.from_pydict(columns)


def as_table(feed: Answer, program: Program) -> Any:
    batch = as_record_batch(feed, program)
    return pa.Table.from_batches([batch.slice(0, 3), batch.slice(3)])


def as_lists(feed: Answer, _: Program) -> Any:
    return {k: v.tolist() for k, v in feed.items()}


def as_matrices(feed: Answer, program: Program) -> Any:
    parts: dict[str, list[Any]] = {}
    for item in program.inputs:
        value = feed[item.name]
        parts.setdefault(item.dtype, []).append(value.reshape(len(value), -1))
    return PackedFeed({dtype: np.concatenate(values, axis=1) for dtype, values in parts.items()})


def as_dtypes(feed: Answer, program: Program) -> Any:
    return as_matrices(feed, program).by_dtype


def as_strided(feed: Answer, _: Program) -> Any:
    return {k: np.repeat(v, 2, axis=0)[::2] for k, v in feed.items()}


def as_read_only(feed: Answer, _: Program) -> Any:
    copies = {k: v.copy() for k, v in feed.items()}
    for value in copies.values():
        value.flags.writeable = False
    return copies


FORMS = (as_torch, as_record_batch, as_table, as_lists, as_matrices, as_dtypes, as_strided, as_read_only)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_request_gives_the_same_bits(
    stored: golden.Golden, executable: Executable, form: Callable[[Answer, Program], Any]
) -> None:
    for name in ("ordinary-7", "corner-7"):
        case = stored.case(name)
        got = executable(form(case.feed, executable.program))
        if form is as_torch:
            assert {type(v) for v in got.values()} == {torch.Tensor}
            got = {k: v.numpy() for k, v in got.items()}
        assert {type(v) for v in got.values()} == {np.ndarray}
        check(stored, case, got, executable)


def test_the_numpy_request_is_left_as_it_was(stored: golden.Golden, executable: Executable) -> None:
    case = stored.case("corner-7")
    feed = {k: v.copy() for k, v in case.feed.items()}
    executable(feed)
    for key, value in feed.items():
        if value.dtype == object:
            assert value.tolist() == case.feed[key].tolist()
        else:
            assert value.tobytes() == case.feed[key].tobytes()


def test_several_threads_of_one_call_give_the_same_bits(stored: golden.Golden, reference: Executable) -> None:
    many = compiler.compile(reference.program, "cpu", weights=reference.weights, threads=3)
    case = max(stored.cases, key=lambda c: 0 if c.raises else len(next(iter(c.feed.values()))))
    check(stored, case, many(case.feed), many)


def test_an_output_that_does_not_exist_is_refused(stored: golden.Golden) -> None:
    with pytest.raises(ColonnadeError, match="no such output") as caught:
        compiler.compile(stored.model, "reference", outputs=["nothing"])
    assert caught.value.got == "nothing" and caught.value.want in ("output", "prediction")
