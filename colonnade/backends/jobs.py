"""The entry points that are compiled: a call with helpers or without, whole or in two parts, and a helper's life.

Legend: `pool` is the address of the state that a caller and its helpers share, one word a cache line (constants below).
No barrier: the caller always works, and waits only for helpers that have begun.
"""

from __future__ import annotations

import platform

from colonnade.backends.atomics import (
    atomic_add,
    atomic_load,
    atomic_replace,
    atomic_swap,
    call_worker,
    pause,
    system_call,
)
from colonnade.backends.memory import kernel, load_i64

WORK = 144
"""Where in a job's context the address of its worker lies, a C function `int64 f(context)`. Units: bytes."""
FIRST, LAST = 160, 168
"""Where in the context of a job that somebody else divides the rows to be done begin and end; 0 in a job that workers
divide among themselves."""
LINE = 64
TURN, OPEN, ACTIVE, SLEEPERS, LOCK, STOP, SEATS, CALL = (LINE * k for k in range(8))
"""Number of the job; 1 while it may be joined; helpers at work; helpers asleep; 1 while a caller holds the pool; 1 when
helpers must end; how many may still join; the job's context."""
STATE_BYTES = 8 * LINE

SPINS = 8000
"""How often an idle helper looks before it sleeps, some 200 microseconds: what lies between two parts of a call."""
PATIENCE = 2000
"""How often a caller looks for helpers to end before it yields its CPU."""

FUTEX, YIELD = {"x86_64": (202, 24), "aarch64": (98, 124)}.get(platform.machine(), (0, 0))
FUTEX_WAIT, FUTEX_WAKE = 128, 129  # private to the process
SUPPORTED = FUTEX != 0 and platform.system() == "Linux"
WORD = 0xFFFFFFFF


@kernel
def run(call: int, pool: int, helpers: int) -> int:
    """Run a call, with up to `helpers` helpers where another caller does not hold them."""
    return end(call, pool, begin(call, pool, helpers))


@kernel
def begin(call: int, pool: int, helpers: int) -> int:
    """Let helpers work on a call; 1: they do, and nobody else gets them until `end`, 0: there are none."""
    if helpers <= 0 or not atomic_replace(pool + LOCK, 0, 1):
        return 0
    atomic_swap(pool + CALL, call)
    atomic_swap(pool + SEATS, helpers)
    atomic_swap(pool + OPEN, 1)
    atomic_add(pool + TURN, 1)
    if atomic_load(pool + SLEEPERS) > 0:
        system_call(FUTEX, pool + TURN, FUTEX_WAKE, helpers, 0)
    return 1


@kernel
def end(call: int, pool: int, begun: int) -> int:
    """Do what is left of a call, and wait for the helpers that it has. begun: what `begin` gave."""
    call_worker(load_i64(call + WORK), call)
    if begun == 0:
        return 0
    atomic_swap(pool + OPEN, 0)
    spins = 0
    while atomic_load(pool + ACTIVE) > 0:
        pause()
        spins += 1
        if spins > PATIENCE:
            system_call(YIELD, 0, 0, 0, 0)
    atomic_swap(pool + LOCK, 0)
    return 0


@kernel
def helper(pool: int) -> int:
    """Join jobs until told to end."""
    turn = atomic_load(pool + TURN)
    while True:
        spins = 0
        while atomic_load(pool + TURN) == turn and spins < SPINS:
            pause()
            spins += 1
        while atomic_load(pool + TURN) == turn and atomic_load(pool + STOP) == 0:
            atomic_add(pool + SLEEPERS, 1)
            system_call(FUTEX, pool + TURN, FUTEX_WAIT, turn & WORD, 0)
            atomic_add(pool + SLEEPERS, -1)
        if atomic_load(pool + STOP) != 0:
            return 0
        turn = atomic_load(pool + TURN)
        # ACTIVE first: a caller that has closed the job and sees none active knows that none will join.
        atomic_add(pool + ACTIVE, 1)
        if atomic_load(pool + OPEN) == 1 and atomic_add(pool + SEATS, -1) > 0:
            joined = atomic_load(pool + CALL)
            call_worker(load_i64(joined + WORK), joined)
        atomic_add(pool + ACTIVE, -1)
