"""Every graph op's `reference` against TensorFlow's op, on random operands."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from colonnade.errors import ColonnadeError
from colonnade.ops.op import GraphOp
from colonnade.testing.tensorflow import tensorflow
from tests.unit.ops.graph.cases import MAKERS
from tests.unit.ops.graph.world import Refused, World

SEEDS = 40
Call = Callable[[Any, Any, list[Any]], Any]
# Ops of our own: their tests stand in tests/unit/ops/graph, those of parse_example in test_parse_example.py.
OURS = {
    "parse_example",
    "ragged_input",
    "ragged_to_dense",
    "pad_rows",
    "row_marks",
    "row_splits",
    "sum_rows",
    "row_ends",
    "weighted_bag",
    "embedding_bag",
    "join_shards",
    "choices",
    "shape_construct",
    "hash_decimal_bucket",
    "keyed_decimal_bucket",
    "guard",
    "vocabulary",
    "split_rows",
}
COMPARISONS = {"eq": "Equal", "ne": "NotEqual", "lt": "Less", "le": "LessEqual", "gt": "Greater", "ge": "GreaterEqual"}
# Answers of transcendental functions and of sums in another order may differ in the last bits.
ROUNDED = {
    *("exp", "log", "log1p", "sqrt", "rsqrt", "tanh", "sigmoid", "elu", "selu", "softplus", "softmax", "pow"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erf", "erfc", "expm1"),
    *("log_softmax", "atan2", "xlogy", "cumsum", "cumprod", "reciprocal", "softsign"),
    *("mat_mul", "batch_mat_mul", "einsum", "sum", "mean", "prod", "leaky_relu", "range"),
}
# TensorFlow's vector and scalar code differ in the sign of the 0 that -0.0 becomes.
UNSIGNED_ZERO = {"relu", "relu6"}


def unary(name: str, operand: str = "x") -> Call:
    return lambda r, op, a: getattr(r, name)(**{operand: a[0]})


def binary(name: str) -> Call:
    return lambda r, op, a: getattr(r, name)(x=a[0], y=a[1])


def reduction(name: str) -> Call:
    return lambda r, op, a: getattr(r, name)(input=a[0], axis=a[1], keep_dims=op.keep_dims)


def joined(r: Any, op: Any, a: list[Any]) -> Any:
    parts = [a.pop(0) if part is None else part for part in op.parts]
    return r.StringJoin(inputs=parts, separator=op.separator)


def segment(r: Any, op: Any, a: list[Any]) -> Any:
    name = {"sum": "Sum", "mean": "Mean", "sqrtn": "SqrtN"}[op.pooling]
    named = {"data": a[0], "indices": a[1], "segment_ids": a[2]}
    if op.with_num_segments:
        return getattr(r, f"SparseSegment{name}WithNumSegments")(**named, num_segments=a[3])
    return getattr(r, f"SparseSegment{name}")(**named)


def strided_slice(r: Any, op: Any, a: list[Any]) -> Any:
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    masks = {n: getattr(op, n) for n in names}
    return r.StridedSlice(input=a[0], begin=a[1], end=a[2], strides=a[3], **masks)


def select(r: Any, op: Any, a: list[Any]) -> Any:
    return r.Select(condition=a[0], x=a[1], y=a[2]) if op.v1 else r.SelectV2(condition=a[0], t=a[1], e=a[2])


def sparse_to_dense(r: Any, op: Any, a: list[Any]) -> Any:
    named = {"sparse_indices": a[0], "output_shape": a[1], "sparse_values": a[2], "default_value": a[3]}
    return r.SparseToDense(**named, validate_indices=op.validate)


SPACES = (b" ", b"\t", b"\n", b"\v", b"\f", b"\r")


def string_split(r: Any, op: Any, x: Any) -> Any:
    """By a separator; empty tokens are left out by white space alone: here of what has none but the separator."""
    if not op.skip_empty:
        return r.StringSplitV2(input=x, sep=op.separator)
    for k, space in enumerate(SPACES):
        x = r.StaticRegexReplace(input=x, pattern=space, rewrite=bytes([1 + k]))
    made = r.StringSplitV2(input=r.StaticRegexReplace(input=x, pattern=op.separator, rewrite=" "), sep="")
    tokens = made.values
    for k, space in enumerate(SPACES):
        tokens = r.StaticRegexReplace(input=tokens, pattern=bytes([1 + k]), rewrite=space)
    return made._replace(values=tokens)


def sparse_cross(r: Any, op: Any, a: list[Any]) -> Any:
    n = op.num_sparse
    indices, values, shapes = (a[k * n : (k + 1) * n] for k in range(3))
    return r.SparseCross(
        **{"indices": indices, "values": values, "shapes": shapes, "dense_inputs": a[3 * n :]},
        **{"hashed_output": True, "num_buckets": op.num_buckets, "hash_key": op.hash_key},
        **{"out_type": "int64", "internal_type": "int64"},
    )


def lookup_table_find(r: Any, op: Any, a: list[Any]) -> Any:
    keys, values = (
        tensorflow().constant(c.array, "string" if c.array.dtype == object else None) for c in (op.keys, op.values)
    )
    table = r.AnonymousHashTable(key_dtype=keys.dtype, value_dtype=values.dtype)
    r.LookupTableImportV2(table_handle=table, keys=keys, values=values)
    return r.LookupTableFindV2(table_handle=table, keys=a[0], default_value=a[1])


CALLS: dict[str, Call] = {
    "acos": unary("Acos"),
    "acosh": unary("Acosh"),
    "arg_min": lambda r, op, a: r.ArgMin(input=a[0], dimension=a[1], output_type=op.out_type),
    "asin": unary("Asin"),
    "asinh": unary("Asinh"),
    "atan": unary("Atan"),
    "atan2": lambda r, op, a: r.Atan2(y=a[0], x=a[1]),
    "atanh": unary("Atanh"),
    "cos": unary("Cos"),
    "cosh": unary("Cosh"),
    "cumprod": lambda r, op, a: r.Cumprod(x=a[0], axis=a[1], exclusive=op.exclusive, reverse=op.reverse),
    "cumsum": lambda r, op, a: r.Cumsum(x=a[0], axis=a[1], exclusive=op.exclusive, reverse=op.reverse),
    "ensure_shape": lambda r, op, a: r.EnsureShape(input=a[0], shape=[None if d < 0 else d for d in op.shape]),
    "erf": unary("Erf"),
    "erfc": unary("Erfc"),
    "expm1": unary("Expm1"),
    "is_finite": unary("IsFinite"),
    "is_inf": unary("IsInf"),
    "is_nan": unary("IsNan"),
    "log_softmax": unary("LogSoftmax", "logits"),
    "logical_xor": lambda r, op, a: tensorflow().math.logical_xor(a[0], a[1]),
    "mirror_pad": lambda r, op, a: r.MirrorPad(input=a[0], paddings=a[1], mode="SYMMETRIC" if op.edge else "REFLECT"),
    "mul_no_nan": binary("MulNoNan"),
    "pad": lambda r, op, a: r.PadV2(
        input=a[0], paddings=a[1], constant_values=tensorflow().constant(op.value, a[0].dtype)
    ),
    "reciprocal": unary("Reciprocal"),
    "reverse": lambda r, op, a: r.ReverseV2(tensor=a[0], axis=a[1]),
    "sin": unary("Sin"),
    "sinh": unary("Sinh"),
    "softsign": unary("Softsign", "features"),
    "split": lambda r, op, a: r.Split(axis=a[0], value=a[1], num_split=op.num),
    "split_v": lambda r, op, a: r.SplitV(value=a[0], size_splits=a[1], axis=a[2], num_split=op.num),
    "tan": unary("Tan"),
    "top_k": lambda r, op, a: r.TopKV2(input=a[0], k=a[1]),
    "truncate_div": binary("TruncateDiv"),
    "truncate_mod": binary("TruncateMod"),
    "unpack": lambda r, op, a: r.Unpack(value=a[0], num=op.num, axis=op.axis),
    "xlogy": binary("Xlogy"),
    "abs": unary("Abs"),
    "add": binary("AddV2"),
    "all": reduction("All"),
    "any": reduction("Any"),
    "arg_max": lambda r, op, a: r.ArgMax(input=a[0], dimension=a[1], output_type=op.out_type),
    "as_string": unary("AsString", "input"),
    "batch_mat_mul": lambda r, op, a: (r.BatchMatMulV2 if op.broadcasts else r.BatchMatMul)(
        x=a[0], y=a[1], adj_x=op.transpose_a, adj_y=op.transpose_b
    ),
    "bias_add": lambda r, op, a: r.BiasAdd(value=a[0], bias=a[1]),
    "broadcast_to": lambda r, op, a: r.BroadcastTo(input=a[0], shape=a[1]),
    "bucketize": lambda r, op, a: r.Bucketize(input=a[0], boundaries=op.boundaries.array.tolist()),
    "cast": lambda r, op, a: r.Cast(x=a[0], DstT=op.to),
    "ceil": unary("Ceil"),
    "compare": lambda r, op, a: getattr(r, COMPARISONS[op.kind])(x=a[0], y=a[1]),
    "concat": lambda r, op, a: r.ConcatV2(values=a[:-1], axis=a[-1]) if len(a) > 2 else r.Identity(input=a[0]),
    "conv2d": lambda r, op, a: r.Conv2D(
        input=a[0],
        filter=a[1],
        strides=[1, *op.strides, 1],
        dilations=[1, *op.dilations, 1],
        padding="SAME" if op.same else "VALID",
    ),
    "dense_bincount": lambda r, op, a: r.DenseBincount(
        input=a[0], size=tensorflow().cast(a[1], a[0].dtype), weights=a[2], binary_output=op.binary
    ),
    "div_no_nan": binary("DivNoNan"),
    "clip_rows": lambda r, op, a: tensorflow().clip_by_norm(a[0], op.max_norm, axes=[-1]),
    "dynamic_partition": lambda r, op, a: r.DynamicPartition(data=a[0], partitions=a[1], num_partitions=op.num),
    "dynamic_stitch": lambda r, op, a: r.DynamicStitch(indices=a[:2], data=a[2:]),
    "einsum": lambda r, op, a: r.Einsum(inputs=a, equation=op.equation),
    "elu": unary("Elu", "features"),
    "exp": unary("Exp"),
    "expand_dims": lambda r, op, a: r.ExpandDims(input=a[0], axis=a[1]),
    "fill": lambda r, op, a: r.Fill(dims=a[0], value=a[1]),
    "floor": unary("Floor"),
    "floor_div": binary("FloorDiv"),
    "floor_mod": binary("FloorMod"),
    "gather": lambda r, op, a: r.GatherV2(params=a[0], indices=a[1], axis=a[2], batch_dims=op.batch_dims),
    "gather_nd": lambda r, op, a: r.GatherNd(params=a[0], indices=a[1]),
    "identity": unary("Identity", "input"),
    "leaky_relu": lambda r, op, a: r.LeakyRelu(features=a[0], alpha=op.alpha),
    "log": unary("Log"),
    "log1p": unary("Log1p"),
    "logical_and": binary("LogicalAnd"),
    "logical_not": unary("LogicalNot"),
    "logical_or": binary("LogicalOr"),
    "lookup_table_find": lookup_table_find,
    "mat_mul": lambda r, op, a: r.MatMul(a=a[0], b=a[1], transpose_a=op.transpose_a, transpose_b=op.transpose_b),
    "matrix_band_part": lambda r, op, a: r.MatrixBandPart(input=a[0], num_lower=a[1], num_upper=a[2]),
    "max": reduction("Max"),
    "maximum": binary("Maximum"),
    "mean": reduction("Mean"),
    "min": reduction("Min"),
    "minimum": binary("Minimum"),
    "mul": binary("Mul"),
    "neg": unary("Neg"),
    "one_hot": lambda r, op, a: r.OneHot(indices=a[0], depth=a[1], on_value=a[2], off_value=a[3], axis=op.axis),
    "ones_like": unary("OnesLike"),
    "pack": lambda r, op, a: r.Pack(values=a, axis=op.axis),
    "pow": binary("Pow"),
    "prod": reduction("Prod"),
    "range": lambda r, op, a: r.Range(start=a[0], limit=a[1], delta=a[2]),
    "rank": unary("Rank", "input"),
    "real_div": binary("RealDiv"),
    "relu": unary("Relu", "features"),
    "relu6": unary("Relu6", "features"),
    "reshape": lambda r, op, a: r.Reshape(tensor=a[0], shape=a[1]),
    "round": unary("Round"),
    "rsqrt": unary("Rsqrt"),
    "scatter_nd": lambda r, op, a: r.ScatterNd(indices=a[0], updates=a[1], shape=a[2]),
    "segment_max": lambda r, op, a: r.SegmentMax(data=a[0], segment_ids=a[1]),
    "segment_sum": lambda r, op, a: r.SegmentSum(data=a[0], segment_ids=a[1]),
    "select": select,
    "selu": unary("Selu", "features"),
    "shape": lambda r, op, a: r.Shape(input=a[0], out_type=op.out_type),
    "sigmoid": unary("Sigmoid"),
    "sign": unary("Sign"),
    "size": lambda r, op, a: r.Size(input=a[0], out_type=op.out_type),
    "slice": lambda r, op, a: r.Slice(input=a[0], begin=a[1], size=a[2]),
    "softmax": unary("Softmax", "logits"),
    "softplus": unary("Softplus", "features"),
    "sparse_cross": sparse_cross,
    "sparse_fill_empty_rows": lambda r, op, a: r.SparseFillEmptyRows(
        indices=a[0], values=a[1], dense_shape=a[2], default_value=a[3]
    ),
    "sparse_reorder": lambda r, op, a: r.SparseReorder(input_indices=a[0], input_values=a[1], input_shape=a[2]),
    "sparse_slice": lambda r, op, a: r.SparseSlice(indices=a[0], values=a[1], shape=a[2], start=a[3], size=a[4]),
    "sparse_reshape": lambda r, op, a: r.SparseReshape(input_indices=a[0], input_shape=a[1], new_shape=a[2]),
    "sparse_segment_reduce": segment,
    "sparse_to_dense": sparse_to_dense,
    "sqrt": unary("Sqrt"),
    "square": unary("Square"),
    "squared_difference": binary("SquaredDifference"),
    "squeeze": lambda r, op, a: r.Squeeze(input=a[0], axis=list(op.dims)),
    "strided_slice": strided_slice,
    "rows_to_dense": lambda r, op, a: r.RaggedTensorToTensor(
        shape=np.int64([-1, -1 if op.width is None else op.width, *a[1].shape[1:]]),
        values=a[1],
        default_value=a[2],
        row_partition_tensors=[a[3], a[0]],
        row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS"],
    ),
    "string_split": lambda r, op, a: string_split(r, op, a[0]),
    "bitcast": lambda r, op, a: r.Bitcast(input=a[0], type=op.to),
    "string_lower": lambda r, op, a: r.StringLower(input=a[0], encoding="utf-8" if op.utf8 else ""),
    "string_upper": lambda r, op, a: r.StringUpper(input=a[0], encoding="utf-8" if op.utf8 else ""),
    "string_strip": lambda r, op, a: r.StringStrip(input=a[0]),
    "string_join": lambda r, op, a: joined(r, op, list(a)),
    "regex_replace": lambda r, op, a: r.StaticRegexReplace(
        input=a[0], pattern=op.pattern, rewrite=op.rewrite, replace_global=op.everywhere
    ),
    "substr": lambda r, op, a: r.Substr(input=a[0], pos=op.start, len=op.length),
    "string_to_keyed_bucket": lambda r, op, a: r.StringToHashBucketStrong(
        input=a[0], num_buckets=op.num_buckets, key=[op.key0, op.key1]
    ),
    "string_to_hash_bucket": lambda r, op, a: r.StringToHashBucketFast(input=a[0], num_buckets=op.num_buckets),
    "string_to_number": lambda r, op, a: r.StringToNumber(string_tensor=a[0], out_type=op.out_type),
    "sub": binary("Sub"),
    "sum": reduction("Sum"),
    "tanh": unary("Tanh"),
    "tile": lambda r, op, a: r.Tile(input=a[0], multiples=a[1]),
    "transpose": lambda r, op, a: r.Transpose(x=a[0], perm=a[1]),
    "unique": lambda r, op, a: r.Unique(x=a[0], out_idx=op.out_idx),
    "unsorted_segment_sum": lambda r, op, a: r.UnsortedSegmentSum(data=a[0], segment_ids=a[1], num_segments=a[2]),
    "upper_bound": lambda r, op, a: r.UpperBound(sorted_inputs=a[0], values=a[1], out_type=op.out_type),
    "where": unary("Where", "condition"),
    "zeros_like": unary("ZerosLike"),
}


def test_every_op_has_a_call() -> None:
    assert set(CALLS) == set(MAKERS) - OURS


@pytest.mark.parametrize("name", sorted(CALLS))
def test_reference_equals_tensorflow(name: str) -> None:
    for seed in range(SEEDS):
        w = World(random.Random(f"tf {name}{seed}"))
        try:
            op, args = MAKERS[name](w)
        except Refused:
            continue
        what = f"seed {seed}: {op} of {[a.array for a in args]!r}"
        try:
            got = op.reference(*(a.value for a in args))
        except ColonnadeError:
            got = None
        want = _tensorflow(name, op, [a.array for a in args])
        assert (got is None) == (want is None), f"{what}\nours {got!r}\nTensorFlow {want!r}"
        if got is None or want is None:
            continue
        ours = [got] if op.num_outputs == 1 else list(got)
        assert len(ours) == len(want)
        for a, b in zip(ours, want, strict=True):
            _equal(a if isinstance(a, np.ndarray) else a.numpy(), b, name, what)


def _tensorflow(name: str, op: GraphOp, args: list[Any]) -> list[Any] | None:
    """TensorFlow's answer; None where it raises."""
    tf = tensorflow()
    try:
        made = CALLS[name](tf.raw_ops, op, [tf.constant(a) for a in args])
    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.InternalError):
        return None
    parts = list(made) if isinstance(made, (tuple, list)) else [made]
    return [np.asarray(p.numpy(), dtype=object) if p.dtype == tf.string else p.numpy() for p in parts]


def _equal(ours: Any, want: Any, name: str, what: str) -> None:
    said = f"{what}\nours {ours!r}\nTensorFlow {want!r}"
    assert ours.dtype == want.dtype and ours.shape == want.shape, said
    if ours.dtype.kind != "f":
        assert ours.tolist() == want.tolist(), said
    elif name in ROUNDED:
        assert np.allclose(ours, want, rtol=4e-6 if ours.dtype == np.float32 else 1e-12, atol=1e-6, equal_nan=True), (
            said
        )
    elif name in UNSIGNED_ZERO:
        assert np.array_equal(ours, want, equal_nan=True), said
    else:
        both_nan = np.isnan(ours) & np.isnan(want)
        assert (both_nan | ((ours == want) & (np.signbit(ours) == np.signbit(want)))).all(), said
