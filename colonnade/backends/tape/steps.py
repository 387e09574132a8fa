"""What each instruction becomes on a tape.

A maker gets the part that is made, the instruction, and its operands with values in the place of references; it adds
steps and gives the value. Errors: Unfit, before anything is added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch

from colonnade.backends.tape import words as w
from colonnade.backends.tape.part import Home, Part, Place, Skip, Unfit, Value
from colonnade.backends.tape.products import PANEL
from colonnade.backends.tape.zeros import Ranges, complement
from colonnade.core.dims import Dim
from colonnade.ir.program import PLACE, Instruction

Maker = Callable[[Part, Instruction, Sequence[Any]], Value]

F32 = torch.float32
OWN_CACHE = 1 << 15
"""Elements of a matrix that the caches of one CPU hold beside what else they hold."""
SIFTED = 8
"""Multiplications that it costs to look at an element of a row."""
SLOW = 32
"""Multiplications that an exponential costs."""
NOWHERE = Place(Home(0, 4, address=0), 0, each=False)


def _demand(holds: bool) -> None:
    if not holds:
        raise Unfit


def _floats(part: Part, values: Sequence[Any]) -> tuple[list[Value], tuple[Dim, ...]]:
    """Operands of float32, numbers among them, and the shape that they are broadcast to."""
    made = [v if isinstance(v, Value) else _number(v) for v in values]
    _demand(all(v.dtype in (F32, torch.bool) for v in made))
    rows = [v for v in made if v.constant is None]
    _demand(bool(rows))
    part.accept(rows)
    ranks = {len(v.shape) for v in rows}
    _demand(len(ranks) == 1)
    width = max(v.width for v in made)
    for value in made:
        _demand(value.width in (1, width))
        if value.constant is not None:
            _demand(_fits(value.shape, ranks == {2}))
    shape = (part.rows,) if ranks == {1} else (part.rows, width)
    return made, shape


def _fits(shape: tuple[Dim, ...], matrix: bool) -> bool:
    """Whether a constant is the same for every row."""
    if not matrix:
        return shape in ((), (1,))
    return len(shape) < 2 or (len(shape) == 2 and shape[0] == 1)


def _number(value: Any) -> Value:
    _demand(isinstance(value, int | float) and not isinstance(value, bool))
    return Value(f"={value!r}", (), F32, torch.tensor(value, dtype=F32))


def _only(line: Instruction, args: Sequence[Any], *counts: int) -> None:
    _demand(not line.kwargs and len(args) in counts)


def _binary(code: int) -> Maker:
    def make(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
        _only(line, args, 2)
        (a, b), shape = _floats(part, args)
        _demand(torch.bool not in (a.dtype, b.dtype))
        value = Value(line.output, shape, F32)
        part.add(code, value.name, value.width, part.place(a), part.place(b))
        part.work += value.width
        return value

    return make


def _compare(kind: int) -> Maker:
    def make(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
        _only(line, args, 2)
        (a, b), shape = _floats(part, args)
        _demand(torch.bool not in (a.dtype, b.dtype))
        value = Value(line.output, shape, torch.bool)
        part.add(w.COMPARE, value.name, value.width, part.place(a), part.place(b), inner=kind)
        part.work += 2 * value.width
        return value

    return make


def _unary(kind: int, work: int = 2) -> Maker:
    def make(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
        _only(line, args, 1)
        (a,), shape = _floats(part, args)
        _demand(a.dtype == F32)
        value = Value(line.output, shape, F32)
        part.add(w.UNARY, value.name, value.width, part.place(a), inner=kind)
        part.work += work * value.width
        return value

    return make


def _relu(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
    _only(line, args, 1)
    (a,), shape = _floats(part, args)
    _demand(a.dtype == F32)
    value = Value(line.output, shape, F32)
    place = part.place(a)
    last = part.steps[-1] if part.steps else None
    if line.op.endswith("relu_.default") and last is not None and last.code == w.PRODUCT and last.target is place:
        part.steps[-1] = last.with_relu()  # what it overwrites nothing else reads
        part.places[value.name] = place
        return value
    part.add(w.RELU_OF, value.name, value.width, place)
    part.work += value.width
    return value


def _where(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
    _only(line, args, 3)
    (condition, a, b), shape = _floats(part, args)
    _demand((condition.dtype, a.dtype, b.dtype) == (torch.bool, F32, F32) and condition.constant is None)
    _demand(condition.name in part.places)  # torch's own lie as bytes
    value = Value(line.output, shape, F32)
    part.add(w.SELECT, value.name, value.width, part.place(condition), part.place(a), part.place(b))
    part.work += 2 * value.width
    return value


def _cast(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
    _demand(len(args) == 1 and line.kwargs == (("dtype", "float32"),))
    (a,) = args
    codes = {torch.int32: w.FROM_I32, torch.int64: w.FROM_I64}
    _demand(a.dtype in codes and a.constant is None)
    part.accept([a])
    value = Value(line.output, a.shape, F32)
    part.add(codes[a.dtype], value.name, value.width, part.place(a))
    part.work += 2 * value.width
    return value


def _product(part: Part, line: Instruction, x: Any, matrix: Any, bias: Any) -> Value:
    """matrix: `[K, N]`, a constant."""
    _demand(isinstance(x, Value) and x.constant is None and x.dtype == F32 and len(x.shape) == 2)
    _demand(matrix is not None and matrix.dtype == F32 and matrix.dim() == 2 and matrix.shape[0] == x.width)
    _demand(0 < matrix.numel() <= part.most_weights)
    width = matrix.shape[1]
    if bias is not None:
        _demand(bias.constant is not None and bias.dtype == F32 and bias.shape == (width,))
    part.accept([x])
    _demand(not part.place(x).one)
    value = Value(line.output, (x.rows, width), F32)
    held = NOWHERE if bias is None else part.bias(bias.constant)
    skipped = _skipped(part.zeros.get(x.name, ()), matrix)
    if matrix.numel() > OWN_CACHE:
        part.tile = w.LARGE_TILE
    if skipped:
        _sparse_product(part, value, x, matrix, held, skipped)
        return value
    part.add(w.PRODUCT, value.name, width, part.place(x), held, part.matrix(matrix), inner=x.width)
    part.work += matrix.numel()
    return value


def _skipped(ranges: Ranges, matrix: torch.Tensor) -> Ranges:
    """Those that a product is to skip. Facts: zero times what is not finite is NaN, so such rows are not skipped."""
    kept = tuple((b, e) for b, e in ranges if bool(matrix[b:e].isfinite().all()))
    if not complement(kept, matrix.shape[0]):
        kept = kept[:-1]  # something is to be multiplied
    saved = sum(e - b for b, e in kept) * matrix.shape[1]
    return kept if matrix.shape[1] % PANEL == 0 and saved > SIFTED * matrix.shape[0] else ()


def _sparse_product(part: Part, value: Value, x: Value, matrix: torch.Tensor, bias: Place, skipped: Ranges) -> None:
    """The zeros of some ranges are not multiplied: what is not zero is listed, and the rest of the row copied."""
    rest = complement(skipped, x.width)
    ranges = sorted([*((b, e - b, 1) for b, e in skipped), *((b, e - b, 0) for b, e in rest)])
    listed, copied = (torch.cat([matrix[b:e] for b, e in some]) if some else matrix[:0] for some in (skipped, rest))
    width = matrix.shape[1]
    lists, dense = Home(len(listed) + 2, 8), Home(len(copied), 4)
    part.put(
        w.SIFT,
        len(copied),
        Place(dense, len(copied)),
        part.place(x),
        part.constant(torch.tensor(ranges, dtype=torch.int64)),
        Place(lists, lists.width),
        inner=len(ranges),
    )
    target = Place(Home(width, 4), width)
    part.places[value.name] = target
    part.put(w.GATHER, width, target, Place(lists, lists.width), part.constant(listed))
    part.put(
        w.PRODUCT, width, target, Place(dense, len(copied)), bias, part.matrix(copied), inner=len(copied), added=True
    )
    part.work += copied.numel() + len(skipped) * width
    part.skips.append(Skip(value.name, x.name, x.width, skipped))


def _constant(value: Any) -> torch.Tensor:
    _demand(isinstance(value, Value) and value.constant is not None and value.constant.dim() == 2)
    found: torch.Tensor = value.constant
    return found


def _linear(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
    _only(line, args, 2, 3)
    return _product(part, line, args[0], _constant(args[1]).t(), args[2] if len(args) > 2 else None)


def _mm(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
    _only(line, args, 2)
    return _product(part, line, args[0], _constant(args[1]), None)


def _addmm(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
    _only(line, args, 3)
    return _product(part, line, args[1], _constant(args[2]), args[0])


def _softmax(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
    _only(line, args, 3)
    (x,), shape = _floats(part, args[:1])
    _demand(x.dtype == F32 and len(shape) == 2 and args[1] in (-1, 1) and args[2] is False)
    value = Value(line.output, shape, F32)
    part.add(w.SOFTMAX, value.name, value.width, part.place(x), inner=value.width)
    part.work += 2 * SLOW * value.width
    return value


def _argmax(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
    _only(line, args, 2)
    (x,), shape = _floats(part, args[:1])
    _demand(x.dtype == F32 and len(shape) == 2 and args[1] in (-1, 1))
    value = Value(line.output, shape[:1], torch.int64)
    part.add(w.ARGMAX, value.name, 1, part.place(x), inner=x.width, wide=True)
    part.work += 2 * x.width
    return value


def _cat(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
    _demand(
        not line.kwargs and len(args) in (1, 2) and isinstance(args[0], tuple) and args[1:] in ((1,), (-1,), [1], [-1])
    )
    values = args[0]
    _demand(all(isinstance(v, Value) and v.dtype == F32 and len(v.shape) == 2 for v in values))
    part.accept(values)
    value = Value(line.output, (values[0].rows, sum(v.width for v in values)), F32)
    home, offset = Home(value.width, 4), 0
    for v in values:
        part.put(w.COPY, v.width, Place(home, v.width, offset), part.place(v))
        offset += 4 * v.width
    part.places[value.name] = Place(home, value.width)
    part.work += value.width
    return value


def _put(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
    _only(line, args, 3)
    x, buffer, offset = args
    (x,), shape = _floats(part, [x])
    _demand(x.dtype == F32 and len(shape) == 2 and len(buffer.shape) == 2 and buffer.dtype == F32)
    part.accept([buffer])
    place = part.place(buffer)
    _demand(place.home.tensor is not None and place.offset == 0)
    part.put(w.COPY, x.width, Place(place.home, x.width, 4 * offset), part.place(x))
    part.places[line.output] = place
    part.work += x.width
    return Value(line.output, buffer.shape, F32)


def _view(part: Part, line: Instruction, x: Any, shape: tuple[Dim, ...], **changes: Any) -> Value:
    """The same memory, or a part of each row."""
    _demand(isinstance(x, Value) and x.constant is None and x.dtype.itemsize in (4, 8))
    part.accept([x])
    value = Value(line.output, shape, x.dtype)
    place = part.place(x)
    offset = place.offset + changes.get("offset", 0) * (0 if place.one else place.home.itemsize)
    part.places[value.name] = Place(place.home, value.width, offset, place.each, place.one)
    return value


def _squeeze(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
    _only(line, args, 2)
    x, dims = args
    _demand(isinstance(x, Value) and dims in ((1,), [1], 1, (-1,), -1) and len(x.shape) == 2)
    return _view(part, line, x, x.shape[:1] if x.width == 1 else x.shape)


def _unsqueeze(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
    _only(line, args, 2)
    x, dim = args
    _demand(isinstance(x, Value) and len(x.shape) == 1 and dim in (-1, 1))
    return _view(part, line, x, (*x.shape, 1))


def _reshape(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
    _only(line, args, 2)
    x, shape = args
    _demand(isinstance(x, Value) and isinstance(shape, tuple) and len(shape) in (1, 2) and shape[0] == x.rows)
    _demand((shape[1] if len(shape) > 1 else 1) == x.width)
    return _view(part, line, x, shape)


def _slice(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
    _only(line, args, 4, 5)
    x, dim, begin, end = args[:4]
    _demand(isinstance(x, Value) and len(x.shape) == 2 and dim in (1, -1) and (len(args) < 5 or args[4] == 1))
    _demand(isinstance(begin, int) and isinstance(end, int) and 0 <= begin < min(end, x.width))
    return _view(part, line, x, (x.rows, min(end, x.width) - begin), offset=begin)


def _filled(number: float) -> Maker:
    def make(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
        _only(line, args, 1)
        (x,) = args
        _demand(isinstance(x, Value) and x.dtype == F32)
        part.accept([x])
        place = part.constant(torch.tensor(number, dtype=F32))
        value = Value(line.output, x.shape, F32)
        part.places[value.name] = Place(place.home, value.width, each=False, one=True)
        return value

    return make


def _repeat(part: Part, line: Instruction, args: Sequence[Any]) -> Value:
    """A row of constants for every row."""
    _only(line, args, 2)
    row, counts = args
    _demand(isinstance(row, Value) and row.constant is not None and len(row.shape) in (1, 2))
    _demand(len(row.shape) == 1 or row.shape[0] == 1)
    _demand(isinstance(counts, tuple) and len(counts) == 2 and isinstance(counts[0], sympy.Symbol) and counts[1] == 1)
    _demand(row.dtype in (F32, torch.int32, torch.int64))
    value = Value(line.output, (counts[0], row.width), row.dtype)
    part.accept([value])
    part.places[value.name] = part.place(row)
    return value


def _named(makers: Mapping[str, Maker], *overloads: str) -> dict[str, Maker]:
    return {f"aten.{name}.{overload}": make for name, make in makers.items() for overload in overloads}


_ARITHMETIC = {"add": _binary(w.ADD), "sub": _binary(w.SUB), "mul": _binary(w.MUL), "div": _binary(w.DIV)}
_EXTREMES = {"minimum": _binary(w.MINIMUM), "maximum": _binary(w.MAXIMUM)}
_COMPARISONS = {name: _compare(kind) for kind, name in enumerate(("eq", "ne", "lt", "le", "gt", "ge"))}
_SLOW = {"sigmoid": _unary(w.SIGMOID, SLOW), "tanh": _unary(w.TANH, SLOW), "exp": _unary(w.EXP, SLOW)}
_QUICK = {"sqrt": _unary(w.SQRT), "neg": _unary(w.NEG), "abs": _unary(w.ABS), "round": _unary(w.ROUND)}

STEPS: Mapping[str, Maker] = {
    **_named(_ARITHMETIC, "Tensor"),
    **_named(_COMPARISONS, "Tensor", "Scalar"),
    **_named({**_SLOW, **_QUICK, **_EXTREMES}, "default"),
    **_named({f"{name}_": make for name, make in {**_SLOW, **_QUICK}.items()}, "default"),
    "aten.relu.default": _relu,
    "aten.relu_.default": _relu,
    "aten.where.self": _where,
    "aten._to_copy.default": _cast,
    "aten.linear.default": _linear,
    "aten.mm.default": _mm,
    "aten.addmm.default": _addmm,
    "aten._softmax.default": _softmax,
    "aten.argmax.default": _argmax,
    "aten.cat.default": _cat,
    PLACE: _put,
    "aten.squeeze.dims": _squeeze,
    "aten.unsqueeze.default": _unsqueeze,
    "aten.reshape.default": _reshape,
    "aten.slice.Tensor": _slice,
    "aten.zeros_like.default": _filled(0.0),
    "aten.ones_like.default": _filled(1.0),
    "aten.repeat.default": _repeat,
}
