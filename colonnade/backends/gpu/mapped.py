"""Host memory that a kernel reads in place, over the bus."""

from __future__ import annotations

import mmap
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.errors import OptionError

Array = npt.NDArray[Any]
PORTABLE_AND_MAPPED = 3
"""Flags of cudaHostRegister: for all contexts, and with an address on the device, which is that on the host."""
LEAST_BYTES = 16


def mapped(array: Array, device: torch.device) -> torch.Tensor:
    """A copy in pinned pages of its own, as bytes. Facts: torch's pinned memory is rounded up to a power of two.

    Errors: OptionError where the pages cannot be pinned.
    """
    block = np.frombuffer(mmap.mmap(-1, max(array.nbytes, LEAST_BYTES)), np.uint8)
    block[: array.nbytes].view(array.dtype).reshape(array.shape)[...] = array
    if device.type == "cuda":
        address = block.ctypes.data
        _register(address, block.nbytes, device)
        weakref.finalize(block, _unregister, address).atexit = False
    return torch.from_numpy(block)


def _register(address: int, num_bytes: int, device: torch.device) -> None:
    try:
        with torch.cuda.device(device):
            torch.cuda.check_error(torch.cuda.cudart().cudaHostRegister(address, num_bytes, PORTABLE_AND_MAPPED))
    except RuntimeError as error:
        raise OptionError(
            "host memory for a table cannot be pinned",
            got=f"{num_bytes:,} bytes: {str(error).partition(chr(10))[0]}",
            help="have tables in host memory pooled there: host_tables='pooled'",
        ) from error


def _unregister(address: int) -> None:
    torch.cuda.cudart().cudaHostUnregister(address)
