"""Requests for any program: ordinary and corner rows, from the boundaries, separators and id ranges of its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colonnade.backends.examples import Decoder
from colonnade.backends.feed_elements import ElementInputs
from colonnade.backends.feed_pads import PaddedInputs
from colonnade.backends.feed_rows import RowReader
from colonnade.backends.sizes import dim_function
from colonnade.core import dims
from colonnade.core.dims import symbols_of
from colonnade.core.rows import Rows
from colonnade.ir.column import fields_read
from colonnade.ir.program import Decode, Program
from colonnade.testing.hints import hints_from
from colonnade.testing.models.examples import encode_example
from colonnade.testing.models.feeds import Feed, corner_batch, corner_feed, missing_feed, ordinary_feed
from colonnade.testing.models.spec import TensorSpec

Array = NDArray[Any]

KINDS = ("ordinary", "corner", "missing")
_SIZES = (1, 2, 3, 5)
_MOST_ELEMENTS = 10
_LENGTHS: Mapping[str, Callable[[np.random.Generator, int], Array]] = {
    "ordinary": lambda rng, rows: rng.integers(0, _MOST_ELEMENTS + 1, rows),
    "corner": lambda rng, rows: rng.choice((0, 1, 2, 17, 130), rows, p=(0.3, 0.3, 0.2, 0.15, 0.05)),
    "missing": lambda rng, rows: np.zeros(rows, np.int64),
}
"""Elements of ragged rows by the kind of a request."""


@dataclass(frozen=True)
class Request:
    """A named request.

    Facts: every dense input whose first dim is a symbol has `rows` rows; of ragged fields the offsets say so.
    """

    name: str
    rows: int
    feed: Feed


def make_request(program: Program, kind: str, rows: int, seed: int = 0) -> Request:
    """A request of one of `KINDS`; the same arguments give the same request."""
    rng = np.random.default_rng([seed, rows, KINDS.index(kind)])
    hints = hints_from(program)
    lengths = _LENGTHS[kind](rng, rows) if any(i.offsets is not None for i in program.inputs) else None
    if lengths is not None and rows and any(r.trimmed for r in program.row_keys):
        lengths[-1] = max(lengths[-1], 1)  # the last row is the last one with an element
    ends = np.zeros(rows + 1, np.int64) if lengths is None else np.cumsum([0, *lengths])
    specs = _specs(program, rows, np.random.default_rng(seed), int(ends[-1]))
    if kind == "missing":
        feed = missing_feed(specs, rows, hints)
    else:
        feed = (ordinary_feed if kind == "ordinary" else corner_feed)(specs, rows, rng, hints)
    feed = _agreed(program, feed) | _offsets(program, ends) | {name: _parted(rows, rng) for name in _over(program)}
    return Request(f"{kind}-{rows}", rows, encoded(program, feed, rows))


def _over(program: Program) -> dict[str, str]:
    """The offsets of rows that are added up, each with the symbol of how many these are."""
    return {r.offsets: str(r.elements) for r in program.row_keys if r.elements is not None}


def _parted(rows: int, rng: np.random.Generator) -> Array:
    """Offsets of as many rows over as many."""
    ends = np.sort(rng.integers(0, rows + 1, rows))
    ends[-1:] = rows
    return np.concatenate([[0], ends])


def _agreed(program: Program, feed: Mapping[str, Array]) -> Feed:
    """The same; what is to lack values where another input does lacks them there, and only there."""
    found = dict(feed)
    for item in program.agreements:
        values = found[item.other]
        lacks = found[item.name] == item.missing
        given = np.where(np.abs(values) < np.finfo(np.float32).tiny, np.float32(1), values)
        found[item.other] = np.where(lacks, np.float32(item.other_missing), given)
    return found


def _offsets(program: Program, ends: Array) -> Feed:
    """The same for all offsets inputs: what shares a data symbol has one number of elements."""
    names = {i.offsets for i in program.inputs if i.offsets is not None}
    return {i.name: ends.astype(i.dtype) for i in program.inputs if i.name in names}


def corner_rows(program: Program) -> int:
    """The rows of a corner request that shows every corner of every input, each boundary among them."""
    return corner_batch(_specs(program, 1, np.random.default_rng(0)), hints_from(program))


def _specs(program: Program, rows: int, rng: np.random.Generator, num_elements: int = 1) -> tuple[TensorSpec, ...]:
    """The inputs with one size a symbol: the first dim of an input is the batch, others depend on the seed alone.

    num_elements: of each ragged field, in all rows together.
    """
    sizes: dict[str, int] = {
        str(symbol): num_elements
        for item in program.inputs
        if item.offsets is not None
        for symbol in symbols_of(item.shape[0])
    }
    for item in program.inputs:
        for place, dim in enumerate(item.shape):
            for symbol in symbols_of(dim):
                sizes.setdefault(str(symbol), rows if place == 0 else int(rng.choice(_SIZES)))
    specs = []
    made = _made(program)
    for item in program.inputs:
        if item.name in made:
            continue
        shape = tuple(dim if isinstance(dim, int) else dim_function(dim)(sizes) for dim in item.shape)
        specs.append(TensorSpec(item.name, item.dtype, shape))
    return tuple(specs)


def _made(program: Program) -> dict[str, str | None]:
    """The inputs that are made of others, each with the one whose values it has."""
    places = {r.places: None for r in program.row_keys if r.places is not None}
    return {i.name: i.of for i in program.inputs if i.of is not None} | {p.name: p.of for p in program.pads} | places


def batched(program: Program) -> frozenset[str]:
    """The dense inputs that have a row for each row of the request."""
    fields = ragged(program)
    apart = fields.keys() | set(fields.values()) | _saying(program)
    return frozenset(
        i.name for i in program.signature if i.shape and not isinstance(i.shape[0], int) and i.name not in apart
    )


def fixed_rows(program: Program) -> int | None:
    """The rows of every request of a program whose fields say so; None where a request chooses them."""
    if batched(program) or ragged(program) or program.decodes or program.row_keys:
        return None
    fields = {name for column in program.columns for name in fields_read(column)}
    found = {i.shape[0] for i in program.signature if i.shape and (i.name in fields or not fields)}
    return next((int(rows) for rows in found if isinstance(rows, int)), None) if len(found) == 1 else None


def ragged(program: Program) -> dict[str, str]:
    """The ragged fields of a request, each with the input that holds its offsets."""
    return {i.name: i.offsets for i in program.signature if i.offsets is not None}


def _cut(program: Program) -> dict[str, str]:
    """What is cut and joined as its rows are: ragged fields and the places of their values, each with its offsets."""
    return ragged(program) | {r.places: r.offsets for r in program.row_keys if r.places is not None}


def _saying(program: Program) -> frozenset[str]:
    """The keys of a request that say rows."""
    return frozenset(key.name for r in program.row_keys for key in r.keys)


def _said(program: Program, values: Mapping[str, Array]) -> Feed:
    """The keys that say the rows of these offsets."""
    feed: Feed = {}
    for item in program.row_keys:
        offsets = values[item.offsets]
        rows = Rows(np.asarray(offsets, np.int64), int(np.diff(offsets).max(initial=0)))
        indices, width = rows.indices(), rows.width
        if (places := values.get(item.places or "")) is not None:
            indices[:, 1] = places
            width = max(width, int(indices[:, 1].max(initial=-1)) + 1)
        feed[item.name] = indices if item.by == "indices" else rows.offsets.astype(item.dtype)
        if item.outer is not None:
            feed[item.outer[0]] = np.arange(rows.num_rows + 1, dtype=item.dtype)
        if item.shape is not None:
            feed[item.shape] = np.array([rows.num_rows, width])
    return feed


def _opened(program: Program, feed: Mapping[str, Array]) -> Mapping[str, Array]:
    """The request with offsets in the place of what says them."""
    return RowReader(program).fields(feed)[0] if program.row_keys else feed


def encoded(program: Program, values: Feed, rows: int) -> Feed:
    """The request of these inputs: those that are decoded of Examples, as Examples; offsets, as what says them."""
    keys = {i.name for i in program.signature}
    feed = {name: value for name, value in values.items() if name in keys} | _said(program, values)
    for decode in program.decodes:
        messages = np.empty(rows, object)
        messages[:] = [_example(program, decode, values, row) for row in range(rows)]
        feed[decode.name] = messages
    return feed


def _example(program: Program, decode: Decode, values: Feed, row: int) -> bytes:
    """One row's Example. A feature that is no input is left out, where it may be.

    Facts: where a key is read in two ways, its values are those of the padded one, which bounds how many there are.
    """
    found: dict[str, tuple[str, Any]] = {}
    for feature, name in sorted(decode.features, key=lambda f: f[0].kind != "padded"):
        if name is not None:
            offsets = program.input(name).offsets
            some = values[name][row] if offsets is None else values[name][slice(*values[offsets][row : row + 2])]
            found.setdefault(feature.key, (feature.dtype, some.reshape(-1)))
        elif feature.kind == "dense" and feature.default is None:
            found.setdefault(feature.key, (feature.dtype, [b"" if feature.dtype == "string" else 0] * feature.size))
    return encode_example(found)


def inputs_of(program: Program, feed: Mapping[str, Array]) -> Mapping[str, Array]:
    """The values of a program's inputs: a request's own, and those decoded of its Examples."""
    feed = _opened(program, feed)
    if not program.decodes:
        return with_elements(program, feed)
    fields, rest, sizes = Decoder(program).fields(feed)
    rows = next(iter(sizes.values()))
    ends = {i.offsets for i in program.inputs}
    fixed = (i for i in program.inputs if all(isinstance(d, int) for d in i.shape[1:]))
    dense = {i.name: i.shape[1:] for i in fixed if i.offsets is None and i.name not in ends}
    open_ones = {i.name for i in program.inputs} - dense.keys() - ends
    as_it_is = {name for name, value in fields.items() if name in open_ones and isinstance(value, np.ndarray)}
    found = {name: value if name in as_it_is else _flat(value) for name, value in fields.items()}
    shaped = {name: found[name].reshape(rows, *map(int, dense[name])) for name in dense.keys() & found}
    return with_elements(program, {**rest, **found, **shaped})


def with_elements(program: Program, values: Mapping[str, Array]) -> Mapping[str, Array]:
    """The same with the inputs that are the elements of others."""
    return ElementInputs(program).added(PaddedInputs(program).added(values, {}), {})


def _flat(value: Any) -> Array:
    """The values of an Arrow array, also of lists, or of a numpy one."""
    if isinstance(value, np.ndarray):
        return value.reshape(-1)
    while pa.types.is_fixed_size_list(value.type):
        value = value.flatten()
    if pa.types.is_large_binary(value.type) or pa.types.is_binary(value.type):
        texts = np.empty(len(value), object)
        texts[:] = value.to_pylist()
        return texts
    return np.asarray(value.to_numpy(zero_copy_only=False))


def rows_in(program: Program, feed: Mapping[str, Array]) -> int:
    """The rows of a feed's batch; 0 where no input has any."""
    feed = _opened(program, feed)
    over = _over(program)
    by_row, ends = batched(program), frozenset(over or ragged(program).values())
    by_row = frozenset(key for key in by_row if _rows_of(program, key) not in over.values())
    found = [len(v) - (key in ends) for key, v in feed.items() if key in by_row or key in ends]
    return found[0] if found else fixed_rows(program) or 0


