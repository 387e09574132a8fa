"""The transform of features: all values of a plan, one node after the other, in one call.

A *value* is what an expression is in a batch: elements, offsets, weights; a *node* computes one, its chain of tiles
fused. Every array is taken from an arena of the call; one that is too small is said, and the call is made again.

Legend: `call` is the address of a call's context, `node` of a node, `x`, `y` of values, `s` of scratch memory; a bag is
a row, or a list of it. Units: words lie so many bytes from the start.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.elements import keep_all, load_int32, load_strings
from colonnade.backends.cpu.intrinsics import call_tile, scratch
from colonnade.backends.cpu.murmur import murmur_begun, murmur_ended, murmur_more
from colonnade.backends.cpu.scratch import (
    MORE_VALUES,
    OTHER_VALUES,
    PAIR,
    SCRATCH_BYTES,
    TILE,
    VALUES,
)
from colonnade.backends.cpu.tiles.registry import JOIN, STEP_BYTES
from colonnade.backends.cpu.tiles.split import find
from colonnade.backends.memory import (
    kernel,
    load_f32,
    load_i32,
    load_i64,
    load_u8,
    load_u64,
    store_f32,
    store_i32,
    store_i64,
    store_u64,
)

# A value. Strings are pairs of address and length; other elements lie as tiles read them, unless LOAD says otherwise.
DATA = 0  # address of the elements; of Arrow's offsets
COUNT = 8  # elements
OUTER = 16  # address of the offsets that count lists, 0 where there are none
BAGS = 24
INNER = 32  # address of BAGS + 1 offsets
WEIGHTS = 40  # address, or 0
TEXT = 48  # address of Arrow's bytes
LOAD = 56  # LOAD_*
VALUE_BYTES = 64
LOAD_DIRECT, LOAD_INT32, LOAD_STRING, LOAD_BOOL = range(4)

# A node.
KIND = 0
RESULT = 8  # number of the value it computes
ARG, ARG_ITEM = 16, 24  # number of a value, bytes of its elements
OTHER, OTHER_ITEM = 32, 40  # of what a predicate or a factor looks at
STEPS, FIRST_STEP = 48, 56
ITEM = 64  # bytes of an element of the result
ARENA = 72  # where its elements go
ARGS, NUM_ARGS = 80, 88  # address of the numbers of all operands
P0, P1, P2, P3 = 96, 104, 112, 120
NODE_BYTES = 128
MAP, KEEP, WEIGH, TRUNCATE, CROSS, COMBINE, SPLIT = range(7)

# A call's context.
NODES, NUM_NODES, FIELDS, FIRST_VALUE, ROWS, AT = 0, 8, 16, 24, 32, 40
ARENAS = 64  # each: address, size, used
BASE, SIZE, USED, ARENA_BYTES = 0, 8, 16, 24
TEMP, IDS, DENSE, OFFSETS, FACTORS, NUM_ARENAS = range(6)
CONTEXT_BYTES = ARENAS + ARENA_BYTES * NUM_ARENAS

DONE, FULL, BAD_FIELD, BAD_ROWS = range(4)
"""What a call ends with. FULL: some arena has USED > SIZE. AT: the number of the field or node."""

MOST = 8
"""Operands of a cross."""
ZERO, ONE = np.float32(0), np.float32(1)
NO_BYTE = np.uint8(0)
_memory = scratch(SCRATCH_BYTES)


@kernel
def _value(call: int, number: int) -> int:
    return load_i64(call + FIRST_VALUE) + VALUE_BYTES * number


@kernel
def _take(call: int, arena: int, size: int) -> int:
    """The address of so many bytes, or 0 where there is no room."""
    at = call + ARENAS + ARENA_BYTES * arena
    used = load_i64(at + USED)
    end = used + size
    if arena == TEMP:
        end = (end + 15) // 16 * 16
    store_i64(at + USED, end)
    return load_i64(at + BASE) + used if end <= load_i64(at + SIZE) else 0


@kernel
def _copy(source: int, size: int, target: int) -> None:
    """A multiple of 4 bytes."""
    for i in range(size >> 3):
        store_i64(target + 8 * i, load_i64(source + 8 * i))
    if size & 4:
        store_i32(target + size - 4, np.int32(load_i32(source + size - 4)))


@kernel
def _load(x: int, item: int, at: int, n: int, room: int) -> int:
    """Where n elements lie as tiles read them."""
    data, how = load_i64(x + DATA), load_i64(x + LOAD)
    if how == LOAD_INT32:
        load_int32(data + 4 * at, n, room)
        return room
    if how == LOAD_STRING:
        load_strings(data + 8 * at, load_i64(x + TEXT), n, room)
        return room
    if how == LOAD_BOOL:
        for i in range(n):
            # Bytes that were no bool may be seen as such.
            store_i64(room + 8 * i, np.int64(1 if load_u8(data + at + i) != 0 else 0))
        return room
    return data + item * at


@kernel
def _chain(call: int, node: int, x: int, item: int, at: int, n: int, s: int, target: int) -> int:
    """Where n elements lie after all steps: at `target`, if there is any."""
    source = _load(x, item, at, n, s + VALUES)
    step, steps = load_i64(node + FIRST_STEP), load_i64(node + STEPS)
    for k in range(steps):
        tile = load_i64(step)
        room = s + MORE_VALUES if source == s + VALUES else s + VALUES
        if tile == JOIN:
            other = _load(_value(call, load_i64(step + 8)), load_i64(step + 16), at, n, s + OTHER_VALUES)
            for i in range(n):
                store_i64(room + PAIR * i, load_i64(source + 8 * i))
                store_i64(room + PAIR * i + 8, load_i64(other + 8 * i))
        else:
            if k == steps - 1:
                room = target
            call_tile(tile, step, source, n, room)
        source = room
        step += STEP_BYTES
    return source


@kernel
def _lies_alike(x: int, y: int) -> bool:
    """Whether two values have the same number of elements in every bag, and of bags in every row."""
    if load_i64(x + BAGS) != load_i64(y + BAGS) or load_i64(x + COUNT) != load_i64(y + COUNT):
        return False
    if (load_i64(x + OUTER) == 0) != (load_i64(y + OUTER) == 0):
        return False
    return _equal(load_i64(x + INNER), load_i64(y + INNER), load_i64(x + BAGS) + 1)


@kernel
def _equal(a: int, b: int, n: int) -> bool:
    if a != b:
        for i in range(n):
            if load_i64(a + 8 * i) != load_i64(b + 8 * i):
                return False
    return True


@kernel
def _same_rows(call: int, x: int, y: int) -> bool:
    outer = load_i64(x + OUTER) == 0 or _equal(load_i64(x + OUTER), load_i64(y + OUTER), load_i64(call + ROWS) + 1)
    return _lies_alike(x, y) and outer


@kernel
def _like(x: int, y: int) -> None:
    """y gets the rows and weights of x."""
    for word in (COUNT, OUTER, BAGS, INNER, WEIGHTS):
        store_i64(y + word, load_i64(x + word))
    store_i64(y + LOAD, LOAD_DIRECT)


@kernel
def _joins_alike(call: int, node: int, x: int) -> bool:
    """Whether every other operand of a chain lies as its first."""
    step = load_i64(node + FIRST_STEP)
    for _ in range(load_i64(node + STEPS)):
        if load_i64(step) == JOIN and not _same_rows(call, x, _value(call, load_i64(step + 8))):
            return False
        step += STEP_BYTES
    return True


@kernel
def _map(call: int, node: int, x: int, y: int, s: int) -> int:
    if not _joins_alike(call, node, x):
        return BAD_ROWS
    count, item, read = load_i64(x + COUNT), load_i64(node + ITEM), load_i64(node + ARG_ITEM)
    target = _take(call, load_i64(node + ARENA), count * item)
    if target == 0:
        return FULL
    _like(x, y)
    store_i64(y + DATA, target)
    for at in range(0, count, TILE):
        n = min(count - at, TILE)
        found = _chain(call, node, x, read, at, n, s, target + item * at)
        if found != target + item * at:
            _copy(found, n * item, target + item * at)
    return DONE


@kernel
def _marks(call: int, node: int, s: int) -> int:
    """The address of a byte an element of the predicate's field: 1 where it holds; 0: no room."""
    p = _value(call, load_i64(node + OTHER))
    count, item = load_i64(p + COUNT), load_i64(node + OTHER_ITEM)
    mask = _take(call, TEMP, count)
    if mask == 0:
        return 0
    keep_all(mask, count)
    for at in range(0, count, TILE):
        _chain(call, node, p, item, at, min(count - at, TILE), s, mask + at)
    return mask


