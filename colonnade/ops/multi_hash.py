"""`multi_hash`: one of several numbers that a large id is written as."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, MapOp, Value

FACTORS = (1, 3, 5, 7)
PRIME_FACTORS = (29, 47, 67, 83)
MOST_BUCKETS = 2**31


@dataclass(frozen=True)
class MultiHash(MapOp):
    """`out = floor_mod(x * f, p) % buckets`; f = 1, 3, 5, 7 and p = the greatest prime <= 29, 47, 67, 83 * buckets.

    part: which f and p.   Facts: the product wraps around in 64 bits; a remainder by p is never negative.
    Source: IDMultiHash of RecIS, whose embeddings of all parts are joined.
    """

    part: int
    buckets: int

    @property
    def prime(self) -> int:
        """p."""
        return greatest_prime(PRIME_FACTORS[self.part] * self.buckets)

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """int64 in 0 .. buckets - 1."""
        (x,) = args
        if x.dtype != "int64" or not 0 <= self.part < len(FACTORS) or not 1 <= self.buckets <= MOST_BUCKETS:
            raise ShapeError(
                "multi_hash takes int64, parts 0 to 3 and buckets", got=f"{x.dtype}, {self.part}, {self.buckets}"
            )
        return ElementFacts("int64", 0, self.buckets - 1)

    def reference(self, *args: Value) -> Value:
        """In numpy, whose remainder has the sign of the divisor."""
        product = np.asarray(args[0], np.int64) * np.int64(FACTORS[self.part])
        return torch.from_numpy(product % np.int64(self.prime) % np.int64(self.buckets))


def greatest_prime(most: int) -> int:
    """The greatest prime that is not above a number; 2 <= most < 2^64."""
    found = most
    while not _is_prime(found):
        found -= 1
    return found


def _is_prime(n: int) -> bool:
    """Source: Miller and Rabin; these bases decide every n < 2^64."""
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if n < 2 or any(n % p == 0 for p in bases):
        return n in bases
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(_passes(n, base, odd, twos) for base in bases)


def _passes(n: int, base: int, odd: int, twos: int) -> bool:
    x = pow(base, odd, n)
    if x in (1, n - 1):
        return True
    for _ in range(twos - 1):
        x = x * x % n
        if x == n - 1:
            return True
    return False
