"""Values of a field's elements: read from the batch, run through chains of tiles, filtered.

Legend: `call` is the address of a call's context, `d` of a column's descriptor, `s` of a worker's scratch memory.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu import units
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.intrinsics import call_tile
from colonnade.backends.cpu.scratch import (
    MORE_OTHER_VALUES,
    MORE_THIRD_VALUES,
    MORE_VALUES,
    OTHER_VALUES,
    PAIR,
    THIRD_VALUES,
    VALUES,
)
from colonnade.backends.cpu.tiles.registry import JOIN, STEP_BYTES
from colonnade.backends.cpu.units import implements
from colonnade.backends.memory import kernel, load_f32, load_i32, load_i64, store_f32, store_i64, store_u8

ONE_BYTE = np.uint8(1)
NO_CALL = 0


@kernel
def load_strings(offsets: int, data: int, n: int, target: int) -> None:
    """Addresses and lengths of strings in Arrow's layout."""
    begin = load_i64(offsets)
    for i in range(n):
        end = load_i64(offsets + 8 * i + 8)
        store_i64(target + PAIR * i, data + begin)
        store_i64(target + PAIR * i + 8, end - begin)
        begin = end


@kernel
def load_int32(source: int, n: int, target: int) -> None:
    """int32 as int64."""
    for i in range(n):
        store_i64(target + 8 * i, load_i32(source + 4 * i))


@kernel
def elements(call: int, chain: int, element: int, n: int, a: int) -> int:
    """Where the values of a field's elements lie: in the batch itself, or in `a`."""
    first = load_i64(call + w.BATCH) * load_i64(chain + w.START) + element
    base = call + load_i64(chain + w.BASE)
    source = load_i64(base) + first * load_i64(chain + w.ITEM)
    how = load_i64(chain + w.LOAD)
    if how == w.LOAD_STRING:
        load_strings(source, load_i64(base + 8), n, a)
        return a
    if how == w.LOAD_INT32:
        load_int32(source, n, a)
        return a
    return source


@kernel
def _plain(call: int, chain: int, element: int, n: int, a: int, b: int) -> int:
    """Where the values of a chain that joins nothing lie: in the batch, or in one of two buffers."""
    source = elements(call, chain, element, n, a)
    step = load_i64(chain + w.FIRST_STEP)
    for _ in range(load_i64(chain + w.STEPS)):
        target = b if source == a else a
        call_tile(load_i64(step), step, source, n, target)
        source = target
        step += STEP_BYTES
    return source


@kernel
def _pair(source: int, other: int, n: int, target: int) -> None:
    for i in range(n):
        store_i64(target + PAIR * i, load_i64(source + 8 * i))
        store_i64(target + PAIR * i + 8, load_i64(other + 8 * i))


@kernel
def _pair_places(source: int, element: int, width: int, n: int, target: int) -> None:
    for i in range(n):
        store_i64(target + PAIR * i, load_i64(source + 8 * i))
        store_i64(target + PAIR * i + 8, (element + i) % width)


@kernel
def _other(call: int, chain: int, element: int, n: int, s: int) -> int:
    """Where the values of a second operand lie. Facts: what its chain joins joins nothing itself."""
    source = elements(call, chain, element, n, s + OTHER_VALUES)
    step = load_i64(chain + w.FIRST_STEP)
    for _ in range(load_i64(chain + w.STEPS)):
        target = s + MORE_OTHER_VALUES if source == s + OTHER_VALUES else s + OTHER_VALUES
        third = load_i64(step + 8)
        if load_i64(step) != JOIN:
            call_tile(load_i64(step), step, source, n, target)
        elif third == 0:
            _pair_places(source, element, load_i64(step + 16), n, target)
        else:
            _pair(source, _plain(call, third, element, n, s + THIRD_VALUES, s + MORE_THIRD_VALUES), n, target)
        source = target
        step += STEP_BYTES
    return source


@implements(units.join)
def join(call: int, step: int, element: int, n: int, source: int, s: int) -> int:
    """Pairs of the values at `source` and those of another chain, or the elements' places in their batch rows."""
    chain, width = load_i64(step + 8), load_i64(step + 16)
    target = s + MORE_VALUES if source == s + VALUES else s + VALUES
    if chain == 0:
        _pair_places(source, element, width, n, target)
    else:
        _pair(source, _other(call, chain, element, n, s), n, target)
    return target


@kernel
def mapped(call: int, chain: int, steps: int, element: int, source: int, n: int, s: int) -> int:
    """Where the values lie after the first `steps` steps of a chain; they are those of elements from `element` on.

    Facts: tokens have no number of an element, and their chains join nothing.
    """
    step = load_i64(chain + w.FIRST_STEP)
    for _ in range(steps):
        tile = load_i64(step)
        if tile == JOIN:
            source = units.join(call, step, element, n, source, s)
        else:
            target = s + MORE_VALUES if source == s + VALUES else s + VALUES
            call_tile(tile, step, source, n, target)
            source = target
        step += STEP_BYTES
    return source


@kernel
def _filter(call: int, chain: int, element: int, source: int, n: int, keep: int, s: int) -> None:
    steps = load_i64(chain + w.STEPS) - 1
    source = mapped(call, chain, steps, element, source, n, s)
    step = load_i64(chain + w.FIRST_STEP) + STEP_BYTES * steps
    call_tile(load_i64(step), step, source, n, keep)


@kernel
def keep_all(keep: int, n: int) -> None:
    """A mask that drops nothing."""
    for i in range(n):
        store_u8(keep + i, ONE_BYTE)


@implements(units.filter_elements)
def filter_elements(call: int, d: int, s: int, element: int, n: int, keep: int) -> int:
    """The mask of elements that every filter on elements keeps."""
    keep_all(keep, n)
    chain = load_i64(d + w.FIRST_FILTER)
    for _ in range(load_i64(d + w.FILTERS)):
        if load_i64(chain + w.ON_TOKENS) == 0:
            source = elements(call, chain, element, n, s + VALUES)
            _filter(call, chain, element, source, n, keep, s)
        chain += w.CHAIN_BYTES
    return 0


@kernel
def filter_tokens(d: int, s: int, tokens: int, n: int, keep: int) -> None:
    """The mask of tokens that every filter on tokens keeps."""
    keep_all(keep, n)
    chain = load_i64(d + w.FIRST_FILTER)
    for _ in range(load_i64(d + w.FILTERS)):
        if load_i64(chain + w.ON_TOKENS) == 1:
            _filter(NO_CALL, chain, 0, tokens, n, keep, s)
        chain += w.CHAIN_BYTES


@kernel
def ids_of(call: int, d: int, s: int, element: int, n: int) -> int:
    """Where the ids of elements lie."""
    source = elements(call, d, element, n, s + VALUES)
    return mapped(call, d, load_i64(d + w.STEPS), element, source, n, s)


@kernel
def load_weights(call: int, d: int, s: int, element: int, n: int, factors: int) -> None:
    """The weights of elements, as float32."""
    chain = load_i64(d + w.WEIGHTS)
    source = elements(call, chain, element, n, s + VALUES)
    source = mapped(call, chain, load_i64(chain + w.STEPS), element, source, n, s)
    for i in range(n):
        store_f32(factors + 4 * i, load_f32(source + 4 * i))
