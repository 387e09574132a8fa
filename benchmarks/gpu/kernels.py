"""How many kernels and copies a request takes, counted by torch's profiler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu.ours import Ours
from benchmarks.gpu.rows import Found, Refused
from benchmarks.gpu.setting import Setting
from benchmarks.gpu.skeleton import fill, skeleton
from benchmarks.gpu.whole import LARGE_ROWS, PACKED, checked_calls, feed_of, unrounded
from colonnade.testing.rows import Row
from colonnade.testing.timing import Call

MODELS = ("E", "F")
REQUESTS = 5
COPIES = ("Memcpy", "Memset")


def counted(call: Call, requests: int, device: torch.device) -> Counter[str]:
    """Device activities of `requests` calls, by name; none without a CUDA device."""
    cuda = device.type == "cuda"
    activities = [ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]
    call()
    with profile(activities=activities, acc_events=True) as profiler:
        for _ in range(requests):
            call()
        if cuda:
            torch.cuda.synchronize(device)
    events = profiler.events() or []
    return Counter(e.name for e in events if e.device_type.name == "CUDA")


def case(setting: Setting) -> Iterator[Found]:
    """Both models at one batch size."""
    for name in MODELS[:1] if setting.dry else MODELS:
        program = skeleton(name, setting.large_rows(LARGE_ROWS))
        weights = fill(program, 0, setting.device)
        ours = Ours(program, weights, setting.target)
        expected = Ours(unrounded(program), weights, "cpu")
        for rows in setting.sizes(256)[:1]:
            setting.say(f"{name}: kernels, batch {rows}")
            feed = feed_of(program, rows)
            call = ours.packed_call(ours.request(feed))
            check = checked_calls(call, expected.executable(feed))
            if not check.ok:
                yield Refused(name, "kernels", rows, PACKED, check)
                continue
            found = counted(call, REQUESTS, setting.device)
            kernels = {k: n / REQUESTS for k, n in found.items() if not k.startswith(COPIES)}
            facts = {
                "kernels a request": sum(kernels.values()),
                "copies and fills a request": sum(n for k, n in found.items() if k.startswith(COPIES)) / REQUESTS,
                "notes": ours.notes,
                "by name": "; ".join(f"{n:g} {k[:40]}" for k, n in sorted(kernels.items(), key=lambda x: -x[1])),
            }
            yield Row(name, "kernels", rows, {}, {PACKED: check}, facts=facts)
