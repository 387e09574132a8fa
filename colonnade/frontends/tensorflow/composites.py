"""Sparse and ragged tensors of a signature as the plain tensors that a request feeds for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from colonnade.errors import ImportFailure, listed
from colonnade.frontends.tensorflow.functions import node_of
from colonnade.frontends.tensorflow.protos import Node as Source
from colonnade.frontends.tensorflow.protos import Shape, TensorInfo

INDICES, DENSE_SHAPE, ROW_SPLITS = "indices", "dense_shape", "row_splits"


def plain_inputs(inputs: Mapping[str, TensorInfo], nodes: Iterable[Source]) -> dict[str, TensorInfo]:
    """Each input of a signature under its key; of a sparse or ragged one the values.

    Facts: `KEY.indices` and `KEY.dense_shape` of a sparse tensor, `KEY.row_splits` of a ragged one are keys of their
    own. A sparse tensor of unknown rank is taken to be a matrix, values of a ragged one of unknown rank to be a
    vector: requests are held to that.
    Errors: ImportFailure where such a key is taken, or a composite tensor is neither.
    """
    if all(info.name for info in inputs.values()):
        return dict(inputs)
    shapes = {node.name: node.attrs.get("shape") for node in nodes if node.op.startswith("Placeholder")}
    found: dict[str, TensorInfo] = {}
    taken = []
    for key, info in inputs.items():
        for name, part in _parts(key, info, shapes):
            if name in found or (name != key and name in inputs):
                taken.append(name)
            found[name] = part
    if taken:
        raise ImportFailure(
            "inputs of the signature have the names of parts of a sparse or ragged one", got=listed(taken)
        )
    return found


def _parts(key: str, info: TensorInfo, shapes: Mapping[str, Shape]) -> Iterator[tuple[str, TensorInfo]]:
    if info.name:
        yield key, info
    elif info.sparse is not None:
        values, indices, shape = info.sparse
        yield key, TensorInfo(values, info.dtype, shapes.get(node_of(values), (None,)))
        rank = 2 if info.shape is None else len(info.shape)
        yield f"{key}.{INDICES}", TensorInfo(indices, "int64", (None, rank))
        yield f"{key}.{DENSE_SHAPE}", TensorInfo(shape, "int64", (rank,))
    else:
        values_part, *splits = info.components
        is_ragged = all(s.dtype in ("int32", "int64") and s.shape is not None and len(s.shape) == 1 for s in splits)
        if not splits or not is_ragged:
            raise ImportFailure("a composite tensor that is neither sparse nor ragged", where=f"signature key {key!r}")
        is_vectors = values_part.shape is None
        yield key, replace(values_part, shape=(None,)) if is_vectors else values_part
        for k, part in enumerate(splits):
            yield f"{key}.{ROW_SPLITS}" + (f"_{k}" if k else ""), part
