"""What each op of the dense rest does to rows: the symbolic shape of its result, or why rows may meet.

A rule gives a shape in which the batch symbol stands where the rows of the batch lie; that it stands in one dim alone
is checked for all rules in `values.value_of`. An op without a rule is never proven.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

import sympy

from colonnade.backends.gpu.rows import names
from colonnade.backends.gpu.rows.call import Call, counted
from colonnade.backends.gpu.rows.values import Shape, Unproven, Value, broadcast, holds, shown
from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.ir.program import ITEM, PLACE, REQUIRE

Made: TypeAlias = Shape | list[Shape]
"""The shape of a result, or those of several."""

Rule: TypeAlias = Callable[[Call], Made]


def _off(x: Value, axis: int, what: str) -> None:
    """Errors: Unproven where the axis is the batch's."""
    if axis == x.axis:
        raise Unproven(f"{what} the batch, axis {axis} of {shown(x.shape)}")


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


def _with(shape: Shape, axis: int, dim: Dim) -> Shape:
    return (*shape[:axis], dim, *shape[axis + 1 :])


# -- element by element ------------------------------------------------------------------------------------------------
def _elementwise(call: Call) -> Made:
    return broadcast([v.shape for v in call.operands()], call.batch)


def _in_place(call: Call) -> Made:
    own, made = call.tensor().shape, _elementwise(call)
    if made != own:
        raise Unproven(f"written in place with a larger value: {shown(own)}")
    return own


def _same(call: Call) -> Made:
    return call.tensor().shape


# -- over axes ---------------------------------------------------------------------------------------------------------
def _reduce(call: Call) -> Made:
    x = call.tensor()
    over = call.axes(x.rank)
    for axis in over:
        _off(x, axis, "reduces over")
    keep = call.arguments.get("keepdim", False)
    return tuple(1 if k in over else d for k, d in enumerate(x.shape) if keep or k not in over)


def _along(call: Call) -> Made:
    x = call.tensor()
    _off(x, call.axis(x.rank), "runs along")
    return x.shape


def _band(call: Call) -> Made:
    x = call.tensor()
    for axis in (x.rank - 2, x.rank - 1):
        _off(x, counted(axis, x.rank), "counts along")
    return x.shape


def _layer_norm(call: Call) -> Made:
    x, normalized = call.tensor("input"), call.size("normalized_shape")
    at = x.rank - len(normalized)
    if at < 0 or x.shape[at:] != normalized:
        raise Unproven(f"normalizes {shown(normalized)} of {shown(x.shape)}")
    for axis in range(at, x.rank):
        _off(x, axis, "normalizes over")
    for name in ("weight", "bias"):
        call.seen.add(name)
        if call.arguments[name] is not None and call.tensor(name).shape != normalized:
            raise Unproven(f"{name} of another shape than {shown(normalized)}")
    return x.shape


# -- products ----------------------------------------------------------------------------------------------------------
def _product(a: Value, b: Value, batch: sympy.Symbol) -> Shape:
    """Shape of `a @ b`: every axis of either but the one summed over is one of the result."""
    if a.rank == 0 or b.rank == 0:
        raise Unproven("a product of a scalar")
    inner = max(b.rank - 2, 0)
    for x, axis in ((a, a.rank - 1), (b, inner)):
        _off(x, axis, "sums over")
    if a.shape[-1] != b.shape[inner]:
        raise Unproven(f"a product of {shown(a.shape)} and {shown(b.shape)}")
    lead = broadcast([a.shape[:-2], b.shape[:-2]], batch)
    return (*lead, *a.shape[-2:-1], *b.shape[inner + 1 :])


def _plus(product: Shape, bias: Value, batch: sympy.Symbol) -> Shape:
    if broadcast([product, bias.shape], batch) != product:
        raise Unproven(f"a bias {shown(bias.shape)} larger than the product {shown(product)}")
    return product


def _ranked(x: Value, rank: int) -> Value:
    if x.rank != rank:
        raise Unproven(f"a product of {x.rank} dims")
    return x


def _mm(call: Call) -> Made:
    return _product(_ranked(call.tensor(), 2), _ranked(call.tensor("mat2"), 2), call.batch)


def _bmm(call: Call) -> Made:
    return _product(_ranked(call.tensor(), 3), _ranked(call.tensor("mat2"), 3), call.batch)


def _matmul(call: Call) -> Made:
    return _product(call.tensor(), call.tensor("other"), call.batch)


