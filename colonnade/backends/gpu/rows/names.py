"""The ops of the dense rest that have a rule, in groups that share one."""

from __future__ import annotations


def _aten(overloads: str) -> tuple[str, ...]:
    return tuple(f"aten.{name}" for name in overloads.split())


def in_place(op: str) -> str:
    """`aten.relu.default` -> `aten.relu_.default`."""
    namespace, name, overload = op.split(".")
    return f"{namespace}.{name}_.{overload}"


_UNARY = _aten(
    "abs acos acosh asin asinh atan atanh bitwise_not ceil clamp cos cosh elu erf erfc exp expm1 floor gelu "
    "hardsigmoid hardswish hardtanh isfinite isinf isnan leaky_relu lgamma log log10 log1p log2 log_sigmoid "
    "logical_not mish nan_to_num neg reciprocal relu relu6 round rsqrt selu sgn sigmoid sign silu sin sinh "
    "softplus sqrt square tan tanh trunc"
)
ELEMENTWISE = (
    *(f"{op}.default" for op in _UNARY),
    *_aten(
        "add.Tensor add.Scalar sub.Tensor sub.Scalar rsub.Scalar mul.Tensor mul.Scalar div.Tensor div.Scalar "
        "div.Tensor_mode div.Scalar_mode true_divide.Tensor floor_divide.default floor_divide.Scalar remainder.Tensor "
        "remainder.Scalar fmod.Tensor fmod.Scalar pow.Tensor_Tensor pow.Tensor_Scalar pow.Scalar atan2.default "
        "maximum.default minimum.default fmax.default fmin.default max.other min.other "
        "eq.Tensor eq.Scalar ne.Tensor ne.Scalar lt.Tensor lt.Scalar le.Tensor le.Scalar gt.Tensor gt.Scalar "
        "ge.Tensor ge.Scalar logical_and.default logical_or.default logical_xor.default bitwise_and.Tensor "
        "bitwise_and.Scalar bitwise_or.Tensor bitwise_or.Scalar bitwise_xor.Tensor bitwise_xor.Scalar clamp.Tensor "
        "where.self where.ScalarSelf where.ScalarOther where.Scalar masked_fill.Scalar masked_fill.Tensor"
    ),
)
"""Every element of the result comes from the elements at its place."""

SAME_SHAPE = _aten(
    "alias.default clone.default contiguous.default detach.default _to_copy.default to.dtype zeros_like.default "
    "ones_like.default full_like.default"
)
"""The operand, or a value of its shape."""

REDUCTIONS = _aten(
    "sum.dim_IntList sum.default mean.dim mean.default amax.default amin.default prod.dim_int prod.default any.default "
    "any.dim any.dims all.default all.dim all.dims argmax.default argmin.default logsumexp.default"
)
ALONG = _aten(
    "_softmax.default _log_softmax.default softmax.int log_softmax.int cumsum.default cumprod.default "
    "logcumsumexp.default"
)
"""Elements along one axis meet."""

RESHAPES = _aten("reshape.default view.default _unsafe_view.default")
SQUEEZES = _aten("squeeze.dim squeeze.dims")
EXPANSIONS = _aten("expand.default broadcast_to.default")
FULL = _aten("full.default zeros.default ones.default")

VIEWS = (
    *_aten("alias.default detach.default view.default unsqueeze.default permute.default t.default transpose.int"),
    *_aten("slice.Tensor narrow.default select.int split.Tensor split_with_sizes.default unbind.int"),
    *SQUEEZES,
)
"""The result lies where the operand does."""

MAYBE_VIEWS = (
    *_aten("reshape.default flatten.using_ints contiguous.default to.dtype _unsafe_view.default"),
    *EXPANSIONS,
)
"""The result lies where the operand does, or is a copy, or cannot be written to: that may hang on the batch size."""

_DIVISIONS = _aten("floor_divide.default remainder.Tensor fmod.Tensor div.Tensor_mode")
REFUSING = (
    *_aten("index_select.default gather.default embedding.default one_hot.default"),
    *_DIVISIONS,
    *map(in_place, _DIVISIONS),
)
"""Some values are refused: an index outside, an integer division by zero."""
