"""Integers printed as text, before they are hashed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from colonnade.backends.cpu.tiles.hash_decimal import LONGEST, print_decimal

MEMORY = np.zeros(LONGEST + 8, np.uint8)
POWERS = [sign * 10**k + d for k in range(19) for sign in (1, -1) for d in (-1, 0, 1)]


def _printed(value: int) -> str:
    MEMORY[...] = ord("x")
    length = print_decimal(value, MEMORY.ctypes.data + LONGEST)
    assert bytes(MEMORY[LONGEST:]) == b"x" * 8, "it wrote behind its end"
    return bytes(MEMORY[LONGEST - length : LONGEST]).decode()


def test_every_length_and_its_neighbours() -> None:
    for value in [*POWERS, 0, -(2**63), 2**63 - 1, *range(0, 10**8, 99_991)]:
        assert _printed(value) == str(value)


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_integer(value: int) -> None:
    assert _printed(value) == str(value)
