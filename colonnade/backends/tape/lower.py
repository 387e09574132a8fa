"""Which instructions of a dense rest become tapes: runs of steps whose results each depend on their row alone.

Facts: an instruction that cannot be a step stays, and is moved before a tape that it does not read. That changes no
answer: memory that an instruction writes is read by the name of its result only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from colonnade.backends.dense import DensePlan
from colonnade.backends.tape.part import Part, Skip, Unfit, Value
from colonnade.backends.tape.steps import STEPS
from colonnade.backends.tape.tape import Tape, TapeCall
from colonnade.backends.tape.zeros import Ranges, Rows, mostly_zero
from colonnade.ir.program import ITEM, OWN, PLACE, Input, Instruction, Output, Program, Ref, operands, refs_in

FEWEST = 3
"""Instructions below which a tape is not worth its call."""
MOST_WORK = 1 << 24
"""Multiplications, or as much other work, up to which one thread and no calls beat two threads of torch."""
MOST_WEIGHTS, FEW_WEIGHTS = 1 << 20, 1 << 15
"""Elements of a matrix up to which a product is a step; and where torch keeps a larger one in any case, so that its
threads would be in the way of ours."""
MOST_ROWS = 1 << 62
PRODUCTS = ("aten.linear", "aten.mm", "aten.addmm")
LINEAR, AFTER = "aten.linear.default", f"{OWN}after"


def taped(
    program: Program,
    params: Mapping[str, torch.Tensor],
    threads: int = 1,
    tables: Mapping[str, Rows] | None = None,
) -> DensePlan:
    """The plan of a dense rest on the host, with tapes in the place of what they do.

    threads: that a tape may use.   tables: rows of each, so that products skip the zeros of marks.
    """
    plan = DensePlan(program, params)
    lowering, constants = _lowering(program, plan, threads, tables)
    lines, ops = lowering.lowered()
    return (
        DensePlan(replace(program, dense=lines), constants, ops=ops, arrays=lowering.arrays) if len(ops) > 1 else plan
    )


def skips(
    program: Program, params: Mapping[str, torch.Tensor], threads: int, tables: Mapping[str, Rows]
) -> tuple[Skip, ...]:
    """The products of that plan which do not multiply the zeros of marks."""
    lowering, _ = _lowering(program, DensePlan(program, params), threads, tables)
    lowering.lowered()
    return tuple(lowering.skips)


def _lowering(
    program: Program, plan: DensePlan, threads: int, tables: Mapping[str, Rows] | None
) -> tuple[_Lowering, Mapping[str, torch.Tensor]]:
    """Of what the plan has not computed already, with what it has."""
    left, constants = plan.rest
    rest = replace(program, dense=left)
    return _Lowering(rest, constants, threads, mostly_zero(rest, tables) if tables else {}), constants


@dataclass
class _Segment:
    """What is to be one tape."""

    part: Part
    lines: list[Instruction] = field(default_factory=list)
    made: set[str] = field(default_factory=set)


class _Lowering:
    def __init__(
        self, program: Program, params: Mapping[str, torch.Tensor], threads: int, zeros: Mapping[str, Ranges]
    ) -> None:
        self._program = program
        self._zeros = zeros
        self._threads = threads
        self._params = params
        self._known: dict[str, Value] = {}
        for name, tensor in params.items():
            self._known[name] = Value(name, tuple(tensor.shape), tensor.dtype, constant=tensor)
        for item in program.inputs:
            if item.dtype != "string" and item.of is None:
                self._known[item.name] = Value(item.name, item.shape, getattr(torch, item.dtype))
        for buffer in program.buffers:
            self._known[buffer.name] = Value(buffer.name, (buffer.rows, buffer.width), torch.float32)
        more = torch.get_num_threads() - threads
        self._most = MOST_WORK // more if more > 0 else None
        self._most_weights = MOST_WEIGHTS if _largest(program, params) <= MOST_WEIGHTS else FEW_WEIGHTS
        read = [name for line in program.dense for name in refs_in(operands(line))]
        self._fetched = Counter(o.value.name for o in program.outputs)
        self._reads = Counter(read) + self._fetched
        self.arrays: set[str] = set()
        """Results that nothing but outputs reads."""
        self.skips: list[Skip] = []
        self._out: list[Instruction] = []
        self._ops: dict[str, Callable[..., Any]] = {AFTER: after}
        self._open: _Segment | None = None

    def lowered(self) -> tuple[tuple[Instruction, ...], dict[str, Callable[..., Any]]]:
        """The instructions, and the tapes among their ops by name."""
        for line in self._program.dense:
            if not self._taken(line):
                if self._open is not None and not self._open.made.isdisjoint(refs_in(operands(line))):
                    self._close()
                self._out.append(line)
                self._look_at(line)
        self._close()
        return tuple(self._out), self._ops

    def _taken(self, line: Instruction) -> bool:
        """Whether the instruction is a step of the open segment, or begins one."""
        make = STEPS.get(line.op)
        if make is None:
            return False
        segment = self._open or _Segment(Part(self._most_weights, self._zeros))
        try:
            value = make(segment.part, line, [self._operand(a) for a in line.args])
        except Unfit:
            return False
        self._open = segment
        self._known[line.output] = value
        segment.lines.append(line)
        segment.made.add(line.output)
        return True

    def _operand(self, arg: Any) -> Any:
        """What is known of an operand: references become values."""
        if isinstance(arg, Ref):
            if arg.name not in self._known:
                raise Unfit
            return self._known[arg.name]
        return tuple(map(self._operand, arg)) if isinstance(arg, tuple | list) else arg

    def _look_at(self, line: Instruction) -> None:
        """What is known of a product that torch keeps: what reads it may be on a tape."""
        x, weight = ([self._known.get(getattr(a, "name", "")) for a in line.args[:2]] + [None, None])[:2]
        if line.op == LINEAR and x is not None and weight is not None and len(x.shape) == len(weight.shape) == 2:
            self._known[line.output] = Value(line.output, (x.shape[0], weight.shape[0]), x.dtype)

    def _close(self) -> None:
        """Put the open segment behind what was put out so far: as a tape, where it is worth one."""
        segment, self._open = self._open, None
        if segment is None:
            return
        lines, part = segment.lines, segment.part
        inside = Counter(name for line in lines for name in refs_in(operands(line)))
        wanted = [line.output for line in lines if self._reads[line.output] > inside[line.output]]
        values = {name: self._known[name] for name in segment.made}
        self._known |= {name: Value(name, v.shape, v.dtype) for name, v in values.items()}
        filled = [line.output for line in lines if line.op == PLACE and line.output in wanted]
        results = [values[name] for name in wanted if name not in filled]
        if len(lines) < FEWEST or any(v.dtype == torch.bool for v in results) or self._rows(part) == 0:
            self._out += lines
            return
        self.skips += part.skips
        name = f"{OWN}tape_{len(self._ops) - 1}"
        arrays = frozenset(v.name for v in results if self._fetched[v.name] == self._reads[v.name] - inside[v.name])
        self.arrays |= arrays
        read = dict.fromkeys(name for line in lines for name in refs_in(operands(line)))
        tensors = [self._known[n] for n in read if n not in values and self._known[n].constant is None]
        self._ops[name] = TapeCall(self._tape(part, lines, tensors, results), arrays)
        given = (part.rows, *(Ref(v.name) for v in tensors))
        self._out.append(Instruction(name, name, given, source=lines[-1].source))
        self._out += [Instruction(v.name, ITEM, (Ref(name), k)) for k, v in enumerate(results)]
        for output in filled:
            tensor = part.places[output].home.tensor
            assert tensor is not None
            self._out.append(Instruction(output, AFTER, (Ref(tensor), Ref(name))))

    def _tape(
        self, part: Part, lines: Sequence[Instruction], tensors: Sequence[Value], results: Sequence[Value]
    ) -> Tape:
        scratch = part.settle([v.name for v in tensors], results)
        inputs = tuple(Input(v.name, str(v.dtype).removeprefix("torch."), v.shape) for v in tensors)
        outputs = tuple(Output(v.name, Ref(v.name), "", v.shape) for v in results)
        constants = {n: self._params[n] for line in lines for n in refs_in(operands(line)) if n in self._params}
        assert part.rows is not None
        return Tape(
            steps=part.words(),
            constants=part.constants,
            scratch=scratch,
            operands=tuple(map(_form, tensors)),
            results=tuple(map(_form, results)),
            plain=DensePlan(Program(inputs, (), (), (), tuple(lines), outputs), constants),
            symbol=part.rows.name,
            work=part.work,
            most=self._rows(part),
            threads=self._threads,
            tile=part.tile,
        )

    def _rows(self, part: Part) -> int:
        """The rows up to which a tape is the faster."""
        return MOST_ROWS if self._most is None else self._most // max(1, part.work)


def _largest(program: Program, params: Mapping[str, torch.Tensor]) -> int:
    """Elements of the largest matrix of a product."""
    names = {n for line in program.dense if line.op.startswith(PRODUCTS) for n in refs_in(operands(line))}
    return max((t.numel() for name, t in params.items() if name in names and t.dim() == 2), default=0)


def _form(value: Value) -> tuple[str, tuple[Any, ...], torch.dtype]:
    return value.name, value.shape[1:], value.dtype


def after(value: torch.Tensor, _: object) -> torch.Tensor:
    """The value, once something has been done."""
    return value