@kernel
def _keep(call: int, node: int, x: int, y: int, s: int) -> int:
    p = _value(call, load_i64(node + OTHER))
    if not _same_rows(call, x, p) or not _joins_alike(call, node, p):
        return BAD_ROWS
    mask, bags, item = _marks(call, node, s), load_i64(x + BAGS), load_i64(node + ITEM)
    offsets, inner = _take(call, OFFSETS, 8 * (bags + 1)), load_i64(x + INNER)
    if mask == 0 or offsets == 0:
        return FULL
    total = 0
    for b in range(bags):
        store_i64(offsets + 8 * b, total)
        for i in range(load_i64(inner + 8 * b), load_i64(inner + 8 * b + 8)):
            total += np.int64(load_u8(mask + i))
    store_i64(offsets + 8 * bags, total)
    if not _room(call, node, x, y, total):
        return FULL
    _like_lists(x, y, total, bags, offsets)
    to = 0
    for i in range(load_i64(x + COUNT)):
        if load_u8(mask + i) != NO_BYTE:
            _element(x, i, y, to, item)
            to += 1
    return DONE


@kernel
def _room(call: int, node: int, x: int, y: int, total: int) -> bool:
    """Room for the elements of y and, where x has weights, for these."""
    data = _take(call, load_i64(node + ARENA), total * load_i64(node + ITEM))
    weights = 0
    if load_i64(x + WEIGHTS) != 0:
        weights = _take(call, FACTORS, 4 * total)
        if weights == 0:
            return False
    store_i64(y + DATA, data)
    store_i64(y + WEIGHTS, weights)
    return data != 0


