"""Runs the dense rest of a program: a prepared list of torch calls on one device."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy
import torch

from colonnade.backends.dense_ops import DENSE_OPS, READ_BY_HOST
from colonnade.backends.sizes import DimFunction, Sizes, dim_function
from colonnade.errors import ColonnadeError, GraphError, listed
from colonnade.ir.program import ITEM, OWN, PLACE, REQUIRE, Instruction, Program, Ref, operands, refs_in

Env = list[Any]
Getter = Callable[[Env], Any]
Types = dict[int | str, str]
"""The schema's type of each argument, by position and by name."""

_READS_DATA = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
_REFUSALS = (RuntimeError, IndexError, ZeroDivisionError, ValueError)
"""What an op raises where it cannot take its operands."""

FOLDED_BYTES = 1 << 20
"""Up to this size a constant of the dense rest may be larger than what it is computed from."""


@dataclass(frozen=True, slots=True)
class _Step:
    """`env[out] = call(*args(env))`; then the values at `dead` are dropped.

    spread: indices of parts of the result, and where these go.
    """

    call: Callable[..., Any]
    args: Callable[[Env], Sequence[Any]]
    out: int
    used: frozenset[int]
    dead: tuple[int, ...]
    where: str
    spread: tuple[tuple[int, int], ...] = ()


