"""Buckets, and where a request lies in its block."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from colonnade.backends.gpu.staging import ALIGNMENT, Region, Staged, StagingPlan, rows_bucket, text_bucket
from tests.unit.backends.gpu import runner_case as rc


def test_row_buckets_are_powers_of_two_and_one_and_a_half_times_them() -> None:
    found = [rows_bucket(n) for n in range(5000)]
    assert sorted(set(found))[:10] == [0, 1, 2, 3, 4, 6, 8, 12, 16, 24]
    assert all(n <= bucket <= max(n, 1.5 * n) for n, bucket in enumerate(found))
    assert all(rows_bucket(bucket) == bucket for bucket in found)
    assert found == sorted(found)


def test_text_buckets_hold_the_bytes_and_sixteen_more_in_quarters_of_octaves() -> None:
    sizes = [*range(3000), *np.random.default_rng(0).integers(0, 1 << 40, 1000).tolist()]
    for n in sizes:
        bucket = text_bucket(n)
        assert n + 16 <= bucket <= max(256, 1.25 * (n + 16)) and bucket % 64 == 0
    assert len({text_bucket(n) for n in range(1 << 16)}) < 40


def plan(padded: bool = True) -> StagingPlan:
    inputs = [i for i in rc.PROGRAM.inputs if i.name in ("scale", "more")]
    return StagingPlan(
        rc.PROGRAM, rc.LAYOUTS, [rc.FakeColumns.header], inputs, frozenset("B") if padded else frozenset()
    )


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 5, 33])
def test_regions_are_aligned_and_apart_and_text_is_last(rows: int, padded: bool) -> None:
    made = plan(padded)
    bucket = made.bucket(rc.Case().request(rc.a_feed(rows)))
    regions = made.regions(bucket)
    assert regions.rows == ((rows_bucket(rows) if padded else rows),)
    (offsets,), (text,) = regions.offsets, regions.texts
    assert offsets is not None and text is not None
    found = [*regions.numbers[0].values(), *regions.inputs.values(), offsets, text]
    assert all(r.start % ALIGNMENT == 0 for r in found)
    ordered = sorted(found, key=lambda r: r.start)
    assert ordered[-1] is text and ordered[-1].end <= regions.num_bytes
    assert all(a.end <= b.start or a.end == a.start for a, b in itertools.pairwise(ordered))
    for dtype, region in regions.numbers[0].items():
        rounded = made.first_rows(rc.LAYOUTS[0], rows)
        assert rounded == regions.rows[0] and made.first(dtype, rounded) == region


def test_a_request_reaches_the_device_as_it_is() -> None:
    made, feed = plan(), rc.a_feed(5)
    request = rc.Case().request(feed)
    regions = made.regions(made.bucket(request))
    host = torch.full((regions.num_bytes,), 0xFF, dtype=torch.uint8)
    device = torch.zeros_like(host)
    staged = Staged(regions, host, device, [rc.FakeColumns.header], [(None, None)])
    staged.write(request)
    staged.device.copy_(staged.host)
    (source,) = staged.sources
    (packed,) = request.packed
    assert source.header[0] == 5
    for dtype, values in packed.buffers.items():
        np.testing.assert_array_equal(source.buffers[dtype][: values.size].numpy(), values)
    np.testing.assert_array_equal(source.string_offsets[:6].numpy(), packed.string_offsets)
    np.testing.assert_array_equal(source.string_data[: packed.string_data.size].numpy(), packed.string_data)
    assert source.string_data.data_ptr() % 8 == 0 and source.string_data.numel() % 8 == 0
    assert staged.inputs["scale"].tolist() == [*feed["scale"].tolist(), [0.0]]
    assert staged.inputs["more"].tolist() == [0.0, 0.0, 0.0]


def test_an_empty_region() -> None:
    block = torch.zeros(8, dtype=torch.uint8)
    assert Region(0, torch.float32, (0, 3)).of(block).shape == (0, 3)