def take(program: Program, request: Request, rows: Sequence[int] | NDArray[np.int64]) -> Request:
    """The request with only these rows."""
    chosen = np.asarray(rows, np.int64)
    whole = _opened(program, request.feed)
    over = _over(program)
    inner = {rows: _ranges(whole[key][chosen], whole[key][chosen + 1]) for key, rows in over.items()}
    given = batched(program) & whole.keys()
    by_row = {key for key in given if _rows_of(program, key) in inner or len(whole[key]) == request.rows}
    picks = {key: inner.get(_rows_of(program, key), chosen) for key in by_row}
    feed = {key: value[picks[key]] if key in by_row else value for key, value in whole.items()}
    fields = _cut(program)
    for key, offsets in fields.items():
        rows = inner.get(_rows_of(program, offsets), chosen)
        feed[key] = whole[key][_ranges(whole[offsets][rows], whole[offsets][rows + 1])]
    for key in dict.fromkeys((*fields.values(), *over)):
        rows = inner.get(_rows_of(program, key), chosen)
        feed[key] = np.cumsum([0, *np.diff(whole[key])[rows]]).astype(whole[key].dtype)
    return Request(request.name, len(chosen), _closed(program, feed))


def _rows_of(program: Program, key: str) -> str:
    """The symbol of an input's rows, or of those that it holds offsets of."""
    item = next(i for i in (*program.inputs, *program.signature) if i.name == key)
    ends = {i.offsets for i in program.inputs} | _over(program).keys()
    return str(dims.sub(item.shape[0], 1) if key in ends else item.shape[0])


def _ranges(starts: Array, ends: Array) -> NDArray[np.int64]:
    """starts[0] .. ends[0] - 1, starts[1] .. ends[1] - 1, ..."""
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(a, b) for a, b in zip(starts, ends, strict=True))])


def joined(program: Program, requests: Sequence[Request], name: str) -> Request:
    """One request with the rows of several. Facts: inputs without rows are those of the first."""
    by_row = batched(program)
    fields = _cut(program)
    by_row |= fields.keys()
    parts = [_opened(program, r.feed) for r in requests]
    first = parts[0]
    feed = {key: np.concatenate([p[key] for p in parts]) if key in by_row else value for key, value in first.items()}
    for key in dict.fromkeys((*fields.values(), *_over(program))):
        lengths = np.concatenate([np.diff(p[key]) for p in parts])
        feed[key] = np.cumsum([0, *lengths]).astype(first[key].dtype)
    return Request(name, sum(r.rows for r in requests), _closed(program, feed))


def _closed(program: Program, feed: Feed) -> Feed:
    """The request with what says offsets in their place."""
    made = {name for r in program.row_keys for name in (r.offsets, r.places)}  # what says rows is made of these
    return {key: value for key, value in feed.items() if key not in made} | _said(program, feed)
