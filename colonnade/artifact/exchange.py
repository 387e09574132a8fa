"""Two paths exchanged in one step, where the system can do that."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_HERE = -100
"""Linux' AT_FDCWD: paths begin at the working directory."""
_EXCHANGE = 2
"""Linux' RENAME_EXCHANGE."""


def exchanged(one: Path, other: Path) -> bool:
    """Let two paths of one file system change places, at no time with nothing at either; gives whether they did.

    Facts: false, and nothing is changed, where the C library, the kernel or the file system has no such call.
    """
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    if call is None:
        return False
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    done: int = call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)
    return done == 0
