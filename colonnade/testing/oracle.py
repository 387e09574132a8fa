"""TensorFlow as the oracle: run a SavedModel as TensorFlow does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ColonnadeError, listed
from colonnade.testing.models.spec import TensorSpec
from colonnade.testing.tensorflow import tensorflow

Array = NDArray[Any]


class OracleError(ColonnadeError):
    """TensorFlow raised; the message is TensorFlow's own."""


class TensorFlowModel:
    """A SavedModel loaded into its own graph and session.

    Facts: TF1-style and TF2/Keras SavedModels; `signature=None` is `serving_default`, or the only one there is;
    `threads` sets both of TensorFlow's pools; the caller's default graph stays as it was. `optimize=False` runs the
    graph without TensorFlow's rewrites: slower calls, but the first one of a graph of 100,000 nodes comes at once.
    Errors: OracleError where TensorFlow cannot load or run the model, OptionError where TensorFlow is absent.
    """

    def __init__(
        self,
        path: str | Path,
        signature: str | None = None,
        tags: Sequence[str] = ("serve",),
        threads: int | None = None,
        optimize: bool = True,
    ) -> None:
        self._tf = tensorflow()
        self._where = f"SavedModel {path}"
        self._graph = self._tf.Graph()
        self._session = self._tf.compat.v1.Session(graph=self._graph, config=_config(self._tf, threads, optimize))
        self._callables: dict[tuple[tuple[str, ...], tuple[str, ...]], Callable[..., list[Array]]] = {}
        meta = self._load(str(path), list(tags))
        self._signature = self._choose(dict(meta.signature_def), signature)
        self._inputs = _plain(self._signature.inputs, self._graph)

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The signature's inputs, by name in order."""
        return _described(self._tf, self._inputs)

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The signature's outputs, by name in order."""
        return _described(self._tf, self._signature.outputs)

    def run(self, feed: Mapping[str, Array], fetches: Sequence[str] | None = None) -> dict[str, Array]:
        """The fetched tensors for one request.

        Facts: keys of `feed` are the signature's input names; `fetches` are tensor names of the graph (`node:0`), the
        keys of the answer; without them the answer has the signature's outputs.
        Errors: OracleError with TensorFlow's message where it raises, or where keys or tensors do not exist.
        """
        names = [each.name for each in self.outputs()] if fetches is None else list(fetches)
        keys = tuple(sorted(feed))
        arguments = [_as_fed(feed[key]) for key in keys]
        try:
            values = self.callable(keys, fetches)(*arguments)
        except (self._tf.errors.OpError, ValueError, TypeError, KeyError) as error:
            raise OracleError(_message(error), where=self._where) from error
        return {name: np.asarray(value) for name, value in zip(names, values, strict=True)}

    def callable(self, keys: Sequence[str], fetches: Sequence[str] | None = None) -> Callable[..., list[Array]]:
        """TensorFlow's own prepared call, for timing: from one array a key, in order, to one array a fetch.

        Facts: `fetches` as in `run`; made once for the same arguments; a call checks and converts nothing.
        Errors: OracleError where a key is not in the signature; KeyError or ValueError where a tensor does not exist.
        """
        if unknown := sorted(set(keys) - set(self._inputs)):
            wanted = listed(sorted(self._inputs))
            raise OracleError("no such input", where=self._where, got=listed(unknown), want=wanted)
        if fetches is None:
            fetches = [self._signature.outputs[each.name].name for each in self.outputs()]
        made = tuple(keys), tuple(fetches)
        if made not in self._callables:
            feeds = [self._graph.get_tensor_by_name(self._inputs[key].name) for key in keys]
            fetched = [self._graph.get_tensor_by_name(tensor) for tensor in fetches]
            self._callables[made] = self._session.make_callable(fetched, feed_list=feeds)
        return self._callables[made]

    def operands(self, node: str) -> tuple[str, ...]:
        """The names of the tensors that `node` takes, in order.

        Errors: OracleError where the graph has no such node.
        """
        try:
            return tuple(str(tensor.name) for tensor in self._graph.get_operation_by_name(node).inputs)
        except KeyError as error:
            raise OracleError(_message(error), where=self._where) from error

    def node_kinds(self) -> dict[str, str]:
        """The op of every node of the main graph, by node name."""
        return {operation.name: operation.type for operation in self._graph.get_operations()}

    def close(self) -> None:
        """Give back what the session holds."""
        self._session.close()

    def __enter__(self) -> TensorFlowModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _load(self, path: str, tags: list[str]) -> Any:
        try:
            with self._graph.as_default():
                return self._tf.compat.v1.saved_model.load(self._session, tags, path)
        except (self._tf.errors.OpError, OSError, RuntimeError, ValueError) as error:
            self.close()
            raise OracleError(_message(error), where=self._where) from error

    def _choose(self, signatures: dict[str, Any], wanted: str | None) -> Any:
        usable = {name: each for name, each in signatures.items() if each.outputs and not name.startswith("__")}
        if wanted is None:
            wanted = next(iter(usable)) if len(usable) == 1 else "serving_default"
        if wanted not in usable:
            self.close()
            raise OracleError("no such signature", where=self._where, got=wanted, want=listed(sorted(usable)))
        return usable[wanted]


def _config(tf: Any, threads: int | None, optimize: bool) -> Any:
    config = tf.compat.v1.ConfigProto()
    if threads is not None:
        config.intra_op_parallelism_threads = threads
        config.inter_op_parallelism_threads = threads
    if not optimize:
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1  # L0
    return config


def _plain(infos: Mapping[str, Any], graph: Any) -> dict[str, Any]:
    """The signature's inputs; of a sparse or ragged tensor its parts, under names made of its key."""
    found: dict[str, Any] = {}
    for key, info in infos.items():
        kind = info.WhichOneof("encoding")
        if kind == "name":
            found[key] = info
            continue
        if kind == "coo_sparse":
            sparse = info.coo_sparse
            parts = {"": sparse.values_tensor_name, ".indices": sparse.indices_tensor_name}
            parts[".dense_shape"] = sparse.dense_shape_tensor_name
        else:
            names = [part.name for part in info.composite_tensor.components]
            parts = {"": names[0], ".row_splits": names[1]}
            parts |= {f".row_splits_{k}": n for k, n in enumerate(names[2:], 1)}
        for suffix, name in parts.items():
            tensor = graph.get_tensor_by_name(name)
            made = type(info)(name=name, dtype=tensor.dtype.as_datatype_enum, tensor_shape=tensor.shape.as_proto())
            found[key + suffix] = made
    return found


def _described(tf: Any, infos: Mapping[str, Any]) -> tuple[TensorSpec, ...]:
    return tuple(_describe(tf, name, infos[name]) for name in sorted(infos))


def _describe(tf: Any, name: str, info: Any) -> TensorSpec:
    dtype = tf.as_dtype(info.dtype).name
    if info.tensor_shape.unknown_rank:
        return TensorSpec(name, dtype, None)
    return TensorSpec(name, dtype, tuple(None if dim.size < 0 else int(dim.size) for dim in info.tensor_shape.dim))


def _as_fed(value: Array) -> Array:
    # numpy's fixed-width bytes drop trailing NULs; an object array of bytes reaches TensorFlow as it is.
    return value.astype(object) if value.dtype.kind in "SU" else value


def _message(error: BaseException) -> str:
    text = str(getattr(error, "message", None) or error)
    # "Graph execution error", where Python defined the node (unknown for a loaded model), then what happened.
    return text.partition("\nNode: ")[2] or text
