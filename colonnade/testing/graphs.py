"""Small graphs for tests of passes: build, run a pass, compare the answers before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from colonnade.core.consts import Const
from colonnade.ir.graph import Graph, Node
from colonnade.ir.infer import infer
from colonnade.ir.interpret import interpret
from colonnade.ir.verify import verify
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.ops.graph.variable import Variable
from colonnade.ops.op import GraphOp, Value
from colonnade.passes.base import Log, Pass, run
from colonnade.testing.check_facts import check_facts


class Builder:
    """A graph under construction; numbers, lists and arrays among the operands become constants."""

    def __init__(self) -> None:
        self.store: dict[str, np.ndarray[Any, Any]] = {}
        self.graph = Graph(self.store)

    def input(self, key: str, dtype: str, *shape: int | str) -> Node:
        """An input; a dim that is a string is a symbol."""
        return self.graph.input(key, Placeholder(key, dtype, shape), source=key)

    def table(self, key: str, rows: int, embedding_dim: int, seed: int = 0) -> Node:
        """A variable of random rows."""
        value = np.random.default_rng(seed).standard_normal((rows, embedding_dim)).astype(np.float32)
        self.store[key] = value
        return self.graph.add(Variable(key, "float32", value.shape), source=key)

    def add(self, op: GraphOp, *args: Any) -> Node:
        """The op applied to nodes and constants (int32 where they are integers)."""
        return self.graph.add(op, *(a if isinstance(a, Node) else self.constant(a) for a in args), source=op.name)

    def item(self, node: Node, index: int) -> Node:
        """One output of a multi-output op."""
        return self.graph.item(node, index)

    def constant(self, value: Any) -> Node:
        """A constant."""
        array = np.asarray(value)
        if array.dtype == np.int64 and not isinstance(value, np.ndarray | np.generic):
            array = array.astype(np.int32)
        return self.graph.add(Constant(Const(array)), source="constant")

    def done(self, **outputs: Node) -> Graph:
        """The graph, with facts."""
        self.graph.set_outputs(outputs)
        infer(self.graph)
        verify(self.graph)
        return self.graph


def equal(a: Value, b: Value) -> bool:
    """Whether two values are the same, bit for bit (NaN equals NaN)."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return a.numpy().tobytes() == b.numpy().tobytes()
    return np.array_equal(np.asarray(a), np.asarray(b))


def check_passes(graph: Graph, passes: Sequence[Pass], feeds: Sequence[Mapping[str, Value]]) -> Log:
    """Run passes; after each, the answers to every feed must be the same, bit for bit, the graph sound, its facts true.

    Errors: AssertionError naming the pass and the output that differs.
    """
    before = [interpret(graph, feed) for feed in feeds]

    def observe(name: str, after: Graph) -> None:
        verify(after)
        for feed in feeds:
            check_facts(after, feed)
        for feed, expected in zip(feeds, before, strict=True):
            for key, value in interpret(after, feed).items():
                assert equal(value, expected[key]), f"{name} changes output {key!r}"

    return run(passes, graph, observe=observe)
