"""The form in which a measurement on a device is stored: one JSON object a case, part and batch size."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from colonnade.testing import machine as host
from colonnade.testing.timing import Timing

PACKAGES = ("triton", "fbgemm-gpu")


@dataclass(frozen=True)
class Row:
    """One case at one batch size.

    what: what was timed, such as `whole` (a request to its answer) or `columns` (their kernel alone).
    sides: seconds a call by side; only those whose check is green.   checks: what was compared before, by side.
    floor: bytes that must move, the copy bandwidth of the device, their quotient.   parts: seconds of single parts.
    facts: other numbers, by name with the unit.   commit, date, machine, versions: from `placed`.
    """

    case: str
    what: str
    batch: int
    sides: Mapping[str, Timing]
    checks: Mapping[str, Any]
    floor: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, Timing] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    commit: str = ""
    date: str = ""
    machine: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def placed(self, device: torch.device, commit: str = "") -> Row:
        """The same row, with where it is measured, and that it is measured now."""
        commit = commit or host.commit()
        return replace(self, commit=commit, date=host.now(), machine=machine(device), versions=versions())

    def row(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)


def machine(device: torch.device) -> dict[str, Any]:
    """The host, and the device where it is one. Units: bytes."""
    found = dict(host.machine())
    if device.type == "cuda":
        facts = torch.cuda.get_device_properties(device)
        found |= {"gpu": facts.name, "gpu_memory_bytes": facts.total_memory, "gpu_units": facts.multi_processor_count}
    return found


def versions() -> dict[str, str]:
    """Python, Colonnade, the packages that decide a number, and CUDA."""
    found = dict(host.versions())
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found | ({"cuda": torch.version.cuda} if torch.version.cuda else {})
