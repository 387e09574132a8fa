"""Rows dealt out to parts of a work, so that each row has one writer."""

from __future__ import annotations

from colonnade.backends.memory import inlined

SPREAD, LOW = 0x9E3779B1, 0xFFFFFFFF


@inlined
def mine(u: int, part: int, parts: int) -> bool:
    """Whether a row is of this part. Facts: neighbouring rows are of other parts, as are the most frequent."""
    return parts == 1 or (((u * SPREAD) & LOW) * parts) >> 32 == part
