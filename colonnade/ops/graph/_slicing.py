"""What `slice` and `strided_slice` share: a plan of one step a dim, run on arrays or on facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Content, Facts, Indexed, Order, Packed, Shape, Term
from colonnade.ops.graph._facts import flat, grid, kept, nonnegative
from colonnade.ops.op import Lowered


@dataclass(frozen=True, slots=True)
class Cut:
    """`x[begin : begin + size * step : step]` of one dim. Facts: begin and size are known to lie inside."""

    begin: Dim | None
    size: Dim
    step: int = 1


@dataclass(frozen=True, slots=True)
class Take:
    """`x[at]` of one dim, which disappears; None: the place is unknown."""

    at: Dim | None


@dataclass(frozen=True, slots=True)
class New:
    """A new dim of size 1."""


Step = Cut | Take | New


def whole(step: Step, dim: Dim) -> bool:
    """Whether the step keeps all elements of the dim, in order."""
    if isinstance(step, Take):
        return dim == 1
    return isinstance(step, New) or (step.begin == 0 and step.step == 1 and step.size == dim)


def cut_facts(x: Facts, steps: Sequence[Step]) -> Facts:
    """Facts of the cut tensor. `steps` has one step a dim of x, and `New` between them."""
    assert x.shape is not None
    shape = _shape(steps)
    real = [s for s in steps if not isinstance(s, New)]
    if all(whole(s, d) for s, d in zip(real, x.shape, strict=True)):
        return kept(x, shape)
    part = _part(x, steps)
    if part is not None:
        return part
    content = _content(x, steps)
    return facts.facts(x.dtype, shape, lo=x.lo, hi=x.hi, content=content, packed=_packed(x, steps), **_rows(x, steps))


def _shape(steps: Sequence[Step]) -> Shape:
    return tuple(1 if isinstance(s, New) else s.size for s in steps if not isinstance(s, Take))


def _part(x: Facts, steps: Sequence[Step]) -> Facts | None:
    """One part of a stack, where the steps take just that."""
    if x.packed is None or x.shape is None or len(steps) != 2:
        return None
    along, across = steps[x.packed.axis], steps[1 - x.packed.axis]
    if isinstance(along, New) or isinstance(across, New):
        return None
    at = along.at if isinstance(along, Take) else None
    if not isinstance(at, int):
        return None
    part = x.packed.parts[at]
    return part if whole(across, x.shape[1 - x.packed.axis]) else cut_facts(part, [across])


def _packed(x: Facts, steps: Sequence[Step]) -> Packed | None:
    if x.packed is None or len(steps) != 2:
        return None
    along, across = steps[x.packed.axis], steps[1 - x.packed.axis]
    if not isinstance(along, Cut) or not isinstance(across, Cut):
        return None
    if not isinstance(along.begin, int) or not isinstance(along.size, int) or along.size == 0:
        return None
    chosen = [x.packed.parts[along.begin + k * along.step] for k in range(along.size)]
    return Packed(x.packed.axis, tuple(cut_facts(p, [across]) for p in chosen))


def _content(x: Facts, steps: Sequence[Step]) -> Content | None:
    known = grid(x)
    if known is not None and all(_static(s) for s in steps):
        return flat(known[indexer(steps)])
    if isinstance(x.content, Indexed) and x.rank == 1 and len(steps) == 1:
        return _shifted(x.content, steps[0])
    return None


def _static(step: Step) -> bool:
    match step:
        case Take(at):
            return isinstance(at, int)
        case Cut(begin, size):
            return isinstance(begin, int) and isinstance(size, int)
    return True


def _shifted(content: Indexed, step: Step) -> Content | None:
    """`i -> content(begin + step * i)` where no term is cut by a divisor or modulus."""
    at = step.at if isinstance(step, Take) else step.begin if isinstance(step, Cut) else None
    if at is None or any(t.divisor != 1 or t.modulus is not None for t in content.terms):
        return None
    constant = dims.add(content.constant, *(dims.mul(t.coefficient, at) for t in content.terms))
    if isinstance(step, Take):
        return (constant,)
    assert isinstance(step, Cut)
    terms = tuple(Term(dims.mul(t.coefficient, step.step), 1, None) for t in content.terms)
    return facts.indexed(terms, constant, step.size)


def _rows(x: Facts, steps: Sequence[Step]) -> dict[str, Any]:
    """Order and distinctness of what is left of the rows."""
    if not steps or not isinstance(steps[0], Cut) or any(isinstance(s, New) for s in steps):
        return {}
    assert x.shape is not None
    forward = steps[0].step > 0
    if all(whole(s, d) for s, d in zip(steps[1:], x.shape[1:], strict=True)):
        return {"order": x.order if forward else Order.NONE, "distinct": x.distinct}
    prefix = len(steps) == 2 and isinstance(steps[1], Cut) and steps[1].begin == 0 and steps[1].step == 1
    if forward and prefix and x.order >= Order.NONDECREASING:
        return {"order": Order.NONDECREASING}
    return {}


def indexer(steps: Sequence[Step]) -> tuple[Any, ...]:
    """The numpy index that does it. Facts: every number in the steps is known."""
    made: list[Any] = []
    for s in steps:
        match s:
            case New():
                made.append(np.newaxis)
            case Take(at):
                made.append(at)
            case Cut(begin, size, step):
                assert isinstance(begin, int) and isinstance(size, int)
                end = begin + size * step
                made.append(slice(begin, None if end < 0 else end, step) if size > 0 else slice(0, 0))
    return tuple(made)


def clamp(begin: Dim | None, end: Dim | None, step: int, dim: Dim, fresh: Callable[[], Dim]) -> Cut:
    """The elements `begin : end : step` of a dim as Python slices it (None: from or to the very end).

    Facts: on a dim of unknown size the answer is symbolic where clamping provably does nothing, else a fresh size.
    """
    if isinstance(dim, int) and all(v is None or isinstance(v, int) for v in (begin, end)):
        first, last, _ = slice(begin, end, step).indices(dim)
        return Cut(first, len(range(first, last, step)), step)
    if step == -1 and begin is None and end is None:
        return Cut(dims.sub(dim, 1), dim, -1)
    if step != 1:
        return Cut(None, fresh(), step)
    cut = _one_end(begin, end, dim)
    if cut is not None:
        return cut
    first_dim = _inside(0 if begin is None else begin, dim)
    last_dim = dim if end is None else _inside(end, dim)
    if first_dim is not None and last_dim is not None:
        size = dims.sub(last_dim, first_dim)
        return Cut(first_dim, size if nonnegative(size) else fresh())
    return Cut(first_dim, fresh())


def _one_end(begin: Dim | None, end: Dim | None, dim: Dim) -> Cut | None:
    """`k:`, `-k:` and `:-k` of a dim that may have fewer than k elements."""
    if isinstance(begin, int) and begin > 0 and end is None:
        return Cut(begin, dims.maximum(dims.sub(dim, begin), 0))
    if isinstance(begin, int) and begin < 0 and end is None:
        first = dims.maximum(dims.add(dim, begin), 0)
        return Cut(first, dims.sub(dim, first))
    if begin in (None, 0) and isinstance(end, int) and end < 0:
        return Cut(0, dims.maximum(dims.add(dim, end), 0))
    return None


def lower_steps(value: Any, shape: Shape, steps: Sequence[Step]) -> Lowered | None:
    """One aten call a dim that is touched; None where a place is not known."""
    made: Any = value
    axis = 0
    sizes = iter(shape)
    for step in steps:
        call: Lowered | None
        if isinstance(step, New):
            call = Lowered("aten.unsqueeze.default", (made, axis))
        elif isinstance(step, Take):
            call = None if step.at is None else Lowered("aten.select.int", (made, axis, step.at))
            next(sizes)
            axis -= 1
        else:
            dim = next(sizes)
            if whole(step, dim):
                axis += 1
                continue
            call = _lower_cut(made, axis, dim, step)
        if call is None:
            return None
        made = call
        axis += 1
    return made if isinstance(made, Lowered) else Lowered("aten.alias.default", (value,))


def _lower_cut(value: Any, axis: int, dim: Dim, cut: Cut) -> Lowered | None:
    begin, size, step = cut.begin, cut.size, cut.step
    if step == -1 and size == dim:
        return Lowered("aten.flip.default", (value, (axis,)))
    if begin is None:
        return None
    if not isinstance(dim, int) or not isinstance(begin, int) or not isinstance(size, int):
        if isinstance(begin, int) and begin > 0 and size == dims.maximum(dims.sub(dim, begin), 0):
            return Lowered("aten.slice.Tensor", (value, axis, begin))  # cut off where the dim is shorter
        # A block may reach beyond the dim: aten.slice would cut it off silently.
        return Lowered("aten.narrow.default", (value, axis, begin, size)) if step == 1 else None
    if step > 0:
        return Lowered("aten.slice.Tensor", (value, axis, begin, begin + size * step, step))
    if size == 0:
        return Lowered("aten.slice.Tensor", (value, axis, 0, 0))
    upward = Lowered("aten.slice.Tensor", (value, axis, begin + (size - 1) * step, begin + 1, -step))
    return Lowered("aten.flip.default", (upward, (axis,)))


def _inside(place: Dim, dim: Dim) -> Dim | None:
    """The place counted from 0, where it provably lies in 0 .. dim."""
    if place == 0 or place == dim:
        return place
    if nonnegative(place):
        return place if nonnegative(dims.sub(dim, place)) else None
    counted = dims.add(dim, place)
    return counted if isinstance(place, int) and nonnegative(counted) else None
