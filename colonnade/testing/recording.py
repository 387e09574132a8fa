"""Golden rows: requests and answers that travel in an artifact, so that it is verified without the source model."""

from __future__ import annotations

import numpy as np

from colonnade.artifact import Golden
from colonnade.errors import ColonnadeError, OptionError
from colonnade.ir.program import Program
from colonnade.testing.points import points_of
from colonnade.testing.requests import Request, fixed_rows, joined, make_request, rows_in, take
from colonnade.testing.sides import Answer, RecordedSide, Side
from colonnade.testing.verify import rows_answered

ANSWERED_BY = "answered-by"
NAME = "recorded"


def record(program: Program, side: Side, rows: int, seed: int = 0) -> Golden:
    """`rows` ordinary and corner rows (half each, at least one) with the side's answer at every point.

    Facts: a program of a fixed number of rows has one request of them. Rows that the side refuses are left out; a
    column is kept as a part of its buffer where the side shows that.
    Errors: OptionError where the side answers none of them.
    """
    fixed = fixed_rows(program)
    requests = [make_request(program, "ordinary", max(1, rows - rows // 2) if fixed is None else fixed, seed)]
    if rows > 1 and fixed is None:
        requests.append(make_request(program, "corner", rows // 2, seed))
    kept = [answered for request in requests if (answered := _answered(program, side, request)).rows]
    if not kept:
        raise OptionError("no row could be recorded", where=side.name, help="the model refuses every generated row")
    request = joined(program, kept, NAME)
    answer = side.answer(request)
    slots = {p.key for p in points_of(program) if p.slot is not None and p.slot[0] in answer}
    outputs = {key: value for key, value in answer.items() if key not in slots}
    by = np.array([side.name.encode()], object)
    return Golden(dict(request.feed), {**outputs, ANSWERED_BY: by})


def _answered(program: Program, side: Side, request: Request) -> Request:
    try:
        side.answer(request)
    except ColonnadeError:
        good, _ = rows_answered(program, side, request)
        if fixed_rows(program) is not None:
            return Request(request.name, 0, request.feed)
        return take(program, request, good)
    return request


def recorded(program: Program, golden: Golden) -> tuple[Request, RecordedSide]:
    """The request that was recorded, and the side that knows its answer."""
    answer: Answer = {key: np.asarray(value) for key, value in golden.outputs.items()}
    by = answer.pop(ANSWERED_BY, np.array([b"an unnamed oracle"], object))
    known = {p.key for p in points_of(program)}
    # A plain recording, by output name alone, is one too.
    answer = {key if key in known else f"output:{key}": value for key, value in answer.items()}
    rows = rows_in(program, golden.inputs)
    name = "golden rows of " + by.reshape(-1)[0].decode()
    return Request(NAME, rows, dict(golden.inputs)), RecordedSide(name, program, {NAME: answer})
