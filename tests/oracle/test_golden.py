"""The stored answers are those TensorFlow gives today."""

from pathlib import Path

import numpy as np
import pytest

from colonnade.errors import OptionError
from colonnade.testing import golden
from colonnade.testing.oracle import OracleError, TensorFlowModel


@pytest.mark.parametrize("name", golden.NAMES)
def test_tensorflow_still_answers_so(name: str, tmp_path: Path) -> None:
    stored = golden.load(name, tmp_path / name)
    with TensorFlowModel(stored.model, optimize=False) as model:
        for case in stored.cases:
            if case.raises:
                with pytest.raises(OracleError):
                    model.run(case.feed)
                continue
            found = model.run(case.feed, list(case.tensors))
            # Ids and single rows are exact; sums may differ by how TensorFlow splits work over threads.
            for key, value in case.tensors.items():
                np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5, err_msg=f"{case.name} {key}")
            (output,) = case.outputs.values()
            assert len(output) == len(case.concat)


@pytest.mark.parametrize("name", golden.NAMES)
def test_slots_cover_the_concat(name: str, tmp_path: Path) -> None:
    stored = golden.load(name, tmp_path / name)
    assert {slot.column for slot in stored.slots} == {column.name for column in stored.spec.columns}
    ends = [slot.offset + slot.width for slot in stored.slots]
    assert [slot.offset for slot in stored.slots] == [0, *ends[:-1]] and ends[-1] == stored.spec.width
    assert all(case.concat.shape[1] == stored.spec.width for case in stored.cases if not case.raises)
    assert [case.name for case in stored.cases if case.raises] == ["uneven"]


def test_record_and_load_give_the_same_again(tmp_path: Path) -> None:
    first = golden.record("micro2", tmp_path / "a")
    second = golden.record("micro2", tmp_path / "b")
    assert first.exists() and second.exists()
    one = golden.load("micro2", tmp_path / "1", tmp_path / "a")
    two = golden.load("micro2", tmp_path / "2", tmp_path / "b")
    for left, right in zip(one.cases, two.cases, strict=True):
        assert left.name == right.name and left.feed.keys() == right.feed.keys()
        assert all(np.array_equal(left.feed[k], right.feed[k], equal_nan=True) for k in left.feed)
        assert all(np.array_equal(left.tensors[k], right.tensors[k]) for k in left.tensors)


def test_no_such_golden(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no such golden archive"):
        golden.load("nothing")
    with pytest.raises(OptionError, match="no such case"):
        golden.load("micro10", tmp_path / "m").case("nothing")
