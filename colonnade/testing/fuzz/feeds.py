"""Requests for a random model: ordinary, corner, missing and hostile values of each input, by the seed."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.testing.fuzz.cases import Case, Input, Model
from colonnade.testing.models.feeds import LEAST_WEIGHT, Hints, corners, ordinary_feed
from colonnade.testing.requests import Request

Array = NDArray[Any]

FULL = (("ordinary", 0), ("ordinary", 1), ("ordinary", 17), ("corner", 1), ("corner", 83), ("missing", 3))
"""Kind and rows of the requests of a model, to which a hostile one is added."""
HOSTILE = ("hostile", 9)
FEW = (("corner", 5), ("missing", 1), ("ordinary", 0))
UNCHECKED = ("row", "rows", "raw", "sequence", "nested", "values")
"""Lookups of plain ops that take ids as they are."""
FEW_BYTES = 200
"""Hashed in three chunks and a rest; each chunk takes an interpreter half a second."""
PLAIN = ("identity", "embedded", "encoded")
"""Kinds whose ids are the input itself; Keras counts negative ones from the end of its table."""
_SHARE = {"ordinary": 0.1, "corner": 0.9, "missing": 1.0, "hostile": 0.5}
"""How many of the values are corners, by the kind of a request."""
_INTEGERS = (-1, -1, 0, 1, -2, 9, 10, 99, -100, 2**31 - 1, -(2**31), 2**31, 2**32 + 3, 2**53 + 1, 2**63 - 1, -(2**63))


def requests(model: Model, *, few: bool = False) -> tuple[Request, ...]:
    """The requests of a model. few: for an interpreter, some rows only, none hostile, no string very long.

    Facts: an input's values depend on it, the cases that read it and the seed, so that what `restricted` leaves are
    those of the whole model. Only a hostile request has ids that an identity without a default refuses.
    """
    if few:
        return tuple(_cut(_request(model, kind, rows)) for kind, rows in FEW)
    return tuple(_request(model, kind, rows) for kind, rows in (*FULL, HOSTILE))


def _cut(request: Request) -> Request:
    """The request with the first `FEW_BYTES` of each string."""
    feed = {
        key: _objects([s[:FEW_BYTES] for s in v.flat]).reshape(v.shape) if v.dtype == object else v
        for key, v in request.feed.items()
    }
    return replace(request, feed=feed)


def restricted(request: Request, model: Model) -> Request:
    """The request with the inputs of a smaller model alone."""
    return Request(request.name, request.rows, {i.name: request.feed[i.name] for i in model.inputs})


def _request(model: Model, kind: str, rows: int) -> Request:
    feed = {}
    for item in model.inputs:
        rng = np.random.default_rng([model.seed, model.index, rows, zlib.crc32(f"{kind} {item.name}".encode())])
        feed[item.name] = _values(model, item, kind, rows, rng)
    return Request(f"{kind}-{rows}", rows, feed)


def _values(model: Model, item: Input, kind: str, rows: int, rng: np.random.Generator) -> Array:
    hints = _hints(model, item)
    found = ordinary_feed((item.spec,), rows, rng, hints)[item.name]
    if kind != "hostile" and (known := _known(model, item)) is not None:
        return known[rng.integers(len(known), size=found.shape)]
    pool = _missing(model, item) if kind == "missing" else _corners(model, item, hints, hostile=kind == "hostile")
    if any(c.weights == item.name for c in model.cases):
        pool = pool[~((pool != 0) & (np.abs(pool) < LEAST_WEIGHT))]
    at = rng.random(found.shape) < _SHARE[kind]
    found[at] = pool[rng.integers(len(pool), size=int(at.sum()))]
    return found


def strict(case: Case) -> bool:
    """Whether it refuses words that it does not know."""
    return case.kind == "lookup" and not case.oov_buckets


def _known(model: Model, item: Input) -> Array | None:
    """The values of an input of which a case refuses all others, None where there is none."""
    case = next((c for c in model.of_input(item.name) if strict(c)), None)
    if case is None:
        return None
    words = [*case.words, *(() if case.mask is None else (case.mask,))]
    return _objects([str(w).encode() for w in words]) if item.dtype == "string" else np.array(words, item.dtype)


def _hints(model: Model, item: Input) -> Hints:
    cases = model.of_input(item.name)
    name = item.name
    boundaries = sorted({b for c in cases for b in c.boundaries})
    words = [w.encode() for c in cases for w in c.words if isinstance(w, str)]
    sizes = [c.size for c in cases if c.kind in PLAIN]
    return Hints(
        boundaries={name: boundaries} if boundaries else {},
        separators={name: item.separator.encode()} if item.separator else {},
        ids={name: (0, min(sizes))} if sizes else {},
        vocabulary={name: words} if words and not item.separator else {},
    )


def _missing(model: Model, item: Input) -> Array:
    if item.dtype == "string":
        return _objects([b""])
    integer = 0 if any(map(_refuses, model.of_input(item.name))) else -1
    return np.array([np.nan if item.dtype.startswith("float") else integer], item.dtype)


def _refuses(case: Case) -> bool:
    """Whether a lookup of plain ops has no row for -1 and does not leave it out, or marks have no place for it."""
    if case.kind == "encoded":
        return case.mode != "one_hot"
    return case.kind == "identity" and case.default is None and case.form in UNCHECKED


def _corners(model: Model, item: Input, hints: Hints, *, hostile: bool) -> Array:
    if item.dtype.startswith("int"):
        return _integers(model, item, hostile)
    found = corners(item.spec, hints)
    if item.dtype == "string":
        words = [str(w).encode() for c in model.of_input(item.name) for w in c.words]
        joined = item.separator.encode().join([*words, b"", b"\xff"])
        return np.concatenate([found, _objects([b"", b"\xff\xc3", b"\0", *words, joined])])
    return np.concatenate(
        [found, np.array([0.1, -0.1, 1e300, -1e300], np.float64).clip(-3e38, 3e38).astype(found.dtype)]
    )


def _integers(model: Model, item: Input, hostile: bool) -> Array:
    cases = model.of_input(item.name)
    some = [*_INTEGERS, *(w for c in cases for w in c.words if isinstance(w, int))]
    some += [c.size + d for c in cases for d in (-1, 0, 1) if c.kind in PLAIN]
    some += [int(b) + d for c in cases for b in c.boundaries for d in (-1, 0, 1)]
    refusing = [c.size for c in cases if c.kind in PLAIN and (c.default is None or c.form == "bag")]
    most = min(refusing) - 1 if refusing and not hostile else np.iinfo(item.dtype).max
    from_end = [-c.size for c in cases if c.kind == "embedded"]
    least = max(from_end) if from_end and not hostile else np.iinfo(item.dtype).min
    least = 0 if any(map(_refuses, cases)) and not hostile else least
    towers = {t.number for t in model.towers if t.parts > 1}
    if any(c.parts > 1 or c.tower in towers for c in cases):  # ids far outside a table of parts are a listed deviation
        least, most = max(least, -(2**31)), min(most, 2**31 - 1)
    return np.array([v for v in some if least <= v <= most], item.dtype)


def _objects(values: list[bytes]) -> Array:
    found = np.empty(len(values), object)
    found[:] = values
    return found
