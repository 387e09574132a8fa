"""The process's helper threads: started when first asked for, forgotten in a forked child, ended at exit."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading

import numpy as np

from colonnade.backends import jobs


class Pool:
    """Threads that share one state block with callers (see jobs.py).

    Facts: a child of `fork` has no helpers until it asks for them; the block outlives the threads.
    """

    def __init__(self) -> None:
        raw = np.zeros(jobs.STATE_BYTES + jobs.LINE, np.uint8)
        self._raw = raw
        self.address = int(raw.ctypes.data) + -int(raw.ctypes.data) % jobs.LINE
        self._libc = ctypes.CDLL(None, use_errno=True) if jobs.SUPPORTED else None
        self._lock = threading.Lock()
        self._threads: list[ctypes.c_ulong] = []
        self._ended = False
        if jobs.SUPPORTED:
            os.register_at_fork(after_in_child=self._after_fork)
            atexit.register(self.end)

    def helpers(self, wanted: int, address: int) -> int:
        """Start threads until there are `wanted` that run the C function at `address`; gives how many there are."""
        if self._libc is None or wanted <= len(self._threads) or self._ended:
            return min(wanted, len(self._threads))
        with self._lock:
            while len(self._threads) < wanted:
                thread = ctypes.c_ulong()
                state = ctypes.c_void_p(self.address)
                if self._libc.pthread_create(ctypes.byref(thread), None, ctypes.c_void_p(address), state):
                    break  # the machine gives no more threads: fewer helpers
                self._threads.append(thread)
            return len(self._threads)

    def end(self) -> None:
        """End all helpers: before the code they run goes away."""
        with self._lock:
            self._ended = True
            threads, self._threads = self._threads, []
        if self._libc is None or not threads:
            return
        self._write(jobs.STOP, 1)
        self._write(jobs.TURN, -1)
        wake = [ctypes.c_long(x) for x in (jobs.FUTEX, self.address + jobs.TURN, jobs.FUTEX_WAKE, 1 << 30, 0)]
        self._libc.syscall(*wake)
        for thread in threads:
            self._libc.pthread_join(thread, None)

    def _write(self, word: int, value: int) -> None:
        ctypes.c_int64.from_address(self.address + word).value = value

    def _after_fork(self) -> None:
        ctypes.memset(self.address, 0, jobs.STATE_BYTES)
        self._lock = threading.Lock()
        self._threads = []


POOL = Pool()
