"""What an initializer says, and the reference of what is drawn."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.errors import OptionError
from colonnade.train.loops import words as w

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Draw:
    """A distribution. kind: CONSTANT (a), UNIFORM (from a to below b), NORMAL (mean a, deviation b), TRUNCATED (normal,
    drawn again outside low to high).   Units: low and high are deviations from the mean.
    """

    kind: int
    a: float
    b: float = 0.0
    low: float = -math.inf
    high: float = math.inf


class Initializer(ABC):
    """A frozen dataclass that says what the values of a new row are drawn from.

    Facts: a value is a function of (seed, the table's key, id, its place in the row).
    """

    @abstractmethod
    def draw(self, embedding_dim: int) -> Draw:
        """The distribution of each value of a row of so many."""


def refuse_unless(holds: bool, what: object, want: str) -> None:
    """Errors: OptionError naming an initializer, unless the condition holds."""
    if not holds:
        raise OptionError("an initializer that draws nothing", got=str(what), want=want)


def draw_key(seed: int, table_key: str) -> int:
    """The 64-bit key of a table's random numbers."""
    salt = (seed % 2**64).to_bytes(8, "little")
    return int.from_bytes(hashlib.blake2b(table_key.encode(), digest_size=8, salt=salt).digest(), "little")


def reference(draw: Draw, key: int, ids: npt.NDArray[np.int64], embedding_dim: int) -> npt.NDArray[np.float32]:
    """The rows that ids get, `[N, D]`, made by numpy."""
    shape = (len(ids), embedding_dim)
    if draw.kind == w.CONSTANT:
        return np.full(shape, draw.a, np.float32)
    words_NK = random_words(key, ids, embedding_dim, 0)
    if draw.kind == w.UNIFORM:
        share = (words_NK >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
        made: npt.NDArray[np.float32] = np.float32(draw.a) + share * (np.float32(draw.b) - np.float32(draw.a))
        return made[:, :embedding_dim]
    z = _normals(words_NK)[:, :embedding_dim]
    attempt, outside = 0, (z < draw.low) | (z > draw.high)
    while outside.any():
        attempt += 1
        z = np.where(outside, _normals(random_words(key, ids, embedding_dim, attempt))[:, :embedding_dim], z)
        outside = (z < draw.low) | (z > draw.high)
    return (draw.a + draw.b * z).astype(np.float32)


def random_words(key: int, ids: npt.NDArray[np.int64], embedding_dim: int, attempt: int) -> Words:
    """Random numbers of 32 bits for each id, as many as values and up to three more."""
    low = np.uint64(0xFFFFFFFF)
    blocks = np.arange((embedding_dim + 3) // 4, dtype=np.uint64)[None, :]
    wide = ids.view(np.uint64)[:, None] + 0 * blocks
    c = [wide & low, wide >> np.uint64(32), 0 * wide + blocks, 0 * wide + np.uint64(attempt)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            (p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            p1 & low,
            (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            p0 & low,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, 2).reshape(len(ids), -1)


def _normals(words_NK: Words) -> npt.NDArray[Any]:
    x, y = (words_NK[:, k::2].astype(np.float64) + 0.5 for k in (0, 1))
    radius, angle = np.sqrt(-2 * np.log(x * 2.0**-32)), 2 * np.pi * (y * 2.0**-32)
    return np.stack((radius * np.cos(angle), radius * np.sin(angle)), 2).reshape(words_NK.shape)