@kernel
def _like_lists(x: int, y: int, count: int, bags: int, inner: int) -> None:
    """y gets elements, bags and offsets of its own, and the lists of x."""
    store_i64(y + COUNT, count)
    store_i64(y + BAGS, bags)
    store_i64(y + INNER, inner)
    store_i64(y + OUTER, load_i64(x + OUTER))
    store_i64(y + LOAD, LOAD_DIRECT)


@kernel
def _element(x: int, i: int, y: int, to: int, item: int) -> None:
    """Element i of x, with its weight, as element `to` of y."""
    source, target = load_i64(x + DATA) + item * i, load_i64(y + DATA) + item * to
    if item == 4:
        store_i32(target, np.int32(load_i32(source)))
    else:
        store_i64(target, load_i64(source))
        if item == PAIR:
            store_i64(target + 8, load_i64(source + 8))
    if load_i64(y + WEIGHTS) != 0:
        weight = ONE if load_i64(x + WEIGHTS) == 0 else load_f32(load_i64(x + WEIGHTS) + 4 * i)
        store_f32(load_i64(y + WEIGHTS) + 4 * to, weight)


@kernel
def _weigh(call: int, node: int, x: int, y: int, s: int) -> int:
    """P0: 1 where the factor is a predicate."""
    p, count = _value(call, load_i64(node + OTHER)), load_i64(x + COUNT)
    if not _same_rows(call, x, p) or not _joins_alike(call, node, p):
        return BAD_ROWS
    weights, old = _take(call, FACTORS, 4 * count), load_i64(x + WEIGHTS)
    if weights == 0:
        return FULL
    if load_i64(node + P0) == 1:
        mask = _marks(call, node, s)
        if mask == 0:
            return FULL
        for i in range(count):
            store_f32(weights + 4 * i, ONE if load_u8(mask + i) != NO_BYTE else ZERO)
    else:
        for at in range(0, count, TILE):
            n = min(count - at, TILE)
            found = _chain(call, node, p, load_i64(node + OTHER_ITEM), at, n, s, weights + 4 * at)
            if found != weights + 4 * at:
                _copy(found, 4 * n, weights + 4 * at)
    if old != 0:
        for i in range(count):
            store_f32(weights + 4 * i, load_f32(old + 4 * i) * load_f32(weights + 4 * i))
    _like(x, y)
    for word in (DATA, TEXT, LOAD):
        store_i64(y + word, load_i64(x + word))
    store_i64(y + WEIGHTS, weights)
    return DONE