class DensePlan:
    """The dense rest with everything resolved that does not depend on the request. Holds no state: safe for threads.

    A value, a literal and a dim each have a place in one list; a call copies the list and fills it in.
    device: where inputs and buffers lie; parameters are moved there and tensors that instructions make are made there.
    ops: what runs in the place of instructions of a name.   arrays: values that are fresh host arrays, no tensors.
    Facts: what is computed from parameters and literals alone is computed here, once, by the same calls on the same
    device, and anew for other weights. An instruction that refuses its operands stays, so that requests say it.
    Strings have no device: an input of strings reaches an output as the host array it is.
    Errors: GraphError that lists every op that does not exist and every value that is used but never made.
    """

    def __init__(
        self,
        program: Program,
        params: Mapping[str, torch.Tensor],
        device: torch.device | str = "cpu",
        ops: Mapping[str, Callable[..., Any]] | None = None,
        arrays: Collection[str] = (),
    ) -> None:
        self.device = torch.device(device)
        self._ops = {**DENSE_OPS, **(ops or {})}
        self.host_only = host_only(program)
        self._template: Env = []
        self._names: dict[str, int] = {}
        self._dims: list[tuple[int, DimFunction]] = []
        self._dim_slots: dict[sympy.Expr, int] = {}
        self.inputs = frozenset(_refs(program) & {i.name for i in program.inputs})
        self.sources = (*sorted(self.inputs), *(b.name for b in program.buffers))
        for name in self.sources:
            self._names[name] = self._slot(None)
        for name, tensor in params.items():
            self._names[name] = self._slot(tensor.to(self.device))
        self._known = {self._names[name] for name in params}
        self._problems: list[str] = []
        self._left: list[Instruction] = []
        self._steps = self._planned(program)
        self.synchronises = synchronises(replace(program, dense=tuple(self._left)))
        self._outputs = tuple((o.name, self._named(o.value.name, f"output {o.name!r}")) for o in program.outputs)
        if self._problems:
            raise GraphError("the dense rest cannot be run", got=listed(self._problems))
        first = {o.value.name: o.name for o in reversed(program.outputs)}
        self.fresh = frozenset(output for name, output in first.items() if name in arrays)
        """Outputs that are fresh host arrays, each in memory of its own."""
        self._source_slots = tuple(self._names[name] for name in self.sources)
        self._forget()

    @property
    def constants(self) -> Iterator[torch.Tensor]:
        """The tensors that calls share: parameters, and what is computed from them alone."""
        for value in self._template:
            yield from _tensors(value)

    @property
    def rest(self) -> tuple[tuple[Instruction, ...], dict[str, torch.Tensor]]:
        """The instructions that each request needs, and the constants that they and the outputs read, by name."""
        values = {name: self._template[slot] for name, slot in self._names.items() if slot in self._known}
        return tuple(self._left), {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}

    def op(self, name: str) -> Callable[..., Any] | None:
        """What runs in the place of instructions of a name, where that is not torch's op."""
        return self._ops.get(name)

    def run(self, values: Mapping[str, Any], sizes: Sizes) -> dict[str, Any]:
        """The outputs by name, from the inputs and buffers by name."""
        env = self._template.copy()
        for name, slot in zip(self.sources, self._source_slots, strict=True):
            env[slot] = values[name]
        for slot, function in self._dims:
            env[slot] = function(sizes)
        with torch.inference_mode():
            for step in self._steps:
                try:
                    value = env[step.out] = step.call(*step.args(env))
                    for index, slot in step.spread:
                        env[slot] = value[index]
                except torch.OutOfMemoryError:  # the device's trouble, not the request's
                    raise
                except _REFUSALS as error:
                    message = str(error).partition("\n")[0]
                    raise GraphError("the dense rest refuses the request", where=step.where, got=message) from error
                for slot in step.dead:
                    env[slot] = None
        return {name: env[slot] for name, slot in self._outputs}

    def _slot(self, value: Any) -> int:
        self._template.append(value)
        return len(self._template) - 1

    def _named(self, name: str, where: str) -> int:
        if name not in self._names:
            self._problems.append(f"{where}: no value {name!r}")
            return 0
        return self._names[name]

    def _planned(self, program: Program) -> tuple[_Step, ...]:
        planned: list[_Step] = []
        written = {name for line in program.dense if _writes(line) for name in refs_in(line.args)}
        for line in program.dense:
            where = f"{line.output} = {line.op}"
            call, types = self._resolved(line)
            used: set[int] = set()
            given = (*line.kwargs, *(() if _has_device(line, types) else (("device", str(self.device)),)))
            keywords = tuple(name for name, _ in given)
            items = [*line.args, *(value for _, value in given)]
            wanted = [types.get(i if i < len(line.args) else keywords[i - len(line.args)]) for i in range(len(items))]
            getters = [self._item(v, t, used, where) for v, t in zip(items, wanted, strict=True)]
            self._names[line.output] = out = self._slot(None)
            called = _with_keywords(call, len(line.args), keywords)
            step = _Step(called, _all(getters), out, frozenset(used), (), line.source or where)
            if used <= self._known and line.output not in written and not _varies(line) and self._fold(step):
                continue
            self._left.append(line)
            if line.op == ITEM and planned and isinstance(line.args[1], int) and used == {planned[-1].out}:
                last = planned[-1]
                planned[-1] = replace(last, spread=(*last.spread, (line.args[1], out)))
            else:
                planned.append(step)
        kept = {self._names[o.value.name] for o in program.outputs if o.value.name in self._names}
        kept |= self._known | set(self._dim_slots.values())
        return self._with_dead(planned, kept)

    def _fold(self, step: _Step) -> bool:
        """Compute a value of constants now; false where it refuses them, or is much larger than they are."""
        if self._problems:
            return False
        try:
            with torch.inference_mode():
                value = step.call(*step.args(self._template))
        except (*_REFUSALS, ColonnadeError):
            return False
        if _memory(value) > max(FOLDED_BYTES, sum(_memory(self._template[slot]) for slot in step.used)):
            return False
        self._template[step.out] = value
        self._known.add(step.out)
        return True

    def _forget(self) -> None:
        """Drop the constants that nothing reads any more."""
        read = {slot for _, slot in self._outputs}.union(*(step.used for step in self._steps))
        for slot in self._known - read:
            self._template[slot] = None

    def _with_dead(self, planned: Sequence[_Step], kept: set[int]) -> tuple[_Step, ...]:
        """Marks each value's last use: it is dropped there, unless it is an output or a parameter."""
        steps = []
        later = set(kept)
        for step in reversed(planned):
            made = {step.out, *(slot for _, slot in step.spread)}
            dead = tuple(sorted((step.used | made) - later))
            later |= step.used
            steps.append(replace(step, dead=dead))
        return tuple(reversed(steps))

    def _resolved(self, line: Instruction) -> tuple[Callable[..., Any], Types]:
        """The callable, and the types of its arguments."""
        found = self._ops.get(line.op)
        if found is not None:
            return found, {}
        if not line.op.startswith(OWN):
            call = overload_of(line.op)
            if call is not None:
                return call, _types(call)
        self._problems.append(f"{line.output}: no op {line.op!r}")
        return operator.pos, {}

    def _item(self, value: Any, kind: str | None, used: set[int], where: str) -> int | Getter:
        """The place of an argument, or how to build it where it is a list."""
        if isinstance(value, Ref):
            slot = self._named(value.name, where)
            used.add(slot)
            return slot
        if isinstance(value, sympy.Expr):
            if value not in self._dim_slots:
                self._dim_slots[value] = self._slot(None)
                self._dims.append((self._dim_slots[value], dim_function(value)))
            used.add(self._dim_slots[value])
            return self._dim_slots[value]
        if isinstance(value, tuple | list):
            parts = [self._item(v, None, used, where) for v in value]
            if any(isinstance(v, Ref | sympy.Expr | tuple | list) for v in value):
                build = _all(parts)
                return lambda env: list(build(env))
            return self._slot(list(value))
        if kind is not None and "Device" in kind:
            return self._slot(self.device)
        if isinstance(value, str) and (kind is None or "str" not in kind):
            value = getattr(torch, value, value)
        return self._slot(value)


