"""The runner on a device: what graphs replay is what runs without them, from any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.backends.gpu.graphs import CudaQueue, Queue
from colonnade.backends.gpu.lanes import LARGE_BYTES
from colonnade.errors import IdRangeError
from tests.unit.backends.gpu import runner_case as rc
from tests.unit.backends.gpu.runner_case import Case, a_feed, dependent, proven

pytestmark = pytest.mark.gpu


class Poisoned(CudaQueue):
    """Fresh memory holds NaNs, and numbers outside of everything."""

    def device_memory(self, num_bytes: int) -> torch.Tensor:
        made = super().device_memory(num_bytes).fill_(0xFF)
        torch.cuda.current_stream(self.device).synchronize()
        return made


class Direct(Poisoned):
    """Without graphs."""

    captures = False


def a_case(queue: Callable[[torch.device], Queue] = Poisoned, **options: Any) -> Case:
    return Case(device="cuda", queue=lambda: queue(torch.device("cuda")), **options)


def replays_of(case: Case) -> int:
    """Buckets that have a graph, over all idle lanes."""
    return sum(bool(p.replay) for lane in case.runner._lanes._idle for p in lane._prepared.values())


@pytest.mark.parametrize("independent", [proven, dependent])
def test_replays_equal_direct_runs(independent: Any) -> None:
    graphs, direct = a_case(independent=independent), a_case(Direct, independent=independent)
    rng = np.random.default_rng(0)
    for k, rows in enumerate([0, 1, 1, 1, *rng.integers(17, 25, 40).tolist(), 300, 0, *[20, 1] * 6]):
        feed = a_feed(rows, k)
        got, want = graphs.check(feed, packed_in_place=bool(k % 2)), direct.check(feed)
        for name, value in want.items():
            np.testing.assert_array_equal(got[name], value, err_msg=name)
    assert replays_of(graphs) >= 2 and replays_of(direct) == 0
    assert all("without a CUDA graph" not in note for note in graphs.runner.notes)


def test_many_threads() -> None:
    case = a_case(num_lanes=3)
    done: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for k in range(60):
            case.check(a_feed(int(rng.integers(0, 40)), 1000 * seed + k))
            done.append(k)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 8 * 60 and case.runner._lanes.made <= 3 and replays_of(case) > 0


def test_captures_do_not_disturb_other_work() -> None:
    stop = threading.Event()
    trouble: list[str] = []

    def other() -> None:
        while not stop.is_set():
            value = torch.full((512, 512), 0.5, device="cuda")
            if float((value @ value).sum().cpu()) != 0.25 * 512**3:
                trouble.append("another sum")

    thread = threading.Thread(target=other)
    thread.start()
    try:
        case = a_case()
        for rows in range(29, 0, -1):  # the largest first: a block that grows gives its graphs up
            for k in range(3):
                case.check(a_feed(rows, k))
    finally:
        stop.set()
        thread.join()
    assert not trouble and replays_of(case) > 5
    assert case.runner.notes == ()


def test_memory_does_not_grow_over_300_requests() -> None:
    case = a_case(num_lanes=1)
    feeds = [a_feed(rows) for rows in range(25)]
    for feed in (feeds[24], *3 * feeds):
        case.answer(feed)
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    for rows in np.random.default_rng(0).integers(1, 25, 300):
        case.answer(feeds[rows])
    assert torch.cuda.memory_allocated() <= allocated and torch.cuda.memory_reserved() <= reserved


def test_large_outputs() -> None:
    case = a_case()
    times = LARGE_BYTES // (4 * rc.WIDTH) // 50
    feeds = [{n: v if n == "more" else np.tile(v, (times, 1)) for n, v in a_feed(51, k).items()} for k in range(4)]
    held = [(feed, case.check(feed)["positive"]) for feed in 2 * feeds]
    for feed, value in held:
        np.testing.assert_array_equal(value, rc.expected(feed, case.weights)["positive"])
    assert replays_of(case) >= 1


def test_ids_outside_their_tables() -> None:
    case, feed = a_case(num_lanes=1), a_feed(5)
    feed["n"][2] = -3
    for _ in range(4):
        with pytest.raises(IdRangeError, match="-3"):
            case.answer(feed)
        case.check(a_feed(6))


def test_products_are_never_rounded_to_tf32() -> None:
    setting = torch.backends.cuda.matmul
    before = setting.fp32_precision
    setting.fp32_precision = "tf32"
    try:
        case = a_case()
        for k in range(4):
            feed = a_feed(64, k)
            feed["x"] *= 1000
            got, want = case.answer(feed)["score"], rc.expected(feed, case.weights)["score"]
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-2)
        assert setting.fp32_precision == "tf32"
    finally:
        setting.fp32_precision = before


def test_profile() -> None:
    case = a_case()
    found = case.runner.profile(case.request(a_feed(6)))
    assert list(found) == ["stage", "copy in", "columns", "dense", "copy out"]
    assert all(value > 0 for value in found.values())
