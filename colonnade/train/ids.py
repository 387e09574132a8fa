"""The ids of many features of a batch, packed.

Legend: F features; B batch rows; N ids of all features; L lists of a feature.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import torch

from colonnade.core.ragged import Ragged
from colonnade.core.rows import falls
from colonnade.errors import FeedError, listed

MOST_IDS = 2**31 - 1


@dataclass(frozen=True)
class PackedIds:
    """Ids of many features, one behind the other. values: int64 [N].   offsets: int64 [F, B + 1] into values.

    weights: float32 [N], 1 for features that have none.   weighted: which features have weights.
    lists: int64 [L + 1] into values, of the features whose batch rows hold lists, by number.
    """

    values: torch.Tensor
    offsets: torch.Tensor
    weights: torch.Tensor | None
    weighted: tuple[bool, ...]
    lists: Mapping[int, torch.Tensor] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        """The number of batch rows."""
        return self.offsets.shape[1] - 1


def check_count(count: int) -> None:
    """Errors: FeedError where a batch has more ids than can be numbered."""
    if count > MOST_IDS:
        raise FeedError("a batch with too many ids", got=f"{count:,}", want=f"{MOST_IDS:,} at most")


def check(packed: PackedIds, num_features: int, with_lists: AbstractSet[int] = frozenset()) -> None:
    """Errors: FeedError, unless the ids are what `pack` gives: loops read them by address."""
    values, offsets, weights = packed.values, packed.offsets, packed.weights
    fits = values.dtype == torch.int64 and values.dim() == 1 and values.is_contiguous() and len(values) <= MOST_IDS
    fits = fits and offsets.dtype == torch.int64 and offsets.dim() == 2 and offsets.is_contiguous()
    fits = fits and offsets.shape[0] == len(packed.weighted) == num_features and offsets.shape[1] > 0
    if fits and num_features:
        ends = torch.cat([torch.zeros(1, dtype=torch.int64, device=offsets.device), offsets[:, -1]])
        fits = bool(torch.equal(offsets[:, 0], ends[:-1]) and ends[-1] == len(values))
        fits = fits and not bool((offsets[:, 1:] < offsets[:, :-1]).any())
    fits = fits and set(packed.lists) == with_lists
    fits = fits and all(_are_lists(ends, offsets[f]) for f, ends in packed.lists.items())
    if weights is not None:
        fits = fits and weights.dtype == torch.float32 and weights.shape == values.shape
    if not fits:
        got = f"values {values.dtype} {list(values.shape)}, offsets {offsets.dtype} {list(offsets.shape)}"
        want = (
            f"int64 values [N], and offsets [{num_features}, B + 1] that lead from 0 to N, one feature behind the other"
        )
        raise FeedError("packed ids that cannot be read", got=got, want=want)


def _are_lists(ends: torch.Tensor, offsets: torch.Tensor) -> bool:
    fits = ends.dtype == torch.int64 and ends.dim() == 1 and ends.is_contiguous() and len(ends) > 0
    fits = fits and bool(ends[0] == offsets[0] and ends[-1] == offsets[-1])
    return fits and not bool((ends[1:] < ends[:-1]).any())


def pack(names: Sequence[str], batch: Mapping[str, Ragged], with_lists: AbstractSet[int] = frozenset()) -> PackedIds:
    """The ids of the named features, in their order. with_lists: the numbers of those whose rows hold lists.

    Errors: FeedError that lists every feature that is missing or is no ids of one batch.
    """
    problems = [f"{name!r}: missing" for name in names if name not in batch]
    given = {name: batch[name] for name in names if name in batch}
    levels = {name: 2 if f in with_lists else 1 for f, name in enumerate(names)}
    problems += [f"{name!r}: {problem}" for name, ids in given.items() for problem in _problems(ids, levels[name])]
    if not problems and len({len(ids.offsets[0]) for ids in given.values()}) > 1:
        problems = [f"{name!r}: offsets [{len(ids.offsets[0])}]" for name, ids in given.items()]
    if not problems:
        problems = [f"{name!r}: {problem}" for name, problem in _misplaced(given)]
    if problems:
        raise FeedError(
            "a batch whose ids cannot be read",
            got=listed(problems),
            want="for each feature one level (two of lists): values int64 [N], offsets int64 [B + 1] from 0 to N that "
            "do not fall, the same B, and weights, if any, float32 [N]",
        )
    return _packed(list(given.values()))


def _problems(ids: Ragged, levels: int) -> Iterator[str]:
    if not isinstance(ids, Ragged):
        yield f"{type(ids).__name__}, want Ragged"
        return
    if ids.levels != levels:
        yield f"{ids.levels} levels of offsets" + ("" if levels == 1 else f", want {levels}")
    parts = [("values", ids.values, torch.int64), *(("offsets", level, torch.int64) for level in ids.offsets)]
    if ids.weights is not None:
        parts.append(("weights", ids.weights, torch.float32))
    for what, tensor, dtype in parts:
        if not isinstance(tensor, torch.Tensor):
            yield f"{what} {type(tensor).__name__}"
        elif tensor.dtype != dtype or tensor.dim() != 1 or tensor.layout != torch.strided:
            form = "" if tensor.layout == torch.strided else f" {tensor.layout}"
            yield f"{what} {tensor.dtype} {list(tensor.shape)}{form}"
        elif tensor.is_meta or (what == "offsets" and tensor.device.type != "cpu"):
            yield f"{what} on {tensor.device}"
        elif what == "weights" and tensor.shape != ids.values.shape:
            yield f"weights {tensor.dtype} {list(tensor.shape)} for {len(ids.values)} values"


def _misplaced(given: Mapping[str, Ragged]) -> Iterator[tuple[str, str]]:
    """What is wrong with offsets of one length."""
    if not given:
        return
    outer = torch.stack([ids.offsets[0] for ids in given.values()])
    sizes = [len(ids.values) if ids.levels == 1 else len(ids.offsets[1]) - 1 for ids in given.values()]
    yield from ((list(given)[at], fault) for at, fault in _falling(outer, sizes, "values or lists"))
    for name, ids in given.items():
        if ids.levels == 2:
            yield from ((name, fault) for _, fault in _falling(ids.offsets[1][None], [len(ids.values)], "values"))


def _falling(offsets: torch.Tensor, sizes: Sequence[int], what: str) -> Iterator[tuple[int, str]]:
    """The rows of offsets that do not lead from 0 to their size."""
    if offsets.shape[1] == 0:
        yield from ((row, "no offsets, where even an empty batch has one") for row in range(len(offsets)))
        return
    ends = torch.tensor(sizes, dtype=torch.int64)
    wrong = (offsets[:, 0] != 0) | (offsets[:, -1] != ends) | falls(offsets).any(1)
    for row in torch.nonzero(wrong).flatten().tolist():
        yield row, f"offsets {offsets[row].tolist()[:9]} for {sizes[row]} {what}"


def elements_of(ids: Ragged) -> torch.Tensor:
    """Where the elements of each batch row begin, whatever lists they lie in, int64 [B + 1]."""
    return ids.offsets[0] if ids.levels == 1 else ids.offsets[1][ids.offsets[0]]


def _factors(ids: Ragged) -> torch.Tensor:
    return torch.ones(len(ids.values), dtype=torch.float32) if ids.weights is None else ids.weights


def _packed(given: Sequence[Ragged]) -> PackedIds:
    weighted = tuple(ids.weights is not None for ids in given)
    starts = torch.tensor([0, *(len(ids.values) for ids in given)], dtype=torch.int64).cumsum(0)
    check_count(int(starts[-1]))
    weights = None
    if any(weighted):
        parts = [_factors(ids) for ids in given]
        weights = torch.cat(parts)
    offsets = torch.stack([elements_of(ids) for ids in given]) + starts[:-1, None]
    lists = {f: ids.offsets[1] + starts[f] for f, ids in enumerate(given) if ids.levels == 2}
    return PackedIds(torch.cat([ids.values for ids in given]), offsets, weights, weighted, lists)
