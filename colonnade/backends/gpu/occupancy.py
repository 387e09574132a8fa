"""What a compiled kernel takes of a multiprocessor, and how many of its programs run there at a time."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import triton

from colonnade.backends.gpu.check import compiled
from colonnade.backends.gpu.schedule import Schedule
from colonnade.errors import OptionError

WARP = 32
REGISTERS_TOGETHER, WARPS_TOGETHER = 256, 4
"""Registers are given to a warp in steps, and the warps of a multiprocessor share them in four parts."""
SHARED_TOGETHER, SHARED_RESERVED = 128, 1024
"""Shared memory is given to a program in steps, and each has some of the system's. Units: bytes."""
_USAGE = re.compile(r"Function (\w+):\s+REG:(\d+) STACK:(\d+)")


@dataclass(frozen=True)
class Resources:
    """What one program of a kernel takes. Units: registers a thread; bytes of shared memory, of stack a thread."""

    capability: int
    registers: int
    shared: int
    warps: int
    stack: int


@dataclass(frozen=True)
class Multiprocessor:
    """What one multiprocessor has.   programs: how many it runs at most. Source: CUDA C++ Programming Guide, 17.2."""

    registers: int
    shared: int
    warps: int
    programs: int


MULTIPROCESSORS = {
    80: Multiprocessor(65536, 164 << 10, 64, 32),
    86: Multiprocessor(65536, 100 << 10, 48, 16),
    89: Multiprocessor(65536, 100 << 10, 48, 24),
    90: Multiprocessor(65536, 228 << 10, 64, 32),
    100: Multiprocessor(65536, 228 << 10, 64, 32),
    103: Multiprocessor(65536, 228 << 10, 64, 32),
    120: Multiprocessor(65536, 100 << 10, 48, 24),
}
"""By compute capability, such as 90 for 9.0."""


@dataclass(frozen=True)
class Occupancy:
    """A kernel on a device.

    resident: programs of it that one multiprocessor runs at a time.   multiprocessors: how many the device has.
    """

    device: str
    resources: Resources
    resident: int
    multiprocessors: int

    def waves(self, programs: int) -> float:
        """How often all multiprocessors are filled by a launch of that many programs."""
        return programs / (self.resident * self.multiprocessors)


def resources(schedule: Schedule, capability: int) -> Resources:
    """The kernel compiled for a capability, and read back. Needs no GPU.

    Errors: OptionError where Triton's cuobjdump is missing.
    """
    with tempfile.TemporaryDirectory() as folder:
        kernel = compiled(schedule, capability, Path(folder))
        path = Path(folder) / "columns.cubin"
        path.write_bytes(kernel.asm["cubin"])
        registers, stack = _usage(_dumped(path), kernel.metadata.name)
    return Resources(capability, registers, kernel.metadata.shared, kernel.metadata.num_warps, stack)


def occupancy(schedule: Schedule, device: torch.device) -> Occupancy:
    """The kernel of a schedule on a CUDA device."""
    facts = torch.cuda.get_device_properties(device)
    capability = 10 * facts.major + facts.minor
    found = resources(schedule, capability)
    return Occupancy(facts.name, found, resident(found), facts.multi_processor_count)


def resident(found: Resources) -> int:
    """Programs that one multiprocessor runs at a time: what runs out first decides.

    Facts: a capability that is not known is taken for the nearest one below.
    """
    has = MULTIPROCESSORS[max(c for c in MULTIPROCESSORS if c <= max(found.capability, min(MULTIPROCESSORS)))]
    a_warp = _up(max(found.registers, 1) * WARP, REGISTERS_TOGETHER)
    warps = has.registers // a_warp // WARPS_TOGETHER * WARPS_TOGETHER
    a_program = _up(found.shared + SHARED_RESERVED, SHARED_TOGETHER)
    return min(has.programs, min(warps, has.warps) // found.warps, has.shared // a_program)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _dumped(path: Path) -> str:
    try:
        tool = triton.knobs.nvidia.cuobjdump.path
    except RuntimeError as error:
        raise OptionError("registers cannot be counted", got=str(error), want="Triton's cuobjdump") from error
    done = subprocess.run([tool, "-res-usage", str(path)], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise OptionError("registers cannot be counted", where=str(tool), got=done.stderr.strip())
    return done.stdout


def _usage(text: str, kernel: str) -> tuple[int, int]:
    """Registers and stack of a kernel in cuobjdump's words."""
    found = {name: (int(registers), int(stack)) for name, registers, stack in _USAGE.findall(text)}
    if kernel not in found:
        raise OptionError("registers cannot be counted", got=text.strip(), want=f"the kernel {kernel!r}")
    return found[kernel]
