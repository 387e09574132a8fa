"""Interned, content-hashed arrays that ops hold as data (boundaries, vocabularies)."""

from __future__ import annotations

import hashlib
import weakref
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from colonnade.core.fork import Lock
from colonnade.core.identity import is_identity

Array = npt.NDArray[Any]

_LOCK = Lock()


class Const:
    """An immutable array (strings: object array of bytes) that is equal to another exactly when its content is.

    Facts: interned, so equality is identity; `digest` names it in texts and files.
    """

    __slots__ = ("__weakref__", "array", "digest")
    _pool: ClassVar[weakref.WeakValueDictionary[str, Const]] = weakref.WeakValueDictionary()

    array: Array
    digest: str

    def __new__(cls, array: Array) -> Const:
        array = np.asarray(array)
        digest = _digest(array)
        found = cls._pool.get(digest)
        if found is None:
            made = object.__new__(cls)
            if array.flags.writeable:
                array = array.copy()
                array.flags.writeable = False
            made.array = array
            made.digest = digest
            with _LOCK:  # two threads that compile at once must get one object
                found = cls._pool.setdefault(digest, made)
        return found

    def __repr__(self) -> str:
        return f"Const({self.array.dtype}{list(self.array.shape)} {self.digest})"

    def __reduce__(self) -> tuple[type[Const], tuple[Array]]:
        return Const, (self.array,)


def _digest(array: Array) -> str:
    h = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    if array.ndim == 2 and is_identity(array):  # whose rows are windows: all of it is never made
        return hashlib.sha256(f"identity {len(array)}".encode()).hexdigest()[:16]
    if array.dtype == object:
        for item in array.reshape(-1):
            h.update(len(item).to_bytes(8, "little"))
            h.update(item)
    else:
        h.update(np.ascontiguousarray(array).tobytes())
    return h.hexdigest()[:16]