def _einsum(call: Call) -> Made:
    """A label of the batch in one operand is the same rows in another."""
    call.seen.add("equation")
    left, _, right = str(call.arguments["equation"]).partition("->")
    sizes: dict[str, Dim] = {}
    pairs = zip(left.split(","), call.tensors("tensors"), strict=True)
    lead = broadcast([_labelled(term, x.shape, sizes) for term, x in pairs], call.batch)
    for label in sizes.keys() - set(right):
        if holds(call.batch, sizes[label]):
            raise Unproven(f"sums over the batch, label {label!r} of {left}")
    before, dots, after = right.partition("...")
    if lead and not dots:
        raise Unproven(f"sums over {shown(lead)}")
    return (*(sizes[k] for k in before), *lead, *(sizes[k] for k in after))


def _labelled(term: str, shape: Shape, sizes: dict[str, Dim]) -> Shape:
    """Notes the size of each label of a term; gives the dims of `...`."""
    before, dots, after = term.partition("...")
    last = len(shape) - len(after)
    if last < len(before) or (last > len(before) and not dots) or len({*before, *after}) < len(before + after):
        raise Unproven(f"the term {term!r} of {shown(shape)}")
    for label, dim in (*zip(before, shape, strict=False), *zip(after, shape[last:], strict=True)):
        if sizes.setdefault(label, dim) != dim:
            raise Unproven(f"label {label!r} is {shown((sizes[label], dim))}")
    return shape[len(before) : last]


def _addmm(call: Call) -> Made:
    product = _product(_ranked(call.tensor("mat1"), 2), _ranked(call.tensor("mat2"), 2), call.batch)
    return _plus(product, call.tensor(), call.batch)


def _linear(call: Call) -> Made:
    weight = _ranked(call.tensor("weight"), 2)
    turned = Value(weight.shape[::-1], None if weight.axis is None else 1 - weight.axis, weight.block)
    product = _product(call.tensor("input"), turned, call.batch)
    if call.arguments["bias"] is None:
        return product
    return _plus(product, call.tensor("bias"), call.batch)


def _conv2d(call: Call) -> Made:
    """`[N, C, H, W]` under windows `[O, C / groups, h, w]`: each image is its own, what a window sums over is not."""
    x, window = _ranked(call.tensor("input"), 4), _ranked(call.tensor("weight"), 4)
    for axis, what in ((1, "sums over"), (2, "moves a window over"), (3, "moves a window over")):
        _off(x, axis, what)
    if window.axis is not None:
        raise Unproven(f"a window of the batch, axis {window.axis} of {shown(window.shape)}")
    if x.shape[1] != dims.mul(window.shape[1], call.integer("groups")):
        raise Unproven(f"a window {shown(window.shape)} over {shown(x.shape)}")
    steps = zip(*(_pair(call, name) for name in ("stride", "padding", "dilation")), strict=True)
    sizes = [_moved(x.shape[k + 2], window.shape[k + 2], *step) for k, step in enumerate(steps)]
    product = (x.shape[0], window.shape[0], *sizes)
    if call.arguments["bias"] is None:
        return product
    if _ranked(call.tensor("bias"), 1).shape != window.shape[:1]:
        raise Unproven(f"a bias of another size than {shown(window.shape[:1])}")
    return product


def _pair(call: Call, name: str) -> tuple[int, int]:
    """One number for each axis of an image."""
    found = [d for d in call.size(name) if isinstance(d, int)]
    if len(found) != len(call.size(name)) or len(found) not in (1, 2):
        raise Unproven(f"argument {name!r} is no pair of known integers")
    return found[0], found[-1]


def _moved(size: Dim, window: Dim, stride: int, padding: int, dilation: int) -> Dim:
    """The places that a window has."""
    if not isinstance(size, int) or not isinstance(window, int) or min(stride, dilation, window) < 1 or padding < 0:
        raise Unproven(f"moves a window of {dims.text(window)} over {dims.text(size)}")
    free = size + 2 * padding - dilation * (window - 1) - 1
    if free < 0:
        raise Unproven(f"a window of {window} is larger than {size}")
    return free // stride + 1


# -- joining -----------------------------------------------------------------------------------------------------------
def _cat(call: Call) -> Made:
    parts = call.tensors("tensors")
    axis = call.axis(parts[0].rank)
    for x in parts:
        if x.rank != parts[0].rank:
            raise Unproven("concatenates different ranks")
        _off(x, axis, "concatenates along")
    for a, b in pairwise(_without(x.shape, axis) for x in parts):
        if a != b:
            raise Unproven(f"concatenates {shown(a)} and {shown(b)}")
    return _with(parts[0].shape, axis, dims.add(*(x.shape[axis] for x in parts)))


