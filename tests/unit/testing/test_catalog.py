import collections

import numpy as np
import pytest

from colonnade.errors import OptionError
from colonnade.testing.models import named
from colonnade.testing.models.catalog import with_large_rows


@pytest.mark.parametrize(
    ("name", "counts", "width"),
    [
        ("E", (880, 50, 50, 15, 5), 8120),
        ("F", (1000, 90, 100, 7, 3), 9672),
        ("E10", (88, 5, 5, 2, 1), 832),
        ("E10_varied", (88, 5, 5, 2, 1), None),
        ("micro100", (100, 0, 0, 0, 0), 800),
    ],
)
def test_counts(name: str, counts: tuple[int, ...], width: int | None) -> None:
    spec = named(name)
    found = collections.Counter(column.name.split("_")[0] for column in spec.columns)
    assert tuple(found[kind] for kind in ("num", "int", "str", "split", "large")) == counts
    assert width is None or spec.width == width
    assert spec.name == name


def test_rows() -> None:
    assert [named(n).columns[-1].rows for n in ("E", "E10", "E40", "E_full_cols")] == [2**23, 2**12, 2**10, 2**17]
    assert {column.rows for column in named("micro10").columns} == {101}
    assert named("micro10").columns[0].boundaries == tuple(range(0, 500, 5))


@pytest.mark.parametrize("name", ["tiny_varied", "E10_varied", "F3_varied_outputs"])
def test_varied_columns_are_sound_and_differ(name: str) -> None:
    spec = named(name)
    assert spec == named(name) and spec.digest == named(name).digest
    assert spec.extra_outputs == name.endswith("outputs")
    for column in spec.columns:
        assert column.rows >= 1 and len(column.separator) == 1
        if column.kind == "bucketized":
            boundaries = np.array(column.boundaries)
            assert (np.diff(boundaries) > 0).all() and column.rows == len(boundaries) + 1
            assert (boundaries.astype(np.float32) == boundaries).all()
    for field in ("rows", "embedding_dim", "pooling", "dtype"):
        assert len({getattr(column, field) for column in spec.columns}) > 2


def test_digests_differ() -> None:
    names = ["micro10", "micro11", "micro10_outputs", "E10", "E10_varied", "E11", "F10", "E", "E_full_cols", "tiny"]
    assert len({named(name).digest for name in names}) == len(names)


@pytest.mark.parametrize("name", ["", "G", "micro", "micro0", "E0", "E10_", "E10_varied_x", "_varied", "E_full"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(OptionError, match="no such test model"):
        named(name)


def test_large_tables_have_as_many_rows_as_are_asked_for() -> None:
    found = with_large_rows(named("E10"), 77)
    rows = {c.name: c.rows for c in found.columns}
    assert rows == {c.name: 77 if c.name.startswith("large_") else c.rows for c in named("E10").columns}
    assert 77 in rows.values() and found.digest != named("E10").digest
    for name, wanted in (("micro10", 5), ("E10", 0)):
        with pytest.raises(OptionError):
            with_large_rows(named(name), wanted)
