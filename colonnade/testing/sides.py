"""Who answers a request at every point of a program: Colonnade, TensorFlow, or what was recorded."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.backends.backend import Backend
from colonnade.executable import Executable
from colonnade.ir.program import PLACE, Program, Weights
from colonnade.testing.oracle import OracleError, TensorFlowModel
from colonnade.testing.points import points_of, probe, slots_of
from colonnade.testing.requests import Request

Array = NDArray[Any]
Answer = dict[str, Array]

_VIEWS = {"Reshape": 0, "Identity": 0, "Squeeze": 0, "ExpandDims": 0, "Select": -1, "SelectV2": -1}
"""Ops whose value is that of one operand: the first, or the last where rows without ids are replaced by zeros."""
_HOPS = 6

CRASHES = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
"""What an answer may raise by a mistake of its own: it is reported, and the comparison goes on."""


class Side(Protocol):
    """Something that answers requests. Errors of `answer`: ColonnadeError where it refuses the request."""

    name: str

    def answer(self, request: Request) -> Answer:
        """The tensors by a point's key; a point that this side cannot show is absent."""


class ColonnadeSide:
    """An executable, with a second one over the same program that shows its inside.

    Facts: the outputs are those of the executable itself.
    """

    name = "colonnade"

    def __init__(self, executable: Executable, backend: Backend, *, threads: int = 1) -> None:
        self.program = executable.program
        self.weights = executable.weights
        self._executable = executable
        policy = executable.report().id_policy
        self._probe = Executable(probe(self.program), self.weights, backend, id_policy=policy, threads=threads)

    def answer(self, request: Request) -> Answer:
        """Every point."""
        outputs = self._executable(request.feed)
        inside = self._probe(request.feed)
        inside.update({f"output:{name}": value for name, value in outputs.items()})
        return slots_of(self.program, {key: np.asarray(value) for key, value in inside.items()})


class _Tapped(TensorFlowModel):
    """With the names of the tensors behind the signature's outputs."""

    def output_tensors(self) -> dict[str, str]:
        """Tensor by output."""
        return {name: info.name for name, info in self._signature.outputs.items()}