def _stack(call: Call) -> Made:
    parts = call.tensors("tensors")
    if len({x.shape for x in parts}) > 1:
        raise Unproven("stacks different shapes")
    axis = call.axis(parts[0].rank + 1)
    return (*parts[0].shape[:axis], len(parts), *parts[0].shape[axis:])


# -- shape -------------------------------------------------------------------------------------------------------------
def _reshape(call: Call) -> Made:
    name = "size" if "size" in call.arguments else "shape"
    return _reshaped(call.tensor(), call.size(name), call.batch)


def _reshaped(x: Value, wanted: Shape, batch: sympy.Symbol) -> Shape:
    """Row-major order keeps rows where as many elements stand before one as before."""
    total = dims.prod(x.shape)
    if wanted.count(-1) == 1:
        at = wanted.index(-1)
        others = dims.prod(_without(wanted, at))
        left = dims.div_exact(total, others) if others != 0 and total != 0 else None
        if left is None:
            raise Unproven(f"reshapes {shown(x.shape)} to {shown(wanted)}")
        wanted = _with(wanted, at, left)
    if dims.prod(_plain(wanted)) != total:
        raise Unproven(f"reshapes {shown(x.shape)} to {shown(wanted)}")
    if x.axis is not None:
        axis = next((k for k, d in enumerate(wanted) if holds(batch, d)), None)
        if axis is None or dims.prod(wanted[:axis]) != dims.prod(x.shape[: x.axis]):
            raise Unproven(f"mixes rows: {shown(x.shape)} to {shown(wanted)}")
    return wanted


def _flatten(call: Call) -> Made:
    x = call.tensor()
    first, last = call.axis(max(x.rank, 1), "start_dim"), call.axis(max(x.rank, 1), "end_dim")
    return _reshaped(x, (*x.shape[:first], dims.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]), call.batch)


def _unsqueeze(call: Call) -> Made:
    x = call.tensor()
    axis = call.axis(x.rank + 1)
    return (*x.shape[:axis], 1, *x.shape[axis:])


def _flip(call: Call) -> Made:
    x = call.tensor()
    for axis in call.axes(x.rank, "dims"):
        _off(x, axis, "turns round")
    return x.shape


