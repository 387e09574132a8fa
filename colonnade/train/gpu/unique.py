"""Each key of a batch once, on a device.

Legend: F features; N ids of all features; T tables of all groups; U distinct keys of a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from colonnade.errors import OptionError
from colonnade.train.gpu.module import kernels

BLOCK, SPARE, COUNTED, FIRST, FEATURES = 128, 1 << 14, 128, 8, 256
COUNTING, COUNTING_WARPS = 1024, 4
"""Ids of a program that counts, and its warps."""
LEAST_SAMPLED, SAMPLE = 1 << 18, 1024
"""Ids from which on a sample finds the frequent ones, so that their keys come first; and how many are in it."""
MOST_STAMP = 255
TAG_BITS = 24
FEATURE_WORDS = 8


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

    @property
    def parts(self) -> tuple[torch.Tensor, ...]:
        """The parts, in the order in which kernels take them."""
        return self.hashes, self.tables, self.ids, self.counts

    def take(self, which: torch.Tensor | slice) -> Keys:
        """Some of them."""
        return Keys(self.hashes[which], self.tables[which], self.ids[which], self.counts[which])

    def split(self, sizes: Sequence[int]) -> Iterator[Keys]:
        """Keys one behind the other."""
        return (Keys(*own) for own in zip(*(part.split(sizes) for part in self.parts), strict=True))

    @staticmethod
    def empty(count: int, device: torch.device) -> Keys:
        """Room for keys; each part begins at a multiple of 16 bytes."""
        padded = count + -count % 4
        longs, ints = (torch.empty(2, padded, dtype=t, device=device)[:, :count] for t in (torch.int64, torch.int32))
        return Keys(longs[0], ints[0], longs[1], ints[1])


@dataclass(frozen=True)
class Members:
    """Features and what they look up. words: int64 [F, 4] of (row of the offsets, table, hash key, group)."""

    words: torch.Tensor
    num_tables: int
    num_groups: int

    def __len__(self) -> int:
        return len(self.words)

    @staticmethod
    def of(
        features: Sequence[int],
        tables: Sequence[int],
        hash_keys: Sequence[int],
        groups: Sequence[int],
        device: torch.device,
    ) -> Members:
        """features, tables: [F], of each feature its row of the offsets, and its table.   hash_keys, groups: [T].

        Facts: groups do not fall.   Errors: OptionError for more tables than 2^23.
        """
        bits = TAG_BITS - (len(groups) - 1).bit_length()
        if bits < 1:
            want = f"{1 << (TAG_BITS - 1):,} at most"
            raise OptionError("more tables than can lie on a device", got=f"{len(groups):,}", want=want)
        own = np.asarray(tables, np.int64)
        keys = np.array(hash_keys, np.uint64).view(np.int64)
        words = np.stack([np.asarray(features, np.int64), own, keys[own], np.asarray(groups, np.int64)[own]], 1)
        placed = torch.from_numpy(words[own.argsort(kind="stable")]).to(device)
        return Members(placed, len(groups), max(groups, default=-1) + 1)


@dataclass(frozen=True)
class Found:
    """Distinct keys, group by group, of tables of all groups. counts: int32 [groups], how many there are of each.

    bases: int64 [groups], where in `keys` those of each begin.   Facts: lies where the next batch will be written.
    """

    keys: Keys
    counts: torch.Tensor
    bases: torch.Tensor


class Unique:
    """Numbers the distinct keys of batches; keeps the memory that it works in. Facts: for one stream at a time."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._kernels = kernels(device.type, "unique")
        self._slots = torch.zeros(64, dtype=torch.int64, device=device)
        self._spare = torch.zeros(SPARE, dtype=torch.int64, device=device)
        self._stamp = 0
        self._masked = device.type == "cuda"
        self._made = Keys.empty(0, device)
        self._numbers = torch.empty(0, dtype=torch.int32, device=device)

    def run(
        self, members: Members, offsets: torch.Tensor, values: torch.Tensor, inverse: torch.Tensor, *, ordered: bool
    ) -> Found:
        """The distinct keys of each group. Facts: does not wait for the device.

        offsets: int64 [features, B + 1] into values, in which no two features share ids.   values: int64 [N].
        inverse: int32 [N], the number of each id's key in its group, written at the members' places.
        ordered: number them table by table in the order in which they first occur; else the order differs from run to
        run.
        """
        count, num = len(values), len(members)
        made, numbers = self._room(count)
        found = torch.zeros(members.num_groups, dtype=torch.int32, device=self.device)
        bases = torch.zeros(members.num_groups, dtype=torch.int64, device=self.device)
        if num == 0 or count == 0:
            return Found(made, found, bases)
        features, owning, counting = self._described(members, offsets, bases, ordered)
        parts = made.parts
        programs = -(-count // BLOCK) + num
        shared = (features, owning, num)
        given = (values, *shared, *self._stamped(count, members.num_tables), inverse, numbers, found, *parts)
        constants = {"SPARE": SPARE, "MASKED": self._masked, "ORDERED": ordered, "TILE": BLOCK}
        if count >= LEAST_SAMPLED and not ordered:
            self._kernels.launch("own", 1, *given, BLOCK=SAMPLE, SAMPLED=True, num_warps=_warps(SAMPLE, 8), **constants)
        of_all = {"BLOCK": BLOCK, "SAMPLED": False, "num_warps": _warps(BLOCK, 4)}
        self._kernels.launch("own", programs, *given, **of_all, **constants)
        if ordered:
            leads = torch.zeros(count, dtype=torch.int32, device=self.device)
            self._kernels.launch("earliest", programs, *shared, inverse, numbers, BLOCK=BLOCK)
            self._kernels.launch("lead", programs, *shared, inverse, numbers, leads, BLOCK=BLOCK)
            sums = leads.cumsum(0, dtype=torch.int32)
            listed = (inverse, sums, numbers, found)
            self._kernels.launch("list_keys", programs, values, *shared, *listed, *parts, BLOCK=BLOCK)
        programs = -(-count // COUNTING) + num
        constants = {"BLOCK": COUNTING, "COUNTED": COUNTED, "FIRST": FIRST, "num_warps": COUNTING_WARPS}
        self._kernels.launch("settle", programs, features, counting, num, inverse, numbers, made.counts, **constants)
        return Found(made, found, bases)

    def _stamped(self, count: int, tables: int) -> tuple[torch.Tensor, torch.Tensor, int, int, int]:
        """Slots that count as empty, and what the kernel must know of them."""
        wanted = 1 << max(2 * count - 1, 63).bit_length()
        if wanted > len(self._slots):
            self._slots = torch.zeros(wanted, dtype=torch.int64, device=self.device)
            self._stamp = 0
        elif self._stamp == MOST_STAMP:
            self._slots.zero_()
            self._stamp = 0
        self._stamp += 1
        return self._slots, self._spare, wanted, self._stamp, TAG_BITS - (tables - 1).bit_length()

    def _room(self, count: int) -> tuple[Keys, torch.Tensor]:
        if count > len(self._made):
            self._made = Keys.empty(count, self.device)
            self._numbers = torch.empty(count, dtype=torch.int32, device=self.device)
        return self._made, self._numbers

    def _described(
        self, members: Members, offsets: torch.Tensor, bases: torch.Tensor, ordered: bool
    ) -> tuple[torch.Tensor, ...]:
        """The features as kernels read them, and the tiles before each."""
        num = len(members)
        memory = torch.empty((FEATURE_WORDS + 2) * num, dtype=torch.int64, device=self.device)
        words, owning, counting = memory.split((FEATURE_WORDS * num, num, num))
        given = (members.words, offsets, offsets.stride(0), offsets.shape[1] - 1, words, owning, counting, bases, num)
        constants = {"SHIFTED": ordered, "OWN": BLOCK, "COUNT": COUNTING, "BLOCK": FEATURES}
        self._kernels.launch("describe", 1, *given, **constants)
        return words, owning, counting


def _warps(lanes: int, most: int) -> int:
    """Warps of a program that swaps: a lane that several threads held would be swapped by each of them."""
    return max(1, min(most, lanes // 32))
