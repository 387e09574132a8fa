"""Each step of a training step alone: set up, what torch does instead, and whether both agree.

Legend: N ids; U distinct ids; D embedding_dim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from colonnade.backends.memory import address_of
from colonnade.train.compiled import LOOPS
from colonnade.train.initializers import Uniform
from colonnade.train.loops.share import COUNT
from colonnade.train.loops.update import NUM_SCALARS
from colonnade.train.optimizers import Adagrad
from colonnade.train.reduce.cpu import cpu_pooling
from colonnade.train.reduce.segment import Elements, Segment, SegmentPlan
from colonnade.train.reduce.unique import Unique
from colonnade.train.segments import read_layout
from colonnade.train.tables.layout import Layout
from colonnade.train.tables.store import Fresh, Store

DIM, LENGTH = 16, 10
RATE = 0.1


@dataclass(frozen=True)
class Case:
    """ours, theirs: one call each.   agree: whether both give the same.   units: ids or rows of a call.

    kept: what loops read by address.
    """

    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    agree: Callable[[], bool]
    units: int
    kept: Any = None


def _ids(count: int, distinct: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    numbers = rng.permutation(distinct) if distinct >= count else rng.integers(0, distinct, count)
    return numbers[:count].astype(np.int64) * 7919


def _store() -> Store:
    optimizer = Adagrad(RATE)
    fresh = Fresh(1, 2, Uniform().draw(DIM), np.array(optimizer.fresh(DIM), np.float32))
    return Store("benchmark", Layout(DIM, "float32", optimizer.num_states(DIM)), [fresh])


def unique(count: int) -> Case:
    """Distinct ids, their numbers and counts; half of the ids are distinct ones."""
    values, store, work = _ids(count, count // 2), _store(), Unique()
    inverse, one = np.empty(count, np.int32), np.zeros(1, np.int64)
    theirs = torch.from_numpy(values)

    def ours() -> Any:
        return work.run(store, one, one, np.array([count]), values, inverse)

    def agree() -> bool:
        keys, found = ours(), torch.unique(theirs)
        return np.array_equal(keys.ids[inverse], values) and np.array_equal(np.sort(keys.ids), found.numpy())

    return Case(ours, lambda: torch.unique(theirs, return_inverse=True, return_counts=True), agree, count)


def find(count: int) -> Case:
    """The rows of ids that all have one; torch searches a sorted list."""
    ids, store = _ids(count, count), _store()
    keys = store.keys(0, ids)
    rows = store.find(keys)[0]
    store.insert(keys, rows)
    keys = keys.take(np.random.default_rng(1).permutation(count))
    listed, wanted = torch.from_numpy(np.sort(ids)), torch.from_numpy(keys.ids)

    def agree() -> bool:
        return store.find(keys)[1] == 0 and np.array_equal(store.ids(store.find(keys)[0]), keys.ids)

    return Case(lambda: store.find(keys), lambda: torch.searchsorted(listed, wanted), agree, count)


def look_up(count: int) -> Case:
    """What a step does with ids that all have a row: find it, note the step, read its values."""
    ids, store = _ids(count, count), _store()
    keys = store.keys(0, ids)
    rows = store.find(keys)[0]
    store.insert(keys, rows)
    keys = keys.take(np.random.default_rng(1).permutation(count))
    order, wanted = np.argsort(ids), torch.from_numpy(keys.ids)
    listed, values = torch.from_numpy(ids[order]), torch.from_numpy(store.gather(keys, rows[order]))

    def theirs() -> torch.Tensor:
        return values[torch.searchsorted(listed, wanted)]

    return Case(
        lambda: store.look_up(keys, 1), theirs, lambda: np.array_equal(store.look_up(keys, 1)[1], theirs()), count
    )


def _bags(count: int) -> tuple[SegmentPlan, Elements, torch.Tensor]:
    rng = np.random.default_rng(0)
    inverse = np.minimum(rng.zipf(1.3, count) - 1, 99_999).astype(np.int32)
    offsets = np.arange(0, count + 1, LENGTH, dtype=np.int64)[None, :]
    rows = torch.from_numpy(rng.normal(size=(100_000, DIM)).astype(np.float32))
    elements = Elements(torch.from_numpy(offsets), torch.from_numpy(inverse), (False,))
    return SegmentPlan([Segment(0, DIM, "sum", 0)], [DIM]), elements, rows


def pool(count: int) -> Case:
    """Sums of ten rows of 16."""
    plan, elements, rows = _bags(count)
    ids, offsets = elements.inverse.long(), elements.offsets[0, :-1].clone()

    def theirs() -> torch.Tensor:
        return torch.nn.functional.embedding_bag(ids, rows, offsets, mode="sum")

    def ours() -> torch.Tensor:
        with torch.no_grad():
            return plan.run(elements, None, [rows])[0]

    return Case(ours, theirs, lambda: torch.allclose(ours(), theirs(), rtol=1e-4, atol=1e-4), count)


def merge(count: int) -> Case:
    """Gradients of bags of ten, added for each distinct row."""
    plan, elements, rows = _bags(count)
    (out,) = plan.run(elements, None, [rows])
    grad, ids = torch.randn(out.shape), elements.inverse.long()
    made, other = torch.zeros_like(rows), torch.zeros_like(rows)
    pooling = cpu_pooling(read_layout(plan.text_of(())))

    def ours() -> Any:
        pooling.spread((elements.offsets, elements.inverse, None), [rows], [out], [grad], [made], None)

    def theirs() -> Any:
        return other.index_add_(0, ids, grad.repeat_interleave(LENGTH, 0))

    def agree() -> bool:
        made.zero_()
        other.zero_()
        ours()
        theirs()
        return torch.allclose(made, other, rtol=1e-3, atol=1e-3)

    return Case(ours, theirs, agree, count, kept=(elements, rows, out))


def adagrad(count: int) -> Case:
    """Rows of 16 updated by Adagrad; torch's on a coalesced sparse gradient."""
    ids, store = _ids(count, count), _store()
    keys = store.keys(0, ids)
    rows = store.find(keys)[0]
    store.insert(keys, rows)
    weight = torch.nn.Parameter(torch.from_numpy(store.gather(keys, rows)))
    order = np.random.default_rng(1).permutation(count)
    chosen, grads = rows[order], torch.randn(count, DIM)
    scalars = np.zeros((1, NUM_SCALARS), np.float32)
    scalars[0, :3] = Adagrad(RATE).scalars(1, RATE)
    loops, other = LOOPS.warm(), torch.optim.Adagrad([weight], RATE)
    places = torch.from_numpy(order)
    weight.grad = torch.sparse_coo_tensor(places[None], grads, weight.shape, check_invariants=False).coalesce()

    def ours() -> Any:
        at = (address_of(chosen), address_of(keys.tables), grads.data_ptr())
        return loops.share("adagrad", (store.at, *at, count, address_of(scalars)), (0, 8, 8, 4 * DIM, COUNT, 0))

    def agree() -> bool:
        ours()
        other.step()
        return bool(np.allclose(store.gather(keys, rows), weight.detach().numpy(), rtol=1e-4, atol=1e-5))

    return Case(ours, other.step, agree, count)


CASES: dict[str, Callable[[int], Case]] = {
    "unique": unique,
    "find": find,
    "look_up": look_up,
    "pool": pool,
    "merge": merge,
    "adagrad": adagrad,
}