@kernel
def _truncate(call: int, node: int, x: int, y: int) -> int:
    """P0: the length.   P1: 1 where the last are kept.   P2: 1 where padded.   P3: address of the fill."""
    rows, length, padded = load_i64(call + ROWS), load_i64(node + P0), load_i64(node + P2) == 1
    lists = load_i64(x + OUTER) != 0
    outer = load_i64(x + OUTER) if lists else load_i64(x + INNER)
    offsets = _take(call, OFFSETS, 8 * (rows + 1))
    if offsets == 0:
        return FULL
    total = 0
    for r in range(rows):
        store_i64(offsets + 8 * r, total)
        have = load_i64(outer + 8 * r + 8) - load_i64(outer + 8 * r)
        total += length if padded else min(have, length)
    store_i64(offsets + 8 * rows, total)
    if lists:
        return _truncate_lists(call, node, x, y, offsets, total)
    if not _room(call, node, x, y, total):
        return FULL
    _like_lists(x, y, total, rows, offsets)
    item, fill = load_i64(node + ITEM), load_i64(node + P3)
    for r in range(rows):
        to, last = load_i64(offsets + 8 * r), load_i64(offsets + 8 * r + 8)
        for i in range(_first(node, outer, r), _first(node, outer, r) + _kept(node, outer, r)):
            _element(x, i, y, to, item)
            to += 1
        while to < last:
            _copy(fill, item, load_i64(y + DATA) + item * to)
            if load_i64(y + WEIGHTS) != 0:
                store_f32(load_i64(y + WEIGHTS) + 4 * to, ZERO)
            to += 1
    return DONE


@kernel
def _kept(node: int, outer: int, r: int) -> int:
    return min(load_i64(outer + 8 * r + 8) - load_i64(outer + 8 * r), load_i64(node + P0))


@kernel
def _first(node: int, outer: int, r: int) -> int:
    """The first of a row's elements, or lists, that is kept."""
    if load_i64(node + P1) == 1:
        return load_i64(outer + 8 * r + 8) - _kept(node, outer, r)
    return load_i64(outer + 8 * r)


@kernel
def _truncate_lists(call: int, node: int, x: int, y: int, offsets: int, lists: int) -> int:
    rows, outer, old = load_i64(call + ROWS), load_i64(x + OUTER), load_i64(x + INNER)
    inner = _take(call, OFFSETS, 8 * (lists + 1))
    if inner == 0:
        return FULL
    total = 0
    for r in range(rows):
        to, first = load_i64(offsets + 8 * r), _first(node, outer, r)
        for k in range(_kept(node, outer, r)):
            store_i64(inner + 8 * to, total)
            total += load_i64(old + 8 * (first + k) + 8) - load_i64(old + 8 * (first + k))
            to += 1
        while to < load_i64(offsets + 8 * r + 8):
            store_i64(inner + 8 * to, total)
            to += 1
    store_i64(inner + 8 * lists, total)
    if not _room(call, node, x, y, total):
        return FULL
    _like_lists(x, y, total, lists, inner)
    store_i64(y + OUTER, offsets)
    to, item = 0, load_i64(node + ITEM)
    for r in range(rows):
        first = _first(node, outer, r)
        last = first + _kept(node, outer, r)
        for i in range(load_i64(old + 8 * first), load_i64(old + 8 * last)):
            _element(x, i, y, to, item)
            to += 1
    return DONE