def _pad(call: Call) -> Made:
    """Pairs of numbers, those of the last axis first; a negative one cuts."""
    x, pads = call.tensor(), call.size("pad")
    if len(pads) % 2 or len(pads) > 2 * x.rank:
        raise Unproven(f"pads {shown(x.shape)} by {shown(pads)}")
    shape = list(x.shape)
    for k in range(len(pads) // 2):
        axis, pair = x.rank - 1 - k, pads[2 * k : 2 * k + 2]
        if pair != (0, 0):
            _off(x, axis, "pads")
            shape[axis] = dims.add(shape[axis], *pair)
    return _plain(tuple(shape))


def _squeeze(call: Call) -> Made:
    x = call.tensor()
    gone = call.axes(x.rank)
    for axis in gone:
        _off(x, axis, "drops where it is 1")
        if not isinstance(x.shape[axis], int):
            raise Unproven(f"drops where it is 1 axis {axis} of {shown(x.shape)}")
    return tuple(d for k, d in enumerate(x.shape) if k not in gone or d != 1)


def _permute(call: Call) -> Made:
    x = call.tensor()
    order = call.axes(x.rank, "dims")
    if sorted(order) != list(range(x.rank)):
        raise Unproven(f"no permutation of {x.rank} axes: {order}")
    return tuple(x.shape[k] for k in order)


def _transpose(call: Call) -> Made:
    x = call.tensor()
    a, b = call.axis(x.rank, "dim0"), call.axis(x.rank, "dim1")
    return _with(_with(x.shape, a, x.shape[b]), b, x.shape[a])


def _t(call: Call) -> Made:
    return call.tensor().shape[::-1]


def _expand(call: Call) -> Made:
    """A value repeated over the batch is every row's own."""
    x, size = call.tensor(), call.size("size")
    lead = len(size) - x.rank
    if lead < 0:
        raise Unproven(f"expands {shown(x.shape)} to {shown(size)}")
    out = [*size[:lead]]
    for own, want in zip(x.shape, size[lead:], strict=True):
        if own != 1 and want not in (-1, own):
            raise Unproven(f"expands {shown(x.shape)} to {shown(size)}")
        out.append(own if want == -1 else want)
    return _plain(tuple(out))


def _repeat(call: Call) -> Made:
    x, counts = call.tensor(), call.size("repeats")
    lead = len(counts) - x.rank
    if lead < 0:
        raise Unproven(f"repeats {shown(x.shape)} {shown(counts)} times")
    if x.axis is not None and counts[lead + x.axis] != 1:
        raise Unproven(f"repeats the batch, axis {x.axis} of {shown(x.shape)}")
    own = ((1,) * lead) + x.shape
    return _plain(tuple(dims.mul(c, d) for c, d in zip(counts, own, strict=True)))


def _plain(shape: Shape) -> Shape:
    if any(isinstance(d, int) and d < 0 for d in shape):
        raise Unproven(f"a negative dim: {shown(shape)}")
    return shape


# -- parts -------------------------------------------------------------------------------------------------------------
_END = 1 << 62
"""From here on an end means: to the end (exporters write the largest int64)."""


def _slice(call: Call) -> Made:
    x = call.tensor()
    axis, step = call.axis(x.rank), call.integer("step")
    dim = x.shape[axis]
    call.seen |= {"start", "end"}
    start, end = call.arguments["start"] or 0, call.arguments["end"]
    whole = end is None or end == dim or (isinstance(end, int) and end >= _END)
    if start == 0 and whole and step == 1:
        return x.shape
    _off(x, axis, "takes a part of")
    if not isinstance(dim, int) or not isinstance(start, int) or not isinstance(end, int | None) or step < 1:
        raise Unproven(f"takes a part of axis {axis} of {shown(x.shape)} that is not known")
    return _with(x.shape, axis, len(range(dim)[start:end:step]))


def _narrow(call: Call) -> Made:
    x = call.tensor()
    axis, length, start = call.axis(x.rank), call.dim("length"), call.dim("start")
    if start == 0 and length == x.shape[axis]:
        return x.shape
    _off(x, axis, "takes a part of")
    if holds(call.batch, (start, length)):
        raise Unproven("the batch size is a value: a part is cut by it")
    return _with(x.shape, axis, length)


def _select(call: Call) -> Made:
    x = call.tensor()
    axis = call.axis(x.rank)
    _off(x, axis, "takes one of")
    return _without(x.shape, axis)


def _parts(call: Call, lengths: Callable[[int], list[int]]) -> Made:
    x = call.tensor()
    axis = call.axis(x.rank)
    _off(x, axis, "splits")
    dim = x.shape[axis]
    if not isinstance(dim, int):
        raise Unproven(f"splits axis {axis} of {shown(x.shape)}")
    return [_with(x.shape, axis, n) for n in lengths(dim)]


def _split(call: Call) -> Made:
    size = call.integer("split_size")
    if size < 1:
        raise Unproven(f"splits into parts of {size}")
    return _parts(call, lambda dim: [min(size, dim - k) for k in range(0, dim, size)] or [0])


def _split_with_sizes(call: Call) -> Made:
    sizes = [d for d in call.size("split_sizes") if isinstance(d, int)]
    if len(sizes) != len(call.size("split_sizes")):
        raise Unproven("splits into parts of unknown sizes")
    return _parts(call, lambda dim: sizes)


def _unbind(call: Call) -> Made:
    x = call.tensor()
    axis = call.axis(x.rank)
    made = _parts(call, lambda dim: [1] * dim)
    return [_without(shape, axis) for shape in made if isinstance(shape, tuple)]


# -- by index ----------------------------------------------------------------------------------------------------------
def _index_select(call: Call) -> Made:
    x, index = call.tensor(), call.tensor("index")
    axis = call.axis(x.rank)
    if index.rank != 1:
        raise Unproven(f"an index of {index.rank} dims")
    _off(x, axis, "takes rows by index of")
    return _with(x.shape, axis, index.shape[0])


def _gather(call: Call) -> Made:
    x, index = call.tensor(), call.tensor("index")
    axis = call.axis(x.rank)
    _off(x, axis, "takes rows by index of")
    if _without(x.shape, axis) != (_without(index.shape, axis) if index.rank == x.rank else None):
        raise Unproven(f"gathers from {shown(x.shape)} by {shown(index.shape)}")
    return index.shape


def _embedding(call: Call) -> Made:
    weight, indices = call.tensor("weight"), call.tensor("indices")
    _off(weight, 0, "takes rows by index of")
    return (*indices.shape, *_ranked(weight, 2).shape[1:])


def _one_hot(call: Call) -> Made:
    classes = call.integer("num_classes")
    if classes < 1:
        raise Unproven("as many classes as the largest value in the batch")
    return (*call.tensor().shape, classes)


# -- made by the instruction -------------------------------------------------------------------------------------------
def _full(call: Call) -> Made:
    return call.size("size")


def _arange(call: Call) -> Made:
    """Row r holds r, however many rows there are."""
    end = call.dim("end")
    if isinstance(end, int) and end < 0:
        raise Unproven(f"counts to {end}")
    return (end,)


def _scalar(_: Call) -> Made:
    return ()


# -- our own -----------------------------------------------------------------------------------------------------------
def _place(call: Call) -> Made:
    x, buffer = _ranked(call.tensor("x"), 2), _ranked(call.tensor("buffer"), 2)
    rows = (x.shape[0], buffer.shape[0])
    if rows[0] not in (1, rows[1]) or holds(call.batch, (x.shape[1], buffer.shape[1])):
        raise Unproven(f"places {shown(x.shape)} in {shown(buffer.shape)}")
    return buffer.shape


def _require(call: Call) -> Made:
    if holds(call.batch, (call.dim("got"), call.dim("want"))):
        raise Unproven("a check of the batch size: it would see the padding rows")
    return []


def _top_k(call: Call) -> Made:
    x, k = call.tensor("x"), call.integer("k")
    _off(x, counted(-1, x.rank), "sorts")
    return [(*x.shape[:-1], k)] * 2


def _item(call: Call) -> Made:
    index = call.integer("index")
    values = call.arguments["values"]
    if isinstance(values, Value):
        x = call.tensor("values")
        counted(0, x.rank)
        _off(x, 0, "takes one of")
        return x.shape[1:]
    shapes = [v.shape for v in call.tensors("values")]
    return shapes[counted(index, len(shapes))]


RULES: dict[str, Rule] = {
    **dict.fromkeys(names.ELEMENTWISE, _elementwise),
    **dict.fromkeys(map(names.in_place, names.ELEMENTWISE), _in_place),
    "aten.copy_.default": _in_place,
    **dict.fromkeys(names.SAME_SHAPE, _same),
    **dict.fromkeys(names.REDUCTIONS, _reduce),
    **dict.fromkeys(names.ALONG, _along),
    "aten.layer_norm.default": _layer_norm,
    "aten.triu.default": _band,
    "aten.tril.default": _band,
    "aten.einsum.default": _einsum,
    "aten.mm.default": _mm,
    "aten.bmm.default": _bmm,
    "aten.matmul.default": _matmul,
    "aten.addmm.default": _addmm,
    "aten.linear.default": _linear,
    "aten.conv2d.default": _conv2d,
    "aten.cat.default": _cat,
    "aten.stack.default": _stack,
    **dict.fromkeys(names.RESHAPES, _reshape),
    "aten.flatten.using_ints": _flatten,
    "aten.unsqueeze.default": _unsqueeze,
    **dict.fromkeys(names.SQUEEZES, _squeeze),
    "aten.flip.default": _flip,
    "aten.constant_pad_nd.default": _pad,
    "aten.permute.default": _permute,
    "aten.transpose.int": _transpose,
    "aten.t.default": _t,
    **dict.fromkeys(names.EXPANSIONS, _expand),
    "aten.repeat.default": _repeat,
    "aten.slice.Tensor": _slice,
    "aten.narrow.default": _narrow,
    "aten.select.int": _select,
    "aten.split.Tensor": _split,
    "aten.split_with_sizes.default": _split_with_sizes,
    "aten.unbind.int": _unbind,
    "aten.index_select.default": _index_select,
    "aten.gather.default": _gather,
    "aten.embedding.default": _embedding,
    "aten.one_hot.default": _one_hot,
    **dict.fromkeys(names.FULL, _full),
    "aten.arange.default": _arange,
    "aten.scalar_tensor.default": _scalar,
    PLACE: _place,
    REQUIRE: _require,
    ITEM: _item,
    "colonnade.floor_mod": _elementwise,
    "colonnade.fmod": _elementwise,
    "colonnade.top_k": _top_k,
}