def overload_of(op: str) -> torch._ops.OpOverload | None:
    """The torch op of an overload name such as `aten.addmm.default`; None where there is none."""
    namespace, _, rest = op.partition(".")
    name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), name, None) if name.isidentifier() else None
    if packet is None or (overload or "default") not in packet.overloads():
        return None
    found: torch._ops.OpOverload = getattr(packet, overload or "default")
    return found


def host_only(program: Program) -> tuple[str, ...]:
    """Where the dense rest reads strings, which no device holds, in words."""
    strings = {i.name for i in program.inputs if i.dtype == "string"}
    found = []
    for line in program.dense:
        for name in sorted(strings.intersection(refs_in(operands(line)))):
            found.append(f"{line.output} = {line.op}: reads the strings of input {name!r}")
    for output in program.outputs:
        if output.value.name in strings:
            found.append(f"output {output.name!r}: is the strings of input {output.value.name!r}")
    return tuple(found)


def synchronises(program: Program) -> tuple[str, ...]:
    """The instructions that wait for data or check sizes on the host, in words: no CUDA graph can hold them."""
    found = ((line, _on_host(line)) for line in program.dense)
    return tuple(f"{line.output} = {line.op}: {why}" for line, why in found if why)


def _on_host(line: Instruction) -> str:
    """Why an instruction runs on the host; empty where it does not."""
    if line.op == REQUIRE:
        return "compares sizes on the host"
    if line.op in READ_BY_HOST:
        return "the host waits for what it finds"
    call = None if line.op.startswith(OWN) else overload_of(line.op)
    if call is None:
        return ""
    if any(tag in call.tags for tag in _READS_DATA):
        return "its result or its shape depends on data"
    if any("Tensor" not in str(r.type) for r in call._schema.returns):
        return "gives a number to the host"
    types = _types(call)
    named: list[tuple[int | str, Any]] = [*enumerate(line.args), *line.kwargs]
    numbers = any(any(refs_in(v)) and "Tensor" not in types.get(k, "Tensor") for k, v in named)
    if numbers or any(types.get(name) == "Tensor" for name in _HOST_TENSORS):
        return "takes a number from a tensor"
    return ""


_HOST_TENSORS = ("start", "tensor_indices_or_sections")
"""Tensor arguments that torch reads on the host (`narrow.Tensor` and its like)."""


def _types(call: torch._ops.OpOverload) -> Types:
    types: Types = {}
    for i, argument in enumerate(call._schema.arguments):
        types[i] = types[argument.name] = str(argument.type)
    return types


def _has_device(line: Instruction, types: Types) -> bool:
    """Whether the call's device is told by its operands or arguments: all but factories."""
    if "device" not in types or any("Tensor" in kind for kind in types.values()):
        return True
    return "device" in dict(line.kwargs) or any("Device" in types.get(i, "") for i in range(len(line.args)))


def _writes(line: Instruction) -> bool:
    """Whether a call writes into an operand."""
    call = None if line.op.startswith(OWN) else overload_of(line.op)
    return line.op == PLACE if call is None else call._schema.is_mutable


def _varies(line: Instruction) -> bool:
    """Whether a call gives another value each time, or does something besides giving one."""
    call = None if line.op.startswith(OWN) else overload_of(line.op)
    return _writes(line) or (call is not None and torch.Tag.nondeterministic_seeded in call.tags)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _tensors(part)


def _memory(value: Any) -> int:
    """Units: bytes."""
    return sum(t.untyped_storage().nbytes() for t in _tensors(value))


def _all(items: Sequence[int | Getter]) -> Callable[[Env], Sequence[Any]]:
    """All arguments at once: one C call where all of them have a place in the list."""
    if all(isinstance(i, int) for i in items) and len(items) > 1:
        return operator.itemgetter(*items)
    getters = tuple(operator.itemgetter(i) if isinstance(i, int) else i for i in items)
    return lambda env: [get(env) for get in getters]


def _with_keywords(call: Callable[..., Any], num_positional: int, keywords: tuple[str, ...]) -> Callable[..., Any]:
    if not keywords:
        return call
    return lambda *args: call(*args[:num_positional], **dict(zip(keywords, args[num_positional:], strict=True)))


def _refs(program: Program) -> set[str]:
    found = {name for line in program.dense for name in refs_in(operands(line))}
    return found | {o.value.name for o in program.outputs}