@kernel
def _weighted(call: int, node: int) -> bool:
    """Whether any operand has weights."""
    found = False
    for k in range(load_i64(node + NUM_ARGS)):
        found |= load_i64(_value(call, load_i64(load_i64(node + ARGS) + 8 * k)) + WEIGHTS) != 0
    return found


@kernel
def _begun(call: int, node: int, y: int, offsets: int, total: int) -> bool:
    """Rows and room for the results of several operands."""
    rows = load_i64(call + ROWS)
    store_i64(y + WEIGHTS, 0)
    data = _take(call, load_i64(node + ARENA), total * load_i64(node + ITEM))
    if _weighted(call, node):
        weights = _take(call, FACTORS, 4 * total)
        store_i64(y + WEIGHTS, weights)
        if weights == 0:
            return False
    store_i64(y + DATA, data)
    store_i64(y + COUNT, total)
    store_i64(y + BAGS, rows)
    store_i64(y + INNER, offsets)
    store_i64(y + OUTER, 0)
    store_i64(y + LOAD, LOAD_DIRECT)
    return data != 0


@kernel
def _operand(call: int, node: int, k: int) -> int:
    return _value(call, load_i64(load_i64(node + ARGS) + 8 * k))


@kernel
def _length(x: int, r: int) -> int:
    inner = load_i64(x + INNER)
    return load_i64(inner + 8 * r + 8) - load_i64(inner + 8 * r)


@kernel
def _begun_by_operands(call: int, node: int, y: int, chosen: bool) -> bool:
    """Begin a value whose rows hold the elements of all operands' rows; chosen: each choice of one of every operand."""
    rows, operands = load_i64(call + ROWS), load_i64(node + NUM_ARGS)
    offsets = _take(call, OFFSETS, 8 * (rows + 1))
    if offsets == 0:
        return False
    total = 0
    for r in range(rows):
        store_i64(offsets + 8 * r, total)
        elements, choices = 0, 1
        for k in range(operands):
            length = _length(_operand(call, node, k), r)
            elements += length
            choices *= length
        total += choices if chosen else elements
    store_i64(offsets + 8 * rows, total)
    return _begun(call, node, y, offsets, total)


@kernel
def _combine(call: int, node: int, y: int) -> int:
    rows, operands = load_i64(call + ROWS), load_i64(node + NUM_ARGS)
    if not _begun_by_operands(call, node, y, False):
        return FULL
    to, item = 0, load_i64(node + ITEM)
    for r in range(rows):
        for k in range(operands):
            x = _operand(call, node, k)
            inner = load_i64(x + INNER)
            for i in range(load_i64(inner + 8 * r), load_i64(inner + 8 * r + 8)):
                _element(x, i, y, to, item)
                to += 1
    return DONE


@kernel
def _cross(call: int, node: int, y: int, s: int) -> int:
    rows, operands = load_i64(call + ROWS), load_i64(node + NUM_ARGS)
    if not _begun_by_operands(call, node, y, True):
        return FULL
    offsets, data, weights = load_i64(y + INNER), load_i64(y + DATA), load_i64(y + WEIGHTS)
    for r in range(rows):
        for k in range(operands):
            store_i64(s + 8 * k, 0)
        for to in range(load_i64(offsets + 8 * r), load_i64(offsets + 8 * r + 8)):
            _choice(call, node, r, operands, s, data + 8 * to, weights + 4 * to if weights != 0 else 0)
            k = operands - 1
            while k >= 0:
                place = load_i64(s + 8 * k) + 1
                if place < _length(_operand(call, node, k), r):
                    store_i64(s + 8 * k, place)
                    break
                store_i64(s + 8 * k, 0)
                k -= 1
    return DONE


