"""Each key of a batch once, on a device.

Legend: F features; N ids of all features; U distinct keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.errors import OptionError
from colonnade.train.gpu.module import kernels

BLOCK, SPARE, COUNTED, FIRST, FEATURES = 128, 1 << 14, 1024, 8, 256
COUNTING = 2048
"""Ids of a program that counts."""
LEAST_SAMPLED, SAMPLE = 1 << 18, 1024
"""Ids from which on a sample finds the frequent ones, so that their keys come first; and how many are in it."""
MOST_STAMP = 255
TAG_BITS = 24


@dataclass(frozen=True)
class Keys:
    """Distinct keys. hashes: int64 [U], bits of uint64.   tables: int32 [U].   ids: int64 [U].   counts: int32 [U], how
    often each occurred.
    """

    hashes: torch.Tensor
    tables: torch.Tensor
    ids: torch.Tensor
    counts: torch.Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, which: torch.Tensor | slice) -> Keys:
        """Some of them."""
        return Keys(self.hashes[which], self.tables[which], self.ids[which], self.counts[which])


class Unique:
    """Numbers the distinct keys of batches; keeps the memory that it works in. Facts: for one stream at a time.

    ordered: number them table by table in the order in which they first occur; else the order differs from run to run.
    """

    def __init__(self, device: torch.device, *, ordered: bool = False) -> None:
        self.device, self.ordered = device, ordered
        self._kernels = kernels(device.type, "unique")
        self._slots = torch.zeros(64, dtype=torch.int64, device=device)
        self._spare = torch.zeros(SPARE, dtype=torch.int64, device=device)
        self._stamp = 0
        self._masked = device.type == "cuda"

    def run(
        self,
        hash_keys: torch.Tensor,
        tables: torch.Tensor,
        starts: torch.Tensor,
        sizes: torch.Tensor,
        values: torch.Tensor,
        inverse: torch.Tensor,
        beside: torch.Tensor,
    ) -> tuple[Keys, list[int]]:
        """The distinct keys, and the numbers `beside`. Facts: waits for the device once, for theirs and for these.

        hash_keys: int64 [tables].   tables, starts, sizes: int64 [F], of each feature its table and where its ids lie,
        which are not another feature's.   values: int64 [N].   inverse: int32 [N], the number of each id's key,
        written at the features' places.   Errors: OptionError for more tables than 2^23.
        """
        count, num = len(values), len(tables)
        made = self._room(count)
        if num == 0 or count == 0:
            return made.take(slice(0, 0)), beside.tolist()
        features, owning, counting = self._described(hash_keys, tables, starts, sizes)
        found = torch.zeros(1, dtype=torch.int32, device=self.device)
        numbers = torch.empty(count, dtype=torch.int32, device=self.device)
        parts = (made.hashes, made.tables, made.ids, made.counts)
        programs = -(-count // BLOCK) + num
        shared = (features, owning, num)
        given = (values, *shared, *self._stamped(count, len(hash_keys)), inverse, numbers, found, *parts)
        constants = {"SPARE": SPARE, "MASKED": self._masked, "ORDERED": self.ordered, "TILE": BLOCK}
        if count >= LEAST_SAMPLED and not self.ordered:
            self._kernels.launch("own", 1, *given, BLOCK=SAMPLE, SAMPLED=True, num_warps=_warps(SAMPLE, 8), **constants)
        of_all = {"BLOCK": BLOCK, "SAMPLED": False, "num_warps": _warps(BLOCK, 4)}
        self._kernels.launch("own", programs, *given, **of_all, **constants)
        if self.ordered:
            leads = torch.zeros(count, dtype=torch.int32, device=self.device)
            self._kernels.launch("earliest", programs, *shared, inverse, numbers, BLOCK=BLOCK)
            self._kernels.launch("lead", programs, *shared, inverse, numbers, leads, BLOCK=BLOCK)
            numbers = leads.cumsum(0, dtype=torch.int32)
            found = numbers[-1:].clone()
            self._kernels.launch("list_keys", programs, values, *shared, inverse, numbers, *parts, BLOCK=BLOCK)
        programs = -(-count // COUNTING) + num
        constants = {"BLOCK": COUNTING, "COUNTED": COUNTED, "FIRST": FIRST}
        self._kernels.launch("settle", programs, features, counting, num, inverse, numbers, made.counts, **constants)
        told = torch.cat((found, beside)).tolist()
        return made.take(slice(0, told[0])), told[1:]

    def _stamped(self, count: int, tables: int) -> tuple[torch.Tensor, torch.Tensor, int, int, int]:
        """Slots that count as empty, and what the kernel must know of them."""
        bits = TAG_BITS - (tables - 1).bit_length()
        if bits < 1:
            want = f"{1 << (TAG_BITS - 1):,} at most"
            raise OptionError("more tables of one layout than a device's store can have", got=f"{tables:,}", want=want)
        wanted = 1 << max(2 * count - 1, 63).bit_length()
        if wanted > len(self._slots):
            self._slots = torch.zeros(wanted, dtype=torch.int64, device=self.device)
            self._stamp = 0
        elif self._stamp == MOST_STAMP:
            self._slots.zero_()
            self._stamp = 0
        self._stamp += 1
        return self._slots, self._spare, wanted, self._stamp, bits

    def _room(self, count: int) -> Keys:
        longs = [torch.empty(count, dtype=torch.int64, device=self.device) for _ in range(2)]
        ints = [torch.empty(count, dtype=torch.int32, device=self.device) for _ in range(2)]
        return Keys(longs[0], ints[0], longs[1], ints[1])

    def _described(
        self, hash_keys: torch.Tensor, tables: torch.Tensor, starts: torch.Tensor, sizes: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """The features as kernels read them, and the tiles before each."""
        num = len(tables)
        shifts = sizes
        if self.ordered:
            order = tables.argsort(stable=True)
            ranks = sizes[order].cumsum(0) - sizes[order]
            shifts = torch.empty_like(sizes).scatter_(0, order, ranks - starts[order])
        memory = torch.empty(7 * num, dtype=torch.int64, device=self.device)
        words, owning, counting = memory[: 5 * num], memory[5 * num : 6 * num], memory[6 * num :]
        constants = {"SHIFTED": self.ordered, "OWN": BLOCK, "COUNT": COUNTING, "BLOCK": FEATURES}
        self._kernels.launch(
            "describe", 1, tables, starts, sizes, hash_keys, shifts, words, owning, counting, num, **constants
        )
        return words, owning, counting


def _warps(lanes: int, most: int) -> int:
    """Warps of a program that swaps: a lane that several threads held would be swapped by each of them."""
    return max(1, min(most, lanes // 32))
