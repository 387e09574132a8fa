"""TensorFlow ops that are one graph op: a line each. What needs more than one stands in `rules.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from colonnade.core.consts import Const
from colonnade.errors import ImportFailure
from colonnade.ops.graph.abs import Abs
from colonnade.ops.graph.acos import Acos
from colonnade.ops.graph.acosh import Acosh
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.all import All
from colonnade.ops.graph.any import Any as AnyOf
from colonnade.ops.graph.as_string import AsString
from colonnade.ops.graph.asin import Asin
from colonnade.ops.graph.asinh import Asinh
from colonnade.ops.graph.atan import Atan
from colonnade.ops.graph.atan2 import Atan2
from colonnade.ops.graph.atanh import Atanh
from colonnade.ops.graph.batch_mat_mul import BatchMatMul
from colonnade.ops.graph.bias_add import BiasAdd
from colonnade.ops.graph.bitcast import Bitcast
from colonnade.ops.graph.broadcast_to import BroadcastTo
from colonnade.ops.graph.bucketize import Bucketize
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.ceil import Ceil
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.conv2d import Conv2d
from colonnade.ops.graph.cos import Cos
from colonnade.ops.graph.cosh import Cosh
from colonnade.ops.graph.cumprod import Cumprod
from colonnade.ops.graph.cumsum import Cumsum
from colonnade.ops.graph.dense_bincount import DenseBincount
from colonnade.ops.graph.div_no_nan import DivNoNan
from colonnade.ops.graph.dynamic_partition import DynamicPartition
from colonnade.ops.graph.dynamic_stitch import DynamicStitch
from colonnade.ops.graph.einsum import Einsum
from colonnade.ops.graph.elu import Elu
from colonnade.ops.graph.erf import Erf
from colonnade.ops.graph.erfc import Erfc
from colonnade.ops.graph.exp import Exp
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.expm1 import Expm1
from colonnade.ops.graph.fill import Fill
from colonnade.ops.graph.floor import Floor
from colonnade.ops.graph.floor_div import FloorDiv
from colonnade.ops.graph.floor_mod import FloorMod
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.is_finite import IsFinite
from colonnade.ops.graph.is_inf import IsInf
from colonnade.ops.graph.is_nan import IsNan
from colonnade.ops.graph.leaky_relu import LeakyRelu
from colonnade.ops.graph.log import Log
from colonnade.ops.graph.log1p import Log1p
from colonnade.ops.graph.log_softmax import LogSoftmax
from colonnade.ops.graph.logical_and import LogicalAnd
from colonnade.ops.graph.logical_not import LogicalNot
from colonnade.ops.graph.logical_or import LogicalOr
from colonnade.ops.graph.logical_xor import LogicalXor
from colonnade.ops.graph.mat_mul import MatMul
from colonnade.ops.graph.matrix_band_part import MatrixBandPart
from colonnade.ops.graph.max import Max
from colonnade.ops.graph.maximum import Maximum
from colonnade.ops.graph.mean import Mean
from colonnade.ops.graph.min import Min
from colonnade.ops.graph.minimum import Minimum
from colonnade.ops.graph.mirror_pad import MirrorPad
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.mul_no_nan import MulNoNan
from colonnade.ops.graph.neg import Neg
from colonnade.ops.graph.one_hot import OneHot
from colonnade.ops.graph.ones_like import OnesLike
from colonnade.ops.graph.pack import Pack
from colonnade.ops.graph.pow import Pow
from colonnade.ops.graph.prod import Prod
from colonnade.ops.graph.range import Range
from colonnade.ops.graph.rank import Rank
from colonnade.ops.graph.real_div import RealDiv
from colonnade.ops.graph.reciprocal import Reciprocal
from colonnade.ops.graph.relu import Relu
from colonnade.ops.graph.relu6 import Relu6
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.reverse import Reverse
from colonnade.ops.graph.round import Round
from colonnade.ops.graph.rsqrt import Rsqrt
from colonnade.ops.graph.scatter_nd import ScatterNd
from colonnade.ops.graph.segment_max import SegmentMax
from colonnade.ops.graph.segment_sum import SegmentSum
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.selu import Selu
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.sigmoid import Sigmoid
from colonnade.ops.graph.sign import Sign
from colonnade.ops.graph.sin import Sin
from colonnade.ops.graph.sinh import Sinh
from colonnade.ops.graph.size import Size
from colonnade.ops.graph.slice import Slice
from colonnade.ops.graph.softmax import Softmax
from colonnade.ops.graph.softplus import Softplus
from colonnade.ops.graph.softsign import Softsign
from colonnade.ops.graph.sparse_fill_empty_rows import SparseFillEmptyRows
from colonnade.ops.graph.sparse_reorder import SparseReorder
from colonnade.ops.graph.sparse_reshape import SparseReshape
from colonnade.ops.graph.sparse_segment_reduce import SparseSegmentReduce
from colonnade.ops.graph.sparse_slice import SparseSlice
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.ops.graph.split import Split
from colonnade.ops.graph.split_v import SplitV
from colonnade.ops.graph.sqrt import Sqrt
from colonnade.ops.graph.square import Square
from colonnade.ops.graph.squared_difference import SquaredDifference
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.string_strip import StringStrip
from colonnade.ops.graph.string_to_hash_bucket import StringToHashBucket
from colonnade.ops.graph.string_to_keyed_bucket import StringToKeyedBucket
from colonnade.ops.graph.sub import Sub
from colonnade.ops.graph.sum import Sum
from colonnade.ops.graph.tan import Tan
from colonnade.ops.graph.tanh import Tanh
from colonnade.ops.graph.tile import Tile
from colonnade.ops.graph.top_k import TopK
from colonnade.ops.graph.transpose import Transpose
from colonnade.ops.graph.truncate_div import TruncateDiv
from colonnade.ops.graph.truncate_mod import TruncateMod
from colonnade.ops.graph.unique import Unique
from colonnade.ops.graph.unpack import Unpack
from colonnade.ops.graph.unsorted_segment_sum import UnsortedSegmentSum
from colonnade.ops.graph.upper_bound import UpperBound
from colonnade.ops.graph.where import Where
from colonnade.ops.graph.xlogy import Xlogy
from colonnade.ops.graph.zeros_like import ZerosLike
from colonnade.ops.op import GraphOp

Attrs = Mapping[str, Any]
Spelling = Callable[[Attrs], GraphOp]


def _bucketize(a: Attrs) -> GraphOp:
    # TensorFlow's kernels run with denormals flushed to zero.
    return Bucketize(Const(np.array(a["boundaries"], dtype=np.float32)), flush_denormals=True)


def _gather(a: Attrs) -> GraphOp:
    return Gather(batch_dims=a.get("batch_dims", 0))


def _strided_slice(a: Attrs) -> GraphOp:
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return StridedSlice(**{name: a.get(name, 0) for name in names})


def _segment(pooling: Literal["sum", "mean", "sqrtn"], with_num_segments: bool = False) -> Spelling:
    return lambda a: SparseSegmentReduce(pooling, with_num_segments=with_num_segments)


def _compare(kind: Literal["eq", "ne", "lt", "le", "gt", "ge"]) -> Spelling:
    return lambda a: Compare(kind, flush_denormals=str(a.get("T", "")).startswith("float"))


def _reduce(op: Callable[..., GraphOp]) -> Spelling:
    return lambda a: op(keep_dims=bool(a.get("keep_dims", False)))


def _squeeze(a: Attrs) -> GraphOp:
    return Squeeze(tuple(a.get("squeeze_dims", ()) or ()))


def _hash_bucket(a: Attrs) -> GraphOp:
    return StringToHashBucket(a["num_buckets"])


def _keyed_bucket(a: Attrs) -> GraphOp:
    key0, key1 = a["key"]
    return StringToKeyedBucket(a["num_buckets"], key0, key1)


def _as_string(a: Attrs) -> GraphOp:
    plain = a.get("precision", -1) == -1 and not a.get("scientific") and not a.get("shortest")
    if not plain or a.get("width", -1) != -1 or a.get("fill"):
        raise ImportFailure("AsString with a format is not supported", got=str(dict(a)))
    return AsString()


def _mat_mul(a: Attrs) -> GraphOp:
    return MatMul(transpose_a=bool(a.get("transpose_a")), transpose_b=bool(a.get("transpose_b")))


def _batch_mat_mul(broadcasts: bool = True) -> Spelling:
    def spelled(a: Attrs) -> GraphOp:
        kinds = {str(a[name]) for name in ("T", "Ta", "Tb", "Tout") if name in a}
        if len(kinds) > 1:
            raise ImportFailure("BatchMatMulV3 of several dtypes is not supported", got=", ".join(sorted(kinds)))
        return BatchMatMul(bool(a.get("adj_x")), bool(a.get("adj_y")), broadcasts)

    return spelled


def _einsum(equation: bytes | str) -> GraphOp:
    text = equation.decode() if isinstance(equation, bytes) else equation
    op = Einsum(text.replace(" ", ""))
    op.terms()
    return op


def _mirror_pad(a: Attrs) -> GraphOp:
    return MirrorPad(edge=a.get("mode") in (b"SYMMETRIC", "SYMMETRIC"))


def _top_k(a: Attrs) -> GraphOp:
    if not a.get("sorted", True):
        raise ImportFailure("TopKV2 in no order is not supported", got="sorted=False")
    return TopK(a.get("index_type", "int32"))


def _scan(op: Callable[..., GraphOp]) -> Spelling:
    return lambda a: op(exclusive=bool(a.get("exclusive")), reverse=bool(a.get("reverse")))


def _div(a: Attrs) -> GraphOp:
    return RealDiv() if str(a.get("T", "")).startswith("float") else TruncateDiv()


def _scatter_nd(a: Attrs) -> GraphOp:
    policy = a.get("bad_indices_policy", b"")
    if policy not in (b"", "", b"DEFAULT", "DEFAULT", b"ERROR", "ERROR"):
        raise ImportFailure("ScatterNd that ignores indices is not supported", got=str(policy))
    return ScatterNd()


def _segment_max(a: Attrs) -> GraphOp:
    if not str(a.get("T", "")).startswith(("int", "uint")):
        raise ImportFailure("SegmentMax of floats is not supported", got=str(a.get("T")))
    return SegmentMax()


def _conv2d(a: Attrs) -> GraphOp:
    padding = _text(a.get("padding", b""))
    strides, dilations = (tuple(a.get(name, (1, 1, 1, 1))) for name in ("strides", "dilations"))
    if _text(a.get("data_format", b"NHWC")) not in ("NHWC", "") or padding not in ("SAME", "VALID"):
        raise ImportFailure("Conv2D of channels first, or with a padding of its own, is not supported", got=padding)
    if (strides[0], strides[3], dilations[0], dilations[3]) != (1, 1, 1, 1):
        raise ImportFailure("Conv2D with strides over rows or channels is not supported", got=f"{strides}, {dilations}")
    return Conv2d(strides[1:3], dilations[1:3], padding == "SAME")


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _bias_add(a: Attrs) -> GraphOp:
    layout = a.get("data_format", b"NHWC")
    if layout not in (b"NHWC", "NHWC", b"", ""):
        raise ImportFailure("BiasAdd in another layout than NHWC is not supported", got=str(layout))
    return BiasAdd()


SPELLINGS: dict[str, Spelling] = {
    "Abs": lambda a: Abs(),
    "Acos": lambda a: Acos(),
    "Acosh": lambda a: Acosh(),
    "Add": lambda a: Add(),
    "AddV2": lambda a: Add(),
    "All": _reduce(All),
    "Any": _reduce(AnyOf),
    "AsString": _as_string,
    "Asin": lambda a: Asin(),
    "Asinh": lambda a: Asinh(),
    "Atan": lambda a: Atan(),
    "Atan2": lambda a: Atan2(),
    "Atanh": lambda a: Atanh(),
    "BatchMatMul": _batch_mat_mul(False),
    "BatchMatMulV2": _batch_mat_mul(),
    "BatchMatMulV3": _batch_mat_mul(),
    "BiasAdd": _bias_add,
    "Bitcast": lambda a: Bitcast(a["type"]),
    "BroadcastTo": lambda a: BroadcastTo(),
    "Bucketize": _bucketize,
    "Cast": lambda a: Cast(a["DstT"]),
    "Ceil": lambda a: Ceil(),
    "ConcatV2": lambda a: Concat(),
    "Const": lambda a: Constant(Const(a["value"])),
    "Conv2D": _conv2d,
    "Cos": lambda a: Cos(),
    "Cosh": lambda a: Cosh(),
    "Cumprod": _scan(Cumprod),
    "Cumsum": _scan(Cumsum),
    "Div": _div,
    "DenseBincount": lambda a: DenseBincount(bool(a.get("binary_output", False))),
    "DivNoNan": lambda a: DivNoNan(),
    "DynamicPartition": lambda a: DynamicPartition(a.get("num_partitions", 1)),
    "DynamicStitch": lambda a: DynamicStitch(),
    "Einsum": lambda a: _einsum(a["equation"]),
    "Elu": lambda a: Elu(),
    "Equal": _compare("eq"),
    "Erf": lambda a: Erf(),
    "Erfc": lambda a: Erfc(),
    "Exp": lambda a: Exp(),
    "ExpandDims": lambda a: ExpandDims(),
    "Expm1": lambda a: Expm1(),
    "Fill": lambda a: Fill(),
    "Floor": lambda a: Floor(),
    "FloorDiv": lambda a: FloorDiv(),
    "FloorMod": lambda a: FloorMod(),
    "GatherNd": lambda a: GatherNd(),
    "GatherV2": _gather,
    "Greater": _compare("gt"),
    "GreaterEqual": _compare("ge"),
    "Inv": lambda a: Reciprocal(),
    "IsFinite": lambda a: IsFinite(),
    "IsInf": lambda a: IsInf(),
    "IsNan": lambda a: IsNan(),
    "LeakyRelu": lambda a: LeakyRelu(float(a.get("alpha", 0.2))),
    "Less": _compare("lt"),
    "LessEqual": _compare("le"),
    "Log": lambda a: Log(),
    "Log1p": lambda a: Log1p(),
    "LogSoftmax": lambda a: LogSoftmax(),
    "LogicalAnd": lambda a: LogicalAnd(),
    "LogicalNot": lambda a: LogicalNot(),
    "LogicalOr": lambda a: LogicalOr(),
    "LogicalXor": lambda a: LogicalXor(),
    "MatMul": _mat_mul,
    "MatrixBandPart": lambda a: MatrixBandPart(),
    "Max": _reduce(Max),
    "Maximum": lambda a: Maximum(),
    "Mean": _reduce(Mean),
    "Min": _reduce(Min),
    "Minimum": lambda a: Minimum(),
    "MirrorPad": _mirror_pad,
    "Mod": lambda a: TruncateMod(),
    "Mul": lambda a: Mul(),
    "MulNoNan": lambda a: MulNoNan(),
    "Neg": lambda a: Neg(),
    "NotEqual": _compare("ne"),
    "OneHot": lambda a: OneHot(axis=a.get("axis", -1)),
    "OnesLike": lambda a: OnesLike(),
    "Pack": lambda a: Pack(axis=a.get("axis", 0)),
    "ParallelDynamicStitch": lambda a: DynamicStitch(),
    "Pow": lambda a: Pow(),
    "Prod": _reduce(Prod),
    "Range": lambda a: Range(),
    "Rank": lambda a: Rank(),
    "RealDiv": lambda a: RealDiv(),
    "Reciprocal": lambda a: Reciprocal(),
    "Relu": lambda a: Relu(),
    "Relu6": lambda a: Relu6(),
    "Reshape": lambda a: Reshape(),
    "ReverseV2": lambda a: Reverse(),
    "Rint": lambda a: Round(),
    "Round": lambda a: Round(),
    "Rsqrt": lambda a: Rsqrt(),
    "ScatterNd": _scatter_nd,
    "SegmentMax": _segment_max,
    "SegmentSum": lambda a: SegmentSum(),
    "Select": lambda a: Select(v1=True),
    "SelectV2": lambda a: Select(),
    "Selu": lambda a: Selu(),
    "Shape": lambda a: Shape(a.get("out_type", "int32")),
    "Sigmoid": lambda a: Sigmoid(),
    "Sign": lambda a: Sign(),
    "Sin": lambda a: Sin(),
    "Sinh": lambda a: Sinh(),
    "Size": lambda a: Size(a.get("out_type", "int32")),
    "Slice": lambda a: Slice(),
    "Softmax": lambda a: Softmax(),
    "Softplus": lambda a: Softplus(),
    "SparseFillEmptyRows": lambda a: SparseFillEmptyRows(),
    "SparseReorder": lambda a: SparseReorder(),
    "SparseReshape": lambda a: SparseReshape(),
    "SparseSegmentMean": _segment("mean"),
    "SparseSegmentMeanWithNumSegments": _segment("mean", True),
    "SparseSegmentSqrtN": _segment("sqrtn"),
    "SparseSegmentSqrtNWithNumSegments": _segment("sqrtn", True),
    "SparseSegmentSum": _segment("sum"),
    "SparseSegmentSumWithNumSegments": _segment("sum", True),
    "SparseSlice": lambda a: SparseSlice(),
    "SparseToDense": lambda a: SparseToDense(a.get("validate_indices", True)),
    "Split": lambda a: Split(a.get("num_split", 1)),
    "SplitV": lambda a: SplitV(a.get("num_split", 1)),
    "Softsign": lambda a: Softsign(),
    "Sqrt": lambda a: Sqrt(),
    "Square": lambda a: Square(),
    "SquaredDifference": lambda a: SquaredDifference(),
    "Squeeze": _squeeze,
    "StridedSlice": _strided_slice,
    "StringStrip": lambda a: StringStrip(),
    "StringToHashBucketFast": _hash_bucket,
    "StringToHashBucketStrong": _keyed_bucket,
    "Sub": lambda a: Sub(),
    "Sum": _reduce(Sum),
    "Tan": lambda a: Tan(),
    "Tanh": lambda a: Tanh(),
    "Tile": lambda a: Tile(),
    "TopKV2": _top_k,
    "Transpose": lambda a: Transpose(),
    "TruncateDiv": lambda a: TruncateDiv(),
    "TruncateMod": lambda a: TruncateMod(),
    "Unique": lambda a: Unique(a.get("out_idx", "int32")),
    "Unpack": lambda a: Unpack(a.get("num", 1), a.get("axis", 0)),
    "UnsortedSegmentSum": lambda a: UnsortedSegmentSum(),
    "UpperBound": lambda a: UpperBound(a.get("out_type", "int32")),
    "Where": lambda a: Where(),
    "Xlogy": lambda a: Xlogy(),
    "ZerosLike": lambda a: ZerosLike(),
}
