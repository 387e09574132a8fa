"""Random operands for every graph op: odd sizes, empty tensors, NaN, extremes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from colonnade.core.consts import Const
from colonnade.ops import graph
from colonnade.ops.op import GRAPH_OPS, GraphOp
from tests.unit.ops.graph import examples
from tests.unit.ops.graph.world import Val, World

graph.load()
Case = tuple[GraphOp, list[Val]]
SIZES = (0, 1, 1, 2, 3, 5)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -1.5, 3.75, 100.0, -7.25, 1e20, float("nan"), float("inf"), -float("inf"))
TAME = (0.0, 1.0, -1.0, 0.5, 2.5, -1.5, 3.75, 6.25)
TEXTS = (b"", b"a", b"b,c", b",", b"a,,b", b"\x00\xff", b"longer than thirty two bytes, and a little more", b"7")


def op_of(name: str, *args: Any, **named: Any) -> GraphOp:
    return GRAPH_OPS[name](*args, **named)


def shape(r: random.Random, least: int = 0, most: int = 3) -> tuple[int, ...]:
    return tuple(r.choice(SIZES) for _ in range(r.randint(least, most)))


def numbers(r: random.Random, dims: tuple[int, ...], dtype: str, tame: bool = False) -> Any:
    """Random elements of the dtype."""
    n = math.prod(dims)
    if dtype == "string":
        made = np.empty(n, dtype=object)
        made[:] = [r.choice(TEXTS) for _ in range(n)]
        return made.reshape(dims)
    if dtype == "bool":
        return np.array([r.random() < 0.5 for _ in range(n)], dtype=bool).reshape(dims)
    if dtype.startswith("float"):
        return np.array([r.choice(TAME if tame else FLOATS) for _ in range(n)], dtype=dtype).reshape(dims)
    info = np.iinfo(dtype)
    small = [v for v in (-5, -1, 0, 0, 1, 2, 3, 7) if v >= info.min]
    pool = small if tame or r.random() < 0.7 else [*small, info.min, info.max, info.max - 1]
    return np.array([r.choice(pool) for _ in range(n)], dtype=dtype).reshape(dims)


def anything(
    w: World, least: int = 0, most: int = 3, dtypes: tuple[str, ...] = ("float32", "int32", "int64", "string")
) -> Val:
    """A tensor of any kind: fed, known, or with content in the indexed form."""
    r = w.random
    if r.random() < 0.3 and "int32" in dtypes and least <= 2 and most >= 1:
        return affine(w, max(least, 1), min(most, 2))
    return w.any(numbers(r, shape(r, least, most), r.choice(dtypes)))


def affine(w: World, least: int = 1, most: int = 2) -> Val:
    """A tensor with content in the indexed form."""
    r = w.random
    n = r.choice(SIZES)
    made = w.one(op_of("range"), w.scalar(r.choice([0, 0, 1])), w.scalar(n + 1), w.known(np.int32(1)))
    if r.random() < 0.5:
        made = w.one(op_of("tile"), made, w.sized([r.choice([1, 2, 3])]))
    if r.random() < 0.4:
        made = w.one(op_of("mul"), made, w.known(np.int32(r.choice([1, 2, -3, 101]))))
    if r.random() < 0.3:
        made = w.one(op_of("add"), made, w.known(np.int32(r.choice([1, -2]))))
    if least == 2 or (most == 2 and r.random() < 0.5):
        made = w.one(op_of("expand_dims"), made, w.known(np.int32(r.choice([0, 1]))))
        if r.random() < 0.5:
            made = w.one(op_of("tile"), made, w.sized([1, r.choice([1, 2, 3])]))
    return made


def indices(w: World) -> tuple[Val, tuple[int, ...]]:
    """The index matrix of a sparse tensor and its dense shape: from a mask, from vectors, or fed in any order."""
    r = w.random
    dims = shape(r, 2, 2) if r.random() < 0.7 else shape(r, 1, 3)
    kind = r.random()
    if kind < 0.3:
        mask = w.fed(numbers(r, dims, "bool")) if r.random() < 0.6 else w.known(np.ones(dims, dtype=bool))
        return w.one(op_of("where"), mask), dims
    if kind < 0.6:
        rows, columns = r.choice(SIZES), r.choice((1, 1, 2, 3))
        row = w.one(op_of("range"), w.known(np.int32(0)), w.scalar(rows), w.known(np.int32(1)))
        row = w.one(op_of("expand_dims"), row, w.known(np.int32(1)))
        row = w.one(op_of("tile"), row, w.sized([1, columns]))
        row = w.one(op_of("reshape"), row, w.known(np.array([-1], np.int32)))
        column = w.one(op_of("range"), w.known(np.int32(0)), w.known(np.int32(columns)), w.known(np.int32(1)))
        column = w.one(op_of("tile"), column, w.one(op_of("pack"), w.scalar(rows)))
        made = w.one(op_of("pack", axis=r.choice([0, 1])), row, column)
        if made.array.shape != (rows * columns, 2) or made.facts.packed is None or made.facts.packed.axis == 0:
            made = w.one(op_of("transpose"), made, w.known(np.array([1, 0], np.int32)))
        return w.one(op_of("cast", "int64"), made), (rows, columns)
    n = r.choice(SIZES) if min(dims) > 0 else 0
    made = np.array([[r.randrange(max(d, 1)) for d in dims] for _ in range(n)], np.int64).reshape(n, len(dims))
    if r.random() < 0.5:
        made = made[np.lexsort(made.T[::-1])]
    return w.fed(made), dims


Maker = Callable[[World], Case]
MAKERS: dict[str, Maker] = {}


def maker(*names: str) -> Callable[[Callable[..., Case]], Callable[..., Case]]:
    def register(make: Callable[..., Case]) -> Callable[..., Case]:
        for name in names:
            MAKERS[name] = (lambda w, n=name: make(w, n)) if len(names) > 1 else (lambda w: make(w))  # type: ignore[misc]
        return make

    return register


@maker("relu", "relu6", "neg", "abs", "square", "sign")
def any_number(w: World, name: str) -> Case:
    return op_of(name), [anything(w, dtypes=("float32", "float64", "int32", "int64"))]


@maker("exp", "log", "log1p", "sqrt", "rsqrt", "tanh", "sigmoid", "elu", "selu", "softplus", "round", "floor", "ceil")
@maker("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erf", "erfc", "expm1")
@maker("reciprocal", "softsign", "is_nan", "is_inf", "is_finite")
def any_float(w: World, name: str) -> Case:
    r = w.random
    # TensorFlow's error function of doubles is NaN at infinity in some lanes.
    return op_of(name), [w.fed(numbers(r, shape(r), r.choice(["float32", "float32" if "erf" in name else "float64"])))]


@maker("leaky_relu")
def leaky_relu(w: World) -> Case:
    return op_of("leaky_relu", alpha=w.random.choice([0.0, 0.2, 1.5])), [
        w.fed(numbers(w.random, shape(w.random), "float32"))
    ]


def pair(w: World, dtype: str) -> list[Val]:
    """Two operands that broadcast, mostly."""
    r = w.random
    if dtype == "int32" and r.random() < 0.4:
        a = affine(w)
        other = w.known(numbers(r, (), "int32")) if r.random() < 0.5 else r.choice([a, affine(w)])
        return [a, other] if r.random() < 0.5 else [other, a]
    dims = shape(r)
    other_dims = tuple(1 if r.random() < 0.25 else d for d in dims[r.randint(0, len(dims)) :])
    if r.random() < 0.05:
        other_dims = (4,)
    made = [w.any(numbers(r, dims, dtype)), w.any(numbers(r, other_dims, dtype))]
    return made if r.random() < 0.5 else made[::-1]


@maker("add", "sub", "mul", "maximum", "minimum", "floor_div", "floor_mod", "squared_difference", "truncate_mod")
def two_numbers(w: World, name: str) -> Case:
    return op_of(name), pair(w, w.random.choice(["float32", "int32", "int64", "int32"]))


@maker("real_div", "div_no_nan", "atan2", "xlogy", "mul_no_nan")
def two_floats(w: World, name: str) -> Case:
    return op_of(name), pair(w, w.random.choice(["float32", "float64"]))


@maker("pow")
def power(w: World) -> Case:
    r = w.random
    dims = shape(r)
    if r.random() < 0.5:
        return op_of("pow"), [w.fed(numbers(r, dims, "float32", True)), w.fed(numbers(r, dims, "float32", True))]
    return op_of("pow"), [
        w.any(numbers(r, dims, "int32", True)),
        w.any(np.abs(numbers(r, (), "int32", True)) - (r.random() < 0.1)),
    ]


@maker("truncate_div")
def two_integers(w: World) -> Case:
    return op_of("truncate_div"), pair(w, w.random.choice(["int32", "int64"]))


@maker("logical_and", "logical_or", "logical_xor")
def two_bools(w: World, name: str) -> Case:
    return op_of(name), pair(w, "bool")


@maker("logical_not")
def one_bool(w: World) -> Case:
    return op_of("logical_not"), [w.any(numbers(w.random, shape(w.random), "bool"))]


@maker("compare")
def compare(w: World) -> Case:
    r = w.random
    dtype = r.choice(["float32", "int32", "int64", "string", "bool"])
    kinds = ["eq", "ne"] if dtype in ("string", "bool") else ["eq", "ne", "lt", "le", "gt", "ge"]
    return op_of("compare", r.choice(kinds)), pair(w, dtype)


@maker("cast")
def cast(w: World) -> Case:
    r = w.random
    x = anything(w, dtypes=("float32", "float64", "int32", "int64", "bool", "uint8"))
    if r.random() < 0.3:
        x = indices(w)[0]
    # What a float that does not fit a small integer becomes depends on the vector length of TensorFlow's kernel.
    small = [] if x.array.dtype.kind == "f" else ["int8", "uint8"]
    return op_of("cast", r.choice(["float32", "float64", "int32", "int64", "bool", *small])), [x]


@maker("identity", "shape", "rank", "size", "zeros_like")
def one_tensor(w: World, name: str) -> Case:
    return op_of(name), [anything(w)]


@maker("ones_like")
def ones_like(w: World) -> Case:
    return op_of("ones_like"), [anything(w, dtypes=("float32", "int32", "bool"))]


@maker("expand_dims")
def expand_dims(w: World) -> Case:
    x = anything(w)
    at = w.random.randint(-x.array.ndim - 1, x.array.ndim)
    return op_of("expand_dims"), [x, w.any(np.int32(at))]


@maker("squeeze")
def squeeze(w: World) -> Case:
    r = w.random
    x = anything(w)
    ones = [k for k, d in enumerate(x.array.shape) if d == 1]
    return op_of("squeeze", tuple(k for k in ones if r.random() < 0.7)), [x]


@maker("reshape")
def reshape(w: World) -> Case:
    r = w.random
    x = anything(w)
    n = x.array.size
    options = [list(x.array.shape), [n], [-1], [1, n], [n, 1], [-1, 1], [1, -1, 1]]
    if x.array.ndim > 1:
        options += [[x.array.shape[0], -1], [-1, x.array.shape[-1]], list(x.array.shape[::-1])]
    wanted = r.choice(options)
    if n == 0 or r.random() < 0.3:
        return op_of("reshape"), [x, w.any(np.array(wanted, np.int32))]
    return op_of("reshape"), [x, w.sized(wanted)]


@maker("transpose")
def transpose(w: World) -> Case:
    r = w.random
    x = indices(w)[0] if r.random() < 0.3 else anything(w)
    perm = list(range(x.array.ndim))
    r.shuffle(perm)
    return op_of("transpose"), [x, w.any(np.array(perm, np.int32))]


@maker("tile")
def tile(w: World) -> Case:
    r = w.random
    x = anything(w)
    counts = [r.choice([0, 1, 1, 1, 2, 3]) for _ in x.array.shape]
    return op_of("tile"), [x, w.sized(counts) if r.random() < 0.8 else w.fed(np.array(counts, np.int32))]


@maker("range")
def ranges(w: World) -> Case:
    r = w.random
    if r.random() < 0.2:
        return op_of("range"), [w.fed(np.float32(v)) for v in (0.0, r.choice([1.0, 2.5]), r.choice([0.1, 0.25, 0.7]))]
    pick = r.choice([w.scalar, lambda v: w.any(np.int32(v))])
    limit = r.choice([0, 1, 3, 5, 70, -4])
    return op_of("range"), [
        pick(r.choice([0, 0, 0, 1, 3])),
        pick(limit),
        w.any(np.int32(r.choice([1, 1, 1, 2, -1, 0]))),
    ]


@maker("pack")
def pack(w: World) -> Case:
    r = w.random
    first = anything(w, 0, 2)
    same = [first]
    for _ in range(r.randint(0, 2)):
        array = first.array
        fresh = numbers(r, array.shape, "string" if array.dtype == object else array.dtype.name)
        same.append(first if r.random() < 0.3 else w.any(fresh))
    return op_of("pack", axis=r.randint(-first.array.ndim - 1, first.array.ndim)), same


@maker("concat")
def concat(w: World) -> Case:
    r = w.random
    first = anything(w, 1, 2)
    at = r.randrange(first.array.ndim)
    parts = [first]
    for _ in range(r.randint(0, 2)):
        dims = list(first.array.shape)
        dims[at] = r.choice(SIZES)
        dtype = "string" if first.array.dtype == object else first.array.dtype.name
        parts.append(w.any(numbers(r, tuple(dims), dtype)))
    return op_of("concat"), [*parts, w.any(np.int32(at if r.random() < 0.7 else at - first.array.ndim))]


@maker("slice")
def slices(w: World) -> Case:
    r = w.random
    x = indices(w)[0] if r.random() < 0.3 else anything(w)
    begin = [r.randint(0, d) if r.random() < 0.5 else 0 for d in x.array.shape]
    size = [r.choice([-1, d - b, r.randint(0, d - b)]) for d, b in zip(x.array.shape, begin, strict=True)]
    if r.random() < 0.05 and size:
        size[0] = 9
    return op_of("slice"), [x, w.sized(begin) if r.random() < 0.8 else w.fed(np.array(begin, np.int32)), w.sized(size)]


@maker("strided_slice")
def strided_slice(w: World) -> Case:
    r = w.random
    x = indices(w)[0] if r.random() < 0.3 else anything(w)
    count = r.randint(0, x.array.ndim + 1)
    places = [r.choice([-9, -2, -1, 0, 0, 1, 2, 9]) for _ in range(2 * count)]
    strides = [r.choice([1, 1, 1, 2, -1, -2]) for _ in range(count)]
    masks = {f"{m}_mask": sum((r.random() < p) << k for k in range(count)) for m, p in MASKS.items()}
    pick = r.choice([w.sized, w.sized, w.sized, lambda v: w.fed(np.array(v, np.int32))])
    return op_of("strided_slice", **masks), [x, pick(places[:count]), pick(places[count:]), w.sized(strides)]


MASKS = {"begin": 0.4, "end": 0.4, "ellipsis": 0.1, "new_axis": 0.1, "shrink_axis": 0.3}


@maker("sum", "mean", "max", "min", "prod")
def reduce_numbers(w: World, name: str) -> Case:
    r = w.random
    x = anything(w, dtypes=("float32", "int32", "int64"))
    if x.array.dtype.kind == "f":
        x = w.fed(numbers(r, x.array.shape, "float32", True))
    if name == "mean" and x.array.dtype.kind == "i":
        x = w.fed(numbers(r, tuple(max(d, 1) for d in x.array.shape), "int32", True))
    return op_of(name, keep_dims=r.random() < 0.5), [x, axes(w, x)]


@maker("all", "any")
def reduce_bools(w: World, name: str) -> Case:
    x = w.any(numbers(w.random, shape(w.random), "bool"))
    return op_of(name, keep_dims=w.random.random() < 0.5), [x, axes(w, x)]


def axes(w: World, x: Val) -> Val:
    r = w.random
    rank = x.array.ndim
    chosen = [k if r.random() < 0.5 else k - rank for k in range(rank) if r.random() < 0.5]
    if len(chosen) == 1 and r.random() < 0.5:
        return w.any(np.int32(chosen[0]))
    return w.any(np.array(chosen, np.int32))


@maker("gather")
def gather(w: World) -> Case:
    r = w.random
    if r.random() < 0.3:
        x, _ = indices(w)
        at = 0
    else:
        x = anything(w, 1, 3)
        at = r.randrange(x.array.ndim)
    d = x.array.shape[at]
    if r.random() < 0.25 and at == 0:
        rows = w.one(
            op_of("range"),
            w.known(np.int32(0)),
            w.one(op_of("strided_slice", shrink_axis_mask=1), *head(w, x)),
            w.known(np.int32(1)),
        )
        return op_of("gather"), [x, rows, w.known(np.int32(0))]
    batch = r.randint(0, at) if r.random() < 0.3 else 0
    dims = (*x.array.shape[:batch], *shape(r, 0, 2))
    places = np.array([r.randrange(max(d, 1)) for _ in range(math.prod(dims))], np.int64).reshape(dims)
    if r.random() < 0.1 and places.size:
        places.reshape(-1)[0] = r.choice([-1, d])
    if r.random() < 0.3 and places.ndim == 1:
        places = np.sort(places)
    return op_of("gather", batch_dims=batch), [x, w.any(places), w.any(np.int32(at))]


def head(w: World, x: Val) -> list[Val]:
    """Operands of `shape(x)[0]`."""
    return [w.one(op_of("shape"), x), *(w.known(np.array([v], np.int32)) for v in (0, 1, 1))]


@maker("gather_nd")
def gather_nd(w: World) -> Case:
    r = w.random
    x = anything(w)
    depth = r.randint(0, x.array.ndim)
    lead = shape(r, 0, 2)
    places = np.array(
        [[r.randrange(max(d, 1)) for d in x.array.shape[:depth]] for _ in range(math.prod(lead))], np.int64
    )
    return op_of("gather_nd"), [x, w.any(places.reshape(*lead, depth))]


@maker("scatter_nd")
def scatter_nd(w: World) -> Case:
    r = w.random
    dims = shape(r, 1, 3)
    depth = r.randint(1, len(dims))
    lead = shape(r, 1, 1)
    places = np.array([[r.randrange(max(d, 1)) for d in dims[:depth]] for _ in range(math.prod(lead))], np.int32)
    updates = numbers(r, (*lead, *dims[depth:]), r.choice(["float32", "int32"]), True)
    return op_of("scatter_nd"), [w.any(places.reshape(*lead, depth)), w.any(updates), w.sized(dims)]


@maker("select")
def select(w: World) -> Case:
    r = w.random
    dims = shape(r)
    dtype = r.choice(["float32", "int32", "string"])
    yes, no = w.any(numbers(r, dims, dtype)), w.any(numbers(r, dims, dtype))
    cond = w.one(op_of("compare", "ge"), w.known(np.int32(1)), w.known(np.int32(0))) if r.random() < 0.2 else None
    if r.random() < 0.5:
        options = [dims, dims, (), dims[:1], (1,)]
        return op_of("select", v1=True), [cond or w.any(numbers(r, r.choice(options), "bool")), yes, no]
    return op_of("select"), [
        cond or w.any(numbers(r, r.choice([dims, (), dims[1:]]), "bool")),
        yes,
        r.choice([no, w.any(numbers(r, (), dtype))]),
    ]


@maker("fill")
def fill(w: World) -> Case:
    return op_of("fill"), [
        w.sized(shape(w.random)),
        w.any(numbers(w.random, (), w.random.choice(["float32", "int32", "string"]))),
    ]


@maker("broadcast_to")
def broadcast_to(w: World) -> Case:
    r = w.random
    dims = shape(r)
    inner = tuple(1 if r.random() < 0.4 else d for d in dims[r.randint(0, len(dims)) :])
    return op_of("broadcast_to"), [w.any(numbers(r, inner, r.choice(["float32", "int32"]))), w.sized(dims)]


@maker("one_hot")
def one_hot(w: World) -> Case:
    r = w.random
    x = w.any(numbers(r, shape(r, 0, 2), "int32", True))
    dtype = r.choice(["float32", "int32"])
    values = [w.any(np.array(v, dtype)) for v in (1, 0)]
    return op_of("one_hot", axis=r.randint(-1, x.array.ndim)), [x, w.scalar(r.choice([0, 1, 4])), *values]


@maker("arg_max", "arg_min")
def arg(w: World, name: str) -> Case:
    r = w.random
    x = w.any(numbers(r, shape(r, 1, 3), r.choice(["float32", "int32"]), True))
    out_type = r.choice(["int32", "int64"])
    return op_of(name, out_type), [x, w.scalar(r.randint(-x.array.ndim, x.array.ndim - 1))]


@maker("split")
def split(w: World) -> Case:
    r = w.random
    x = anything(w, 1, 3)
    at = r.randrange(x.array.ndim)
    d = x.array.shape[at]
    count = r.choice([k for k in (1, 2, 3, 5) if d % k == 0] if r.random() < 0.9 else [1, 2, 4])
    return op_of("split", count), [w.any(np.int32(at if r.random() < 0.5 else at - x.array.ndim)), x]


@maker("split_v")
def split_v(w: World) -> Case:
    r = w.random
    x = anything(w, 1, 3)
    at = r.randrange(x.array.ndim)
    cuts = sorted(r.randint(0, x.array.shape[at]) for _ in range(r.randint(0, 2)))
    sizes = np.diff([0, *cuts, x.array.shape[at]]).tolist()
    if r.random() < 0.3:
        sizes[r.randrange(len(sizes))] = r.choice([-1, -1, 2])
    pick = w.sized if r.random() < 0.8 else lambda v: w.fed(np.array(v, np.int32))
    return op_of("split_v", len(sizes)), [x, pick(sizes), w.known(np.int32(at))]


@maker("unpack")
def unpack(w: World) -> Case:
    r = w.random
    x = indices(w)[0] if r.random() < 0.3 else anything(w, 1, 3)
    at = r.randint(-x.array.ndim, x.array.ndim - 1)
    count = x.array.shape[at] if r.random() < 0.95 else 2
    return op_of("unpack", max(count, 1), at), [x]


@maker("reverse")
def reverse(w: World) -> Case:
    r = w.random
    x = anything(w)
    over = [k if r.random() < 0.5 else k - x.array.ndim for k in range(x.array.ndim) if r.random() < 0.5]
    return op_of("reverse"), [x, w.any(np.array(over, np.int32))]


@maker("cumsum", "cumprod")
def scan(w: World, name: str) -> Case:
    r = w.random
    x = w.any(numbers(r, shape(r, 1, 3), r.choice(["float32", "int32"]), True))
    at = w.known(np.int32(r.randint(-x.array.ndim, x.array.ndim - 1)))
    return op_of(name, exclusive=r.random() < 0.5, reverse=r.random() < 0.5), [x, at]


@maker("pad")
def pad(w: World) -> Case:
    r = w.random
    dtype = r.choice(["float32", "int32", "string"])
    x = w.any(numbers(r, shape(r), dtype))
    counts = [r.choice([0, 0, 1, 2]) for _ in range(2 * x.array.ndim)]
    if counts and r.random() < 0.05:
        counts[0] = -1
    value = {"float32": r.choice([0.0, -1.5, float("inf")]), "int32": r.choice([0, -7]), "string": b"p"}[dtype]
    made = np.array(counts, np.int32).reshape(-1, 2)
    return op_of("pad", value), [x, w.known(made) if r.random() < 0.8 else w.fed(made)]


@maker("mirror_pad")
def mirror_pad(w: World) -> Case:
    r = w.random
    x = w.any(numbers(r, shape(r, 1, 3), r.choice(["float32", "int32"])))
    made = np.array([r.choice([0, 0, 1, 2]) for _ in range(2 * x.array.ndim)], np.int32).reshape(-1, 2)
    return op_of("mirror_pad", r.random() < 0.5), [x, w.known(made) if r.random() < 0.8 else w.fed(made)]


@maker("top_k")
def top_k(w: World) -> Case:
    r = w.random
    x = w.any(numbers(r, shape(r, 1, 3), r.choice(["float32", "int32"]), True))
    k = r.randint(0, x.array.shape[-1]) if r.random() < 0.9 else 4
    return op_of("top_k"), [x, w.any(np.int32(k))]


@maker("guard")
def guard(w: World) -> Case:
    r = w.random
    held = w.known(np.ones((), bool)) if r.random() < 0.5 else w.fed(np.array(r.random() < 0.8))
    return op_of("guard", "it must hold"), [anything(w), held]


@maker("ensure_shape")
def ensure_shape(w: World) -> Case:
    r = w.random
    x = anything(w)
    wanted = tuple(d if r.random() < 0.5 else -1 for d in x.array.shape)
    return op_of("ensure_shape", wanted if r.random() < 0.9 else (*wanted, 1)), [x]


@maker("sparse_to_dense")
def sparse_to_dense(w: World) -> Case:
    r = w.random
    sizes = [r.choice([1, 2, 3]) for _ in range(r.randint(1, 2))]
    places = sorted({tuple(r.randint(-1, 3) if r.random() < 0.1 else r.randrange(d) for d in sizes) for _ in range(3)})
    places = places if r.random() < 0.8 else places[::-1]
    dtype = r.choice(["float32", "int64", "string"])
    found = w.any(np.array(places, r.choice(["int32", "int64"])).reshape(len(places), len(sizes)))
    values = w.any(numbers(r, (len(places),), dtype))
    size = w.sized(sizes, found.array.dtype.name)
    return op_of("sparse_to_dense", r.random() < 0.8), [found, size, values, w.any(numbers(r, (), dtype))]


@maker("upper_bound")
def upper_bound(w: World) -> Case:
    r = w.random
    dtype = r.choice(["float32", "int64"])
    rows = r.choice([1, 1, 2])
    bounds = numbers(r, (rows, r.choice(SIZES)), dtype, True)
    bounds.sort(axis=1)
    values = w.any(numbers(r, (rows, r.choice(SIZES)), dtype))
    return op_of("upper_bound", r.choice(["int32", "int64"])), [w.any(bounds), values]


@maker("lookup_table_find")
def lookup_table_find(w: World) -> Case:
    r = w.random
    dtype = r.choice(["int64", "string"])
    keys = sorted(set(numbers(r, (r.randint(1, 6),), dtype).tolist()))
    known = np.empty(len(keys), object if dtype == "string" else dtype)
    known[:] = keys
    values = numbers(r, (len(keys),), "int64")
    op = op_of("lookup_table_find", Const(known), Const(values))
    return op, [w.any(numbers(r, shape(r, 0, 2), dtype)), w.any(numbers(r, (), "int64"))]


@maker("vocabulary")
def vocabulary(w: World) -> Case:
    r = w.random
    dtype = r.choice(["int64", "string"])
    keys = sorted(set(numbers(r, (r.randint(1, 6),), dtype).tolist()))
    known = np.empty(len(keys), object if dtype == "string" else dtype)
    known[:] = keys
    function = r.choice(["farm", "floor_mod"]) if dtype == "int64" else "farm"
    values = Const(numbers(r, (len(keys),), "int64", True))
    op = op_of("vocabulary", Const(known), values, r.choice([-1, 0, 7]), r.choice([0, 1, 3]), function)
    return op, [w.any(numbers(r, shape(r, 0, 2), dtype))]


@maker("dense_bincount")
def dense_bincount(w: World) -> Case:
    r = w.random
    dims = shape(r, 1, 2)
    x = np.abs(numbers(r, dims, r.choice(["int32", "int64"]), True))
    dtype = r.choice(["int32", "int64", "float32", "float64"])
    weights = numbers(r, dims if r.random() < 0.5 else (0,), dtype, True)
    return op_of("dense_bincount", r.random() < 0.3), [w.any(x), w.any(np.int32(r.choice([0, 1, 4]))), w.any(weights)]


@maker("parse_example")
def parse_example(w: World) -> Case:
    r = w.random
    op = op_of("parse_example", examples.wanted(r))
    rows = [examples.serialized(r, op.features) for _ in range(r.choice(SIZES))]  # type: ignore[attr-defined]
    serialized = np.empty(len(rows), dtype=object)
    serialized[:] = rows
    return op, [w.any(serialized)]


@maker("ragged_input")
def ragged_input(w: World) -> Case:
    r = w.random
    by = r.choice(["indices", "splits", "nested"])
    lengths = [r.choice([0, 1, 3]) for _ in range(r.choice(SIZES))]
    places = [[k, j] for k, n in enumerate(lengths) for j in range(n)]
    if r.random() < 0.2:
        r.shuffle(places)
    num_values, trimmed = r.randint(1, 2), r.random() < 0.5
    names = (f"rows{w.made}", f"width{w.made}") if r.random() < 0.5 else (None, None)
    op = op_of("ragged_input", by, num_values, trimmed, r.random() < 0.5, *names)
    count = len(places) + (r.random() < 0.05)
    values = [w.fed(numbers(r, (count,), r.choice(["float32", "int64", "string"]))) for _ in range(num_values)]
    if by != "indices":
        first = w.fed(np.cumsum([r.random() < 0.05, *lengths]).astype(r.choice(["int32", "int64"])))
        if by == "splits":
            return op, [first, *values]
        ends = sorted(r.choices(range(len(lengths) + 1), k=r.choice(SIZES)))
        outer = np.array([0, *ends, len(lengths) - (r.random() < 0.05)], first.array.dtype)
        return op, [w.fed(outer), first, *values]
    first = w.fed(np.array(places, np.int64).reshape(-1, 2))
    shape = [len(lengths), 3 if r.random() < 0.9 else 2]
    return op, [first, *([] if trimmed else [w.any(np.array(shape, np.int64))]), *values]


@maker("row_splits")
def row_splits(w: World) -> Case:
    r = w.random
    lengths = [r.choice([0, 1, 3]) - (r.random() < 0.03) for _ in range(r.choice(SIZES))]
    splits = np.cumsum([r.random() < 0.05, *lengths]).astype(r.choice(["int32", "int64"]))
    return op_of("row_splits", f"rows{w.made}", f"elements{w.made}"), [w.fed(splits)]


@maker("sum_rows")
def sum_rows(w: World) -> Case:
    r = w.random
    lengths = [r.choice([0, 1, 3]) for _ in range(r.choice(SIZES))]
    splits = np.cumsum([r.random() < 0.05, *lengths])
    x = numbers(r, (sum(lengths) + (r.random() < 0.05), *shape(r, 0, 2)), "float32", True)
    return op_of("sum_rows"), [w.any(x), w.any(splits)]


@maker("choices")
def choices(w: World) -> Case:
    r = w.random
    rows = r.choice(SIZES)
    args: list[Val] = []
    sparse = [r.random() < 0.6 for _ in range(r.randint(1, 3))]
    for each in sparse:
        dims = (rows, r.choice((0, 1, 1, 2)))
        args += _matrix(w, rows) if each else [w.any(numbers(r, dims, r.choice(["string", "int64"])))]
    numbered = tuple(sorted(r.sample(range(len(sparse)), r.randint(0, len(sparse)))))
    return op_of("choices", tuple(sparse), numbered=numbered), args


@maker("dynamic_partition")
def dynamic_partition(w: World) -> Case:
    r = w.random
    num, rank = r.randint(1, 3), r.randint(1, 2)
    dims = shape(r, rank, rank + 1)
    data = (
        affine(w, 1, 1) if rank == 1 and r.random() < 0.3 else w.any(numbers(r, dims, r.choice(["float32", "int64"])))
    )
    count = math.prod(data.array.shape[:rank])
    of = [r.randrange(num) if r.random() < 0.99 else num for _ in range(count)]
    return op_of("dynamic_partition", num=num), [data, w.any(np.array(of, np.int32).reshape(data.array.shape[:rank]))]


@maker("dynamic_stitch")
def dynamic_stitch(w: World) -> Case:
    r = w.random
    rest = shape(r, 0, 1)
    places = list(range(r.choice(SIZES))) * r.randint(1, 2)
    r.shuffle(places)
    cut = r.randint(0, len(places))
    parts = [np.array(part, np.int32) for part in (places[:cut], places[cut:])]
    data = [w.any(numbers(r, (len(part), *rest), "float32")) for part in parts]
    return op_of("dynamic_stitch"), [*map(w.any, parts), *data]


@maker("join_shards")
def join_shards(w: World) -> Case:
    r = w.random
    count, total, width = r.randint(1, 4), r.randint(0, 11), r.choice([1, 3, 8])
    heights = [total // count + (k < total % count) for k in range(count)]
    parts = [w.known(numbers(r, (height, width), "float32")) for height in heights]
    return op_of("join_shards", r.choice(["div", "mod"])), parts


@maker("clip_rows")
def clip_rows(w: World) -> Case:
    r = w.random
    dims = (*shape(r, 0, 2), r.choice([1, 2, 7, 8, 9, 31, 32, 33, 40, 71, 100, 129]))
    made = np.random.default_rng(r.randrange(2**32)).standard_normal(dims).astype(np.float32)
    made *= np.float32(r.choice([1, 1e-3, 1e-20, 1e10, 1e30]))
    odd = np.random.default_rng(r.randrange(2**32)).random(dims) < 0.02
    made[odd] = np.float32(r.choice([0.0, -0.0, float("inf"), float("nan"), 1e-40]))
    return op_of("clip_rows", r.choice([0.5, 1.0, 0.1, 3.7e-5])), [w.any(made)]


@maker("unique")
def unique(w: World) -> Case:
    r = w.random
    x = (
        affine(w, 1, 1)
        if r.random() < 0.3
        else w.any(numbers(r, shape(r, 1, 1), r.choice(["int32", "int64", "string", "float32"])))
    )
    return op_of("unique", out_idx=r.choice(["int32", "int64"])), [x]


@maker("where")
def where(w: World) -> Case:
    r = w.random
    dims = shape(r, 1, 3)
    mask = w.any(numbers(r, dims, "bool")) if r.random() < 0.6 else w.any(np.ones(dims, dtype=bool))
    return op_of("where"), [mask]


@maker("bucketize")
def bucketize(w: World) -> Case:
    r = w.random
    bounds = sorted(r.choice([-1.0, 0.0, 0.1, 1e-40, 2.5, 16777216.0, 2.0**31, 1e20]) for _ in range(r.randint(0, 6)))
    x = numbers(r, shape(r), r.choice(["float32", "float64", "int32", "int64"]))
    if x.size and x.dtype.kind == "i":
        x.reshape(-1)[0] = r.choice([16777217, 2**31 - 1])
    elif x.size:
        x.reshape(-1)[0] = r.choice([0.1, 1e-41, -1e-41, 1e-310, -1e-310, 5e-324])
    return op_of("bucketize", Const(np.array(bounds, np.float32)), flush_denormals=True), [w.any(x)]


@maker("string_to_hash_bucket")
def hash_bucket(w: World) -> Case:
    r = w.random
    return op_of("string_to_hash_bucket", r.choice([1, 7, 10000, 2**63 - 1])), [w.fed(numbers(r, shape(r), "string"))]


@maker("bitcast")
def bitcast(w: World) -> Case:
    r = w.random
    dtype, to = r.choice([("float32", "int32"), ("int32", "float32"), ("float64", "int64"), ("int64", "float64")])
    return op_of("bitcast", to), [w.any(numbers(r, shape(r), dtype))]


@maker("string_lower", "string_upper", "string_strip")
def strings_of_strings(w: World, name: str) -> Case:
    r = w.random
    options = () if name == "string_strip" else (r.random() < 0.5,)
    return op_of(name, *options), [w.fed(numbers(r, shape(r), "string"))]


@maker("string_join")
def string_join(w: World) -> Case:
    r = w.random
    size = shape(r)
    count = r.randint(1, 3)
    parts = tuple(r.sample([None] * count + [b"_", b""], count + 2))
    x = [w.fed(numbers(r, size, "string")) for _ in range(count)]
    return op_of("string_join", parts, r.choice([b"", b"_X_"])), x


@maker("regex_replace")
def regex_replace(w: World) -> Case:
    r = w.random
    pattern, rewrite = r.choice([b"[a-c,;]", b"a+", rb"[\[\]!]+", b"aa"]), r.choice([b"", b" ", b"xy"])
    return op_of("regex_replace", pattern, rewrite, r.random() < 0.5), [w.fed(numbers(r, shape(r), "string"))]


@maker("substr")
def substr(w: World) -> Case:
    r = w.random
    return op_of("substr", r.choice([0, 1, 3, -1, -2]), r.choice([0, 1, 4])), [w.fed(numbers(r, shape(r), "string"))]


@maker("string_to_keyed_bucket")
def keyed_bucket(w: World) -> Case:
    r = w.random
    x = w.fed(numbers(r, shape(r), "string"))
    return op_of("string_to_keyed_bucket", r.choice([1, 7, 2**63 - 1]), r.choice([0, -5, 2**62]), 3), [x]


@maker("keyed_decimal_bucket")
def keyed_decimal_bucket(w: World) -> Case:
    r = w.random
    x = w.fed(numbers(r, shape(r), r.choice(["int32", "int64"])))
    return op_of("keyed_decimal_bucket", r.choice([1, 7, 2**63 - 1]), r.choice([0, -5, 2**62]), 3), [x]


@maker("hash_decimal_bucket")
def hash_decimal_bucket(w: World) -> Case:
    r = w.random
    return op_of("hash_decimal_bucket", r.choice([1, 7, 2**63 - 1])), [
        w.fed(numbers(r, shape(r), r.choice(["int32", "int64"])))
    ]


@maker("as_string")
def as_string(w: World) -> Case:
    r = w.random
    return op_of("as_string"), [w.any(numbers(r, shape(r), r.choice(["int32", "int64", "float32", "float64", "bool"])))]


@maker("string_split")
def string_split(w: World) -> Case:
    r = w.random
    return op_of("string_split", r.choice([b",", b",,", b"a"]), r.random() < 0.5), [
        w.fed(numbers(r, shape(r, 1, 1), "string"))
    ]


@maker("split_rows")
def split_rows(w: World) -> Case:
    r = w.random
    op = op_of(
        "split_rows", r.choice([b",", b"a"]), r.random() < 0.5, r.choice([b"", b"c"]), "k0", r.choice([None, 0, 2])
    )
    return op, [w.fed(numbers(r, shape(r), "string"))]


@maker("sparse_cross")
def sparse_cross(w: World) -> Case:
    r = w.random
    rows = r.choice(SIZES)
    matrices = [_matrix(w, rows) for _ in range(r.randint(0, 2))]
    dense = [
        w.any(numbers(r, (rows, r.choice((0, 1, 1, 2))), r.choice(["string", "int64"])))
        for _ in range(r.randint(0 if matrices else 1, 2))
    ]
    op = op_of("sparse_cross", r.choice([1, 7, 2**63 - 1]), r.choice([0, 0xDECAFCAFFE, -1]), len(matrices))
    return op, [*(parts[k] for k in range(3) for parts in matrices), *dense]


def _matrix(w: World, rows: int) -> tuple[Val, Val, Val]:
    """A sparse matrix: sorted indices, values, shape."""
    r = w.random
    columns = r.choice((1, 1, 2, 3))
    mask = numbers(r, (rows, columns), "bool")
    if r.random() < 0.4:
        mask = np.ones_like(mask)
    made = w.one(op_of("where"), w.any(mask)) if r.random() < 0.6 else w.fed(np.argwhere(mask).astype(np.int64))
    values = numbers(r, (len(made.array),), r.choice(["string", "int64"]))
    return made, w.fed(values), w.any(np.array([rows, columns], np.int64))


def places(w: World) -> tuple[Val, Val, int]:
    """An index matrix of two columns whose elements rise, mostly, its dense shape, and the number of elements."""
    r = w.random
    rows, width = r.choice(SIZES), r.choice(SIZES)
    every = [[k, j] for k in range(rows) for j in range(width) if r.random() < 0.6]
    if r.random() < 0.1:
        r.shuffle(every)
    if r.random() < 0.05:
        width -= 1
    return w.fed(np.array(every, np.int64).reshape(-1, 2)), w.any(np.array([rows, width])), len(every)


@maker("pad_rows")
def pad_rows(w: World) -> Case:
    r = w.random
    indices, dense_shape, count = places(w)
    dtype = r.choice(["float32", "int64", "string"])
    values = w.any(numbers(r, (count,), dtype))
    op = op_of("pad_rows", Const(numbers(r, (), dtype)), r.choice([None, None, 0, 1, 4]))
    return op, [indices, dense_shape, values]


@maker("ragged_to_dense")
def ragged_to_dense(w: World) -> Case:
    r = w.random
    lengths = [r.choice([0, 1, 3]) for _ in range(r.choice(SIZES))]
    dtype = r.choice(["float32", "int64", "string"])
    values = numbers(r, (sum(lengths), *shape(r, 0, 1)), dtype)
    splits = np.cumsum([r.random() < 0.05, *lengths]).astype(r.choice(["int32", "int64"]))
    op = op_of("ragged_to_dense", r.choice([None, None, 0, 2, 4]))
    return op, [w.any(splits), w.any(values), w.any(numbers(r, (), dtype))]


@maker("rows_to_dense")
def rows_to_dense(w: World) -> Case:
    r = w.random
    lengths = [r.choice([0, 1, 3]) for _ in range(r.choice(SIZES))]
    dtype = r.choice(["float32", "int64", "string"])
    rows = np.repeat(np.arange(len(lengths)), lengths).astype(r.choice(["int32", "int64"]))
    values, count = numbers(r, (sum(lengths), *shape(r, 0, 1)), dtype), np.array(len(lengths), rows.dtype)
    op = op_of("rows_to_dense", r.choice([None, None, 0, 2, 4]))
    return op, [w.any(rows), w.any(values), w.any(numbers(r, (), dtype)), w.any(count)]


@maker("row_marks", "row_ends")
def rows_alone(w: World, name: str) -> Case:
    widths = (w.random.choice([None, None, 0, 2]),) if name == "row_marks" else ()
    return op_of(name, *widths), list(places(w)[:2])


@maker("segment_sum", "segment_max")
def segment_sum(w: World, name: str) -> Case:
    r = w.random
    dtypes = ["int32", "int64"] if name == "segment_max" else ["float32", "int32", "int64"]
    data = numbers(r, shape(r, 1, 3), r.choice(dtypes), True)
    ids = np.sort(numbers(r, (len(data),), r.choice(["int32", "int64"]), True))
    if r.random() < 0.8:
        ids = np.abs(ids)
        ids.sort()
    return op_of(name), [w.any(data), w.any(ids)]


@maker("unsorted_segment_sum")
def unsorted_segment_sum(w: World) -> Case:
    r = w.random
    data = numbers(r, shape(r, 1, 3), r.choice(["float32", "int32", "int64"]), True)
    ids = numbers(r, (len(data),), r.choice(["int32", "int64"]), True)
    return op_of("unsorted_segment_sum"), [w.any(data), w.any(ids), w.scalar(r.choice([0, 4, 8, 8, 9]))]


@maker("string_to_number")
def string_to_number(w: World) -> Case:
    r = w.random
    texts = (
        [b"1", b" -7 ", b"+3", b"12"]
        if r.random() < 0.7
        else [b"1.5", b"", b"nan", b"0x1F", b"1e3", b" .5", b"x", b"-inf", b"1_0"]
    )
    made = np.empty(r.randint(0, 2), dtype=object)
    made[:] = [r.choice(texts) for _ in made]
    return op_of("string_to_number", r.choice(["float32", "float64", "int32", "int64"])), [w.fed(made)]


@maker("mat_mul")
def mat_mul(w: World) -> Case:
    r = w.random
    a, b, c = shape(r, 3, 3)
    flip_a, flip_b = r.random() < 0.5, r.random() < 0.5
    left, right = numbers(r, (a, b), "float32", True), numbers(r, (b, c), "float32", True)
    operands = [w.any(left.T if flip_a else left), w.any(right.T if flip_b else right)]
    return op_of("mat_mul", transpose_a=flip_a, transpose_b=flip_b), operands


@maker("batch_mat_mul")
def batch_mat_mul(w: World) -> Case:
    r = w.random
    a, b, c = shape(r, 3, 3)
    flip_a, flip_b, broadcasts = r.random() < 0.5, r.random() < 0.5, r.random() < 0.7
    lead = shape(r, 0, 2)
    other = tuple(1 if r.random() < 0.3 else d for d in lead[r.randint(0, len(lead)) :]) if broadcasts else lead
    left, right = numbers(r, (*lead, a, b), "float32", True), numbers(r, (*other, b, c), "float32", True)
    operands = [w.any(left.swapaxes(-1, -2) if flip_a else left), w.any(right.swapaxes(-1, -2) if flip_b else right)]
    return op_of("batch_mat_mul", flip_a, flip_b, broadcasts), operands


@maker("conv2d")
def conv2d(w: World) -> Case:
    r = w.random
    groups, window, made = r.choice((1, 1, 2)), r.choice((1, 2)), r.choice((1, 2))
    kernel = numbers(r, (r.randint(1, 3), r.randint(1, 3), window, made * groups), "float32", True)
    strides, dilations = ((r.choice((1, 1, 2)), r.choice((1, 1, 3))) for _ in range(2))
    if max(strides) > 1:
        dilations = (1, 1)
    x = numbers(r, (r.choice((0, 1, 3)), r.randint(1, 7), r.randint(1, 7), window * groups), "float32", True)
    return op_of("conv2d", strides, dilations, r.random() < 0.5), [w.any(x), w.any(kernel)]


EQUATIONS = ("ab,bc->ac", "ab,ab->a", "abc,cd->abd", "abc,cde->abde", "a...b,bc->...ac", "abcd,aecd->aceb", "ab->ba")


@maker("einsum")
def einsum(w: World) -> Case:
    r = w.random
    equation = r.choice((*EQUATIONS, "ab->", "a,b->ab", "...a,...a->...", "abc->ac"))
    sizes = {label: r.choice(SIZES) for label in "abcde"}
    operands = []
    for term in equation.split("->")[0].split(","):
        rest = [r.choice((1, 2)) for _ in range(r.randint(0, 1))]
        before, dots, after = term.partition("...")
        dims = [*(sizes[k] for k in before), *(rest if dots else []), *(sizes[k] for k in after)]
        operands.append(w.any(numbers(r, tuple(dims), "float32", True)))
    return op_of("einsum", equation), operands


@maker("matrix_band_part")
def matrix_band_part(w: World) -> Case:
    r = w.random
    x = w.any(numbers(r, shape(r, 2, 4), r.choice(["float32", "int32", "bool"])))
    dtype = r.choice(["int32", "int64"])
    return op_of("matrix_band_part"), [x, *(w.any(np.array(r.choice([-1, 0, 1, 1, 2]), dtype)) for _ in range(2))]


@maker("bias_add")
def bias_add(w: World) -> Case:
    r = w.random
    dims = shape(r, 2, 3)
    return op_of("bias_add"), [w.any(numbers(r, dims, "float32")), w.any(numbers(r, dims[-1:], "float32"))]


@maker("softmax", "log_softmax")
def softmax(w: World, name: str) -> Case:
    return op_of(name), [w.any(numbers(w.random, shape(w.random, 1, 3), "float32", True))]


@maker("sparse_reshape")
def sparse_reshape(w: World) -> Case:
    r = w.random
    places, dims = indices(w)
    n = math.prod(dims)
    options = [list(dims), [n], [-1], [n, 1], [1, -1], list(dims[::-1]), [*dims[:-1], -1]]
    return op_of("sparse_reshape"), [places, w.sized(dims, "int64"), w.sized(r.choice(options), "int64")]


@maker("sparse_reorder")
def sparse_reorder(w: World) -> Case:
    places, dims = indices(w)
    values = w.any(numbers(w.random, (len(places.array),), w.random.choice(["int64", "float32", "string"])))
    return op_of("sparse_reorder"), [places, values, w.sized(dims, "int64")]


@maker("sparse_slice")
def sparse_slice(w: World) -> Case:
    r = w.random
    places, dims = indices(w)
    values = w.any(numbers(r, (len(places.array),), r.choice(["int64", "float32", "string"])))
    start = [r.choice((0, 0, 1)) for _ in dims]
    size = list(dims) if r.random() < 0.5 else [r.randint(0, 3) for _ in dims]
    return op_of("sparse_slice"), [places, values, *(w.sized(d, "int64") for d in (dims, start, size))]


@maker("sparse_fill_empty_rows")
def sparse_fill_empty_rows(w: World) -> Case:
    r = w.random
    places, dims = indices(w)
    dtype = r.choice(["int32", "int64", "float32", "string"])
    values = w.any(numbers(r, (len(places.array),), dtype))
    return op_of("sparse_fill_empty_rows"), [places, values, w.sized(dims, "int64"), w.any(numbers(r, (), dtype))]


@maker("sparse_segment_reduce")
def sparse_segment_reduce(w: World) -> Case:
    r = w.random
    table, ids, rows = looked_up(w)
    op = op_of("sparse_segment_reduce", r.choice(["sum", "mean", "sqrtn"]), with_num_segments=r.random() < 0.5)
    count = int(rows.array.max()) + 1 if len(rows.array) else 0
    more = [w.scalar(count + r.choice([0, 2, -1]))] if op.with_num_segments else []  # type: ignore[attr-defined]
    return op, [table, ids, rows, *more]


@maker("embedding_bag")
def embedding_bag(w: World) -> Case:
    r = w.random
    table, ids, rows = looked_up(w)
    count = int(rows.array.max()) + 1 if len(rows.array) else 0
    op = op_of("embedding_bag", r.choice(["sum", "mean", "sqrtn"]), r.choice([None, 1]))
    return op, [table, ids, rows, w.scalar(count + r.choice([0, 2]))]


@maker("weighted_bag")
def weighted_bag(w: World) -> Case:
    r = w.random
    table, ids, rows = looked_up(w)
    count = int(rows.array.max()) + 1 if len(rows.array) else 0
    op = op_of("weighted_bag", r.choice(["sum", "mean", "sqrtn"]), r.choice([None, 1]))
    weights = w.any(numbers(r, (len(ids.array),), "float32", True))
    return op, [table, ids, rows, w.scalar(count + r.choice([0, 2])), weights]


def looked_up(w: World) -> tuple[Val, Val, Val]:
    """A table, ids and rows; long rows among them."""
    r = w.random
    generator = np.random.default_rng(r.randrange(2**32))
    table = w.fed(generator.standard_normal((7, r.choice([1, 3, 8]))).astype(np.float32))
    if r.random() < 0.25:
        rows = w.one(op_of("range"), w.known(np.int32(0)), w.scalar(r.choice(SIZES)), w.known(np.int32(1)))
    else:
        lengths = [r.choice([0, 1, 2, 8, 9, 10, 16, 17, 35]) for _ in range(r.randint(0, 3))]
        rows = w.any(np.repeat(np.arange(len(lengths)), lengths).astype(np.int32))
    ids = generator.integers(0, 7, len(rows.array)).astype(r.choice(["int32", "int64"]))
    if len(ids) and r.random() < 0.1:
        ids[0] = r.choice([-1, 7])
    return table, w.any(ids), rows


@maker("shape_construct")
def shape_construct(w: World) -> Case:
    r = w.random
    a, b = w.fed(np.zeros(shape(r, 2, 2))), w.fed(np.zeros(shape(r, 1, 1)))
    symbols = (("x", 0, 0), ("y", 0, 1), ("z", 1, 0))
    exprs = tuple(r.choice(["x", "x*y", "x + 2*z", "7", "max_(x, z)", "y**2"]) for _ in range(r.randint(1, 3)))
    scalar = len(exprs) == 1 and r.random() < 0.5
    return op_of("shape_construct", exprs, symbols, r.choice(["int32", "int64"]), scalar), [a, b]