@kernel
def _choice(call: int, node: int, r: int, operands: int, s: int, target: int, weight: int) -> None:
    """The hash, and the product of weights, of the elements at the places in `s`."""
    h, product, begun = murmur_begun(8 * operands), ONE, False
    for k in range(operands):
        x = _operand(call, node, k)
        i = load_i64(load_i64(x + INNER) + 8 * r) + load_i64(s + 8 * k)
        h = murmur_more(h, load_u64(load_i64(x + DATA) + 8 * i))
        if load_i64(x + WEIGHTS) != 0:
            factor = load_f32(load_i64(x + WEIGHTS) + 4 * i)
            product = product * factor if begun else factor
            begun = True
    store_u64(target, murmur_ended(h))
    if weight != 0:
        store_f32(weight, product)


@kernel
def _split(call: int, node: int, x: int, y: int) -> int:
    """P0, P1: address and length of the separator."""
    separator, width = load_i64(node + P0), load_i64(node + P1)
    bags, inner, data = load_i64(x + BAGS), load_i64(x + INNER), load_i64(x + DATA)
    offsets = _take(call, OFFSETS, 8 * (bags + 1))
    if offsets == 0:
        return FULL
    total = 0
    for b in range(bags):
        store_i64(offsets + 8 * b, total)
        for i in range(load_i64(inner + 8 * b), load_i64(inner + 8 * b + 8)):
            text, length = load_i64(data + PAIR * i), load_i64(data + PAIR * i + 8)
            at = 0
            while at <= length:
                at = find(text, at, length, separator, width) + width
                total += 1
    store_i64(offsets + 8 * bags, total)
    if not _room(call, node, x, y, total):
        return FULL
    _like_lists(x, y, total, bags, offsets)
    to, target, weights = 0, load_i64(y + DATA), load_i64(y + WEIGHTS)
    for i in range(load_i64(x + COUNT)):
        text, length = load_i64(data + PAIR * i), load_i64(data + PAIR * i + 8)
        at = 0
        while at <= length:
            end = find(text, at, length, separator, width)
            store_i64(target + PAIR * to, text + at)
            store_i64(target + PAIR * to + 8, end - at)
            if weights != 0:
                store_f32(weights + 4 * to, load_f32(load_i64(x + WEIGHTS) + 4 * i))
            at = end + width
            to += 1
    return DONE


@kernel
def _node(call: int, node: int, s: int) -> int:
    kind, x, y = load_i64(node + KIND), _value(call, load_i64(node + ARG)), _value(call, load_i64(node + RESULT))
    if kind == MAP:
        return _map(call, node, x, y, s)
    if kind == KEEP:
        return _keep(call, node, x, y, s)
    if kind == WEIGH:
        return _weigh(call, node, x, y, s)
    if kind == TRUNCATE:
        return _truncate(call, node, x, y)
    if kind == CROSS:
        return _cross(call, node, y, s)
    if kind == COMBINE:
        return _combine(call, node, y)
    return _split(call, node, x, y)


@kernel
def _rises(offsets: int, n: int, end: int) -> bool:
    """Whether n + 1 offsets begin at 0, never decrease and end at `end`."""
    before = load_i64(offsets)
    good = before == 0 and load_i64(offsets + 8 * n) == end
    for i in range(1, n + 1):
        here = load_i64(offsets + 8 * i)
        good &= here >= before
        before = here
    return good


@kernel
def _fields_fit(call: int) -> bool:
    rows = load_i64(call + ROWS)
    for k in range(load_i64(call + FIELDS)):
        x = _value(call, k)
        outer, bags = load_i64(x + OUTER), load_i64(x + BAGS)
        store_i64(call + AT, k)
        if outer != 0 and not _rises(outer, rows, bags):
            return False
        if not _rises(load_i64(x + INNER), bags, load_i64(x + COUNT)):
            return False
    return True


@kernel
def run_transform(call: int) -> int:
    """All nodes of a call; gives what it ends with."""
    s = _memory()
    for arena in range(NUM_ARENAS):
        store_i64(call + ARENAS + ARENA_BYTES * arena + USED, 0)
    if not _fields_fit(call):
        return BAD_FIELD
    for k in range(load_i64(call + NUM_NODES)):
        store_i64(call + AT, k)
        found = _node(call, load_i64(call + NODES) + NODE_BYTES * k, s)
        if found != DONE:
            return found
    return DONE