class TensorFlowSide:
    """The source model in TensorFlow.

    optimize: whether TensorFlow may rewrite the graph first, as it does in service. Of a thousand columns that takes
    minutes for each set of tensors asked for, so it is for timing.
    Facts: a point whose source tensor is not in the main graph (it lies in a function, or has no name) is absent.
    """

    def __init__(
        self,
        model: str | Path,
        program: Program,
        signature: str | None = None,
        tags: Sequence[str] = ("serve",),
        threads: int | None = None,
        *,
        optimize: bool = False,
    ) -> None:
        self.model = _Tapped(model, signature, tags, threads, optimize)
        self.name = "tensorflow " + _version()
        self.program = program
        self.keys = tuple(i.name for i in program.signature)
        self.tensors = self._tensors()
        self._points = points_of(program)
        self._concats = self._candidates()

    def answer(self, request: Request) -> Answer:
        """Every point that TensorFlow can show. Errors: OracleError where it raises."""
        extra = [t for tensors in self._concats.values() for t in tensors]
        fetches = list(dict.fromkeys([*self.tensors.values(), *extra]))
        found = self.model.run(request.feed, fetches)
        answer = {key: found[tensor] for key, tensor in self.tensors.items()}
        widths = {b.name: b.width for b in self.program.buffers}
        for buffer, tensors in self._concats.items():
            shown = [found[t] for t in tensors if found[t].shape == (request.rows, widths[buffer])]
            if shown:
                key = f"concat:{buffer}"
                answer[key] = next((x for x in shown[::-1] if self._in_order(key, x, answer)), shown[-1])
        return answer

    def _in_order(self, buffer: str, concat: Array, answer: Mapping[str, Array]) -> bool:
        """Whether the columns that are shown stand in a concat where they do in the buffer: others join them anew."""
        for point in self._points:
            if point.slot is not None and point.slot[0] == buffer and point.key in answer:
                part = concat[:, point.slot[1] : point.slot[1] + point.slot[2]]
                if not np.array_equal(part.reshape(-1), answer[point.key].reshape(-1), equal_nan=True):
                    return False
        return True

    def outputs(self, request: Request) -> Answer:
        """The outputs alone, as a caller would ask."""
        return {f"output:{name}": value for name, value in self.model.run(request.feed).items()}

    def concat_tensors(self) -> tuple[str, ...]:
        """One tensor for each buffer: the columns' own output, for timing."""
        return tuple(tensors[-1] for tensors in self._concats.values() if tensors)

    def close(self) -> None:
        """Give back what the session holds."""
        self.model.close()

    def _tensors(self) -> dict[str, str]:
        kinds = self.model.node_kinds()
        outputs = self.model.output_tensors()
        found: dict[str, str] = {}
        for point in points_of(self.program):
            if point.kind == "output" and point.name in outputs:
                found[point.key] = outputs[point.name]
            elif point.source and point.source.partition(":")[0] in kinds:
                found[point.key] = point.source
        return found

    def _candidates(self) -> dict[str, list[str]]:
        """The source's concats of a buffer's columns, the innermost first.

        Facts: a column may stand in several, and the dense rest's part of a buffer says which one the buffer is.
        """
        kinds = self.model.node_kinds()
        columns: dict[str, set[str]] = {b.name: set() for b in self.program.buffers}
        for point in points_of(self.program):
            if point.slot is not None and point.source:
                columns[point.slot[0].removeprefix("concat:")].add(point.source)
        concats = {node: self._behind(self.model.operands(node), kinds) for node, k in kinds.items() if k == "ConcatV2"}
        filled: dict[str, set[str]] = {}
        for line in self.program.dense:
            if line.op == PLACE:
                filled.setdefault(str(line.args[1].name), set()).add(line.source)
        found: dict[str, list[str]] = {}
        for buffer, sources in columns.items():
            reached = {node for node, operands in concats.items() if operands & sources}
            outer = {node for node, operands in concats.items() if operands & {f"{n}:0" for n in reached}}
            nodes = (*_ordered(reached, kinds), *_ordered(outer - reached, kinds))
            said = [node for node in concats if node in filled.get(buffer, ())]
            found[buffer] = [f"{node}:0" for node in said or nodes]
        return found

    def _behind(self, tensors: Iterable[str], kinds: Mapping[str, str]) -> set[str]:
        """The tensors, and those of which they are views."""
        found = set(tensors)
        edge = set(found)
        for _ in range(_HOPS):
            nodes = {t.partition(":")[0] for t in edge}
            edge = {self.model.operands(n)[_VIEWS[kinds[n]]] for n in nodes if kinds.get(n) in _VIEWS} - found
            found |= edge
        return found


def _ordered(nodes: set[str], kinds: Mapping[str, str]) -> list[str]:
    return [name for name in kinds if name in nodes]


def _version() -> str:
    for name in ("tensorflow-cpu", "tensorflow"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "of unknown version"


class RecordedSide:
    """Answers that were stored with the requests: only those very requests can be asked."""

    def __init__(self, name: str, program: Program, answers: Mapping[str, Answer]) -> None:
        self.name = name
        self._program = program
        self._answers = dict(answers)

    def answer(self, request: Request) -> Answer:
        """What was stored. Errors: OracleError for another request."""
        if request.name not in self._answers:
            raise OracleError("no answer is recorded for this request", got=request.name)
        return slots_of(self._program, self._answers[request.name])


def reference_side(program: Program, weights: Weights, backend: Backend, id_policy: str = "error") -> ColonnadeSide:
    """The program itself on another backend: what `record` asks where there is no TensorFlow."""
    side = ColonnadeSide(Executable(program, weights, backend, id_policy=id_policy), backend)
    side.name = f"the {backend.name} backend"
    return side
