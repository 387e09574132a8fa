"""A batch of fields as users give it, held against what is declared of it. Nothing of the caller is written to.

Legend: B batch rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from colonnade.backends.feed_values import Unfit, as_array
from colonnade.core.ragged import Ragged
from colonnade.core.rows import falls
from colonnade.core.stored import stored
from colonnade.core.strings import Strings
from colonnade.errors import FeedError, listed
from colonnade.frontends.feature import FieldSpec
from colonnade.frontends.feature_set import READ_AS

LEARNS = "require a gradient, which a transform does not give; detach them, or look ids up by an `EmbeddingEngine`"


def read(batch: Mapping[str, Any], fields: Sequence[FieldSpec]) -> tuple[dict[str, Ragged], int]:
    """Every field as `Ragged`, and B.

    batch: a dense field `[B]` or `[B, width]` in any array; any other, and a weighted one, as `Ragged`.
    Facts: strings become `Strings` or stay; numbers are not copied unless they are read as another dtype.
    Errors: FeedError that lists every field that is missing or does not fit.
    """
    found: dict[str, Ragged] = {}
    wrong: list[str] = []
    for spec in fields:
        if spec.name not in batch:
            wrong.append(f"{spec.name!r} is missing")
            continue
        try:
            found[spec.name] = _field(batch[spec.name], spec)
        except Unfit as fault:
            wrong.append(f"{spec.name!r} {fault}")
    rows = {x.rows for x in found.values()}
    if len(rows) > 1 and not wrong:
        usual = max(rows, key=[x.rows for x in found.values()].count)
        wrong += [f"{name!r} has {x.rows} rows, others {usual}" for name, x in found.items() if x.rows != usual]
    if wrong:
        raise FeedError(f"{len(wrong)} fields do not fit their declaration", got=listed(wrong))
    return found, next(iter(rows), 0)


def lies_here(x: Any) -> bool:
    """Whether it is a tensor whose numbers lie in the host's memory, one by one."""
    return isinstance(x, torch.Tensor) and x.device.type == "cpu" and x.layout == torch.strided


def wants_gradient(x: Any) -> bool:
    """Whether autograd expects a gradient, which no transform gives."""
    return isinstance(x, torch.Tensor) and x.requires_grad and torch.is_grad_enabled()


def _field(value: Any, spec: FieldSpec) -> Ragged:
    if not isinstance(value, Ragged):
        if spec.ragged or spec.weighted:
            raise Unfit("is a plain array, want Ragged" + (" with weights" if spec.weighted else ""))
        return _dense(value, spec)
    levels = spec.ragged or 1
    if len(value.offsets) != levels:
        raise Unfit(f"has {len(value.offsets)} levels of offsets, want {levels}")
    values = _values(value.values, spec)
    value = Ragged(values, tuple(stored(level) for level in value.offsets), stored(value.weights))
    _check_offsets(value, _length(values), spec)
    weights = value.weights
    if (weights is not None) != spec.weighted:
        raise Unfit("has no weights" if weights is None else "has weights, which are not declared")
    if weights is None:
        return Ragged(values, tuple(level.contiguous() for level in value.offsets))
    if not lies_here(weights):
        raise Unfit(f"has weights that are {_form(weights)}, want a dense tensor on cpu")
    if weights.dtype != torch.float32 or weights.shape != (_length(values),):
        raise Unfit(f"has weights {weights.dtype}{list(weights.shape)}, want float32[{_length(values)}]")
    if wants_gradient(weights):
        raise Unfit(f"has weights that {LEARNS}")
    return Ragged(values, tuple(level.contiguous() for level in value.offsets), weights.contiguous())


def _dense(value: Any, spec: FieldSpec) -> Ragged:
    if isinstance(value, Strings):
        values = _values(value, spec)
        shape: tuple[int, ...] = (len(value) // spec.width, spec.width) if len(value) % spec.width == 0 else ()
    else:
        if wants_gradient(value):
            raise Unfit(f"has values that {LEARNS}")
        array = as_array(value, spec.dtype)
        shape = array.shape
        values = _values(array.reshape(-1), spec)
    if len(shape) not in (1, 2) or (shape[1] if len(shape) == 2 else 1) != spec.width:
        raise Unfit(f"is of shape {list(shape)}, want [B, {spec.width}]")
    return Ragged(values, (torch.arange(shape[0] + 1) * spec.width,))


def _values(values: Any, spec: FieldSpec) -> Any:
    if isinstance(values, Strings):
        if spec.dtype != "string":
            raise Unfit(f"holds strings, want {spec.dtype}")
        return _strings(values)
    if wants_gradient(values):
        raise Unfit(f"has values that {LEARNS}")
    array = as_array(values, spec.dtype)
    if array.ndim != 1:
        raise Unfit(f"has values of shape {list(array.shape)}, want [N]")
    if spec.dtype == "string":
        return Strings.from_objects(array)
    array = np.ascontiguousarray(array, READ_AS.get(spec.dtype, spec.dtype))
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _strings(values: Strings) -> Strings:
    if not values.is_sound:
        raise Unfit("is Strings of other arrays than bytes and int64 offsets that rise within them, both contiguous")
    return values


def _check_offsets(value: Ragged, num_values: int, spec: FieldSpec) -> None:
    for level, fault in enumerate(_offset_faults(value, num_values)):
        if fault:
            raise Unfit(f"has offsets{f'[{level}]' if spec.ragged == 2 else ''} that {fault}")
    if spec.ragged == 0 and not bool((value.offsets[0].diff() == spec.width).all()):
        raise Unfit(f"is dense, but a row has not {spec.width} elements")


def _offset_faults(value: Ragged, num_values: int) -> Iterator[str]:
    for level, offsets in enumerate(value.offsets):
        inner = level == len(value.offsets) - 1
        cut = num_values if inner else len(value.offsets[level + 1]) - 1
        what = "values" if inner else "lists"
        if not lies_here(offsets):
            yield f"are {_form(offsets)}, want a dense tensor on cpu"
        elif offsets.dtype != torch.int64 or offsets.ndim != 1 or len(offsets) == 0:
            yield f"are {offsets.dtype}{list(offsets.shape)}, want int64[B + 1]"
        elif int(offsets[0]) != 0:
            yield f"begin at {int(offsets[0])}, want 0"
        elif len(fallen := falls(offsets).nonzero()):
            row = int(fallen[0])
            yield f"give row {row} the length {int(offsets[row + 1]) - int(offsets[row])}"
        elif int(offsets[-1]) != cut:
            yield f"end at {int(offsets[-1])}, but there are {cut} {what}"
        else:
            yield ""


def _form(x: Any) -> str:
    """Of what is not `lies_here`: why."""
    if not isinstance(x, torch.Tensor):
        return f"{type(x).__module__}.{type(x).__name__}"
    return f"on {x.device}" if x.device.type != "cpu" else str(x.layout)


def _length(values: Any) -> int:
    return len(values)
