"""`parse_example`: serialized Examples as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.examples import Feature, Lists, dense, indices, read_examples
from colonnade.core.facts import Facts, Order, Packed
from colonnade.errors import ShapeError
from colonnade.ops.graph._facts import want_dtype, want_rank
from colonnade.ops.graph._values import array, tensor
from colonnade.ops.op import GraphOp, Inferred, Value, fresh

SPARSE, RAGGED = ("sparse",), ("ragged",)
DENSE = ("dense", "steps", "padded")


@dataclass(frozen=True)
class ParseExample(GraphOp):
    """`(sparse indices .., sparse values .., sparse shapes .., dense values .., ragged values .., ragged splits ..)`.

    Each group has an output for every feature of that kind, in the order of `features`.
    Facts: rows of indices strictly increase and positions in a row count from 0; keys are distinct, but for padded
    ones.
    widths: by key, a name for the most values (or blocks) of a row; without one it is a size that only the data decide.
    Errors: FeedError that lists every Example with a feature that is absent, of another dtype or number of values.
    """

    features: tuple[Feature, ...]
    widths: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        keys = [f.key for f in self.features if f.kind != "padded"]
        if len(set(keys)) != len(keys):
            raise ShapeError("parse_example: a key is read twice", got=", ".join(sorted(keys)), want="distinct keys")

    @property
    def num_outputs(self) -> int:  # type: ignore[override]
        """How many tensors it makes: the only op whose attributes decide it."""
        return 3 * len(self.of(*SPARSE)) + len(self.of(*DENSE)) + 2 * len(self.of(*RAGGED))

    def of(self, *kinds: str) -> tuple[Feature, ...]:
        """The features of these kinds."""
        return tuple(f for f in self.features if f.kind in kinds)

    def place(self, output: int) -> tuple[Feature, str]:
        """The feature of an output and what it is: `indices`, `values`, `shape` or `splits`."""
        num_sparse, num_ragged = len(self.of(*SPARSE)), len(self.of(*RAGGED))
        for group, what in ((SPARSE, "indices"), (SPARSE, "values"), (SPARSE, "shape"), (DENSE, "values")):
            found = self.of(*group)
            if output < len(found):
                return found[output], what
            output -= num_sparse if group is SPARSE else len(found)
        what, k = ("values", output) if output < num_ragged else ("splits", output - num_ragged)
        return self.of(*RAGGED)[k], what

    def renamed(self, names: Mapping[str, str]) -> ParseExample:
        """The same op with other names of dims."""
        return replace(self, widths=tuple((key, names.get(width, width)) for key, width in self.widths))

    def infer(self, *args: Facts) -> Inferred:
        """One row an Example; the data decide how many values a row has."""
        (serialized,) = args
        want_dtype("parse_example", serialized, ("string",))
        want_rank("parse_example", serialized, 1)
        num = len(self.features)
        rows = serialized.shape[0] if serialized.shape is not None else fresh(2 * num)
        named = dict(self.widths)
        made: dict[tuple[int, str], Facts] = {}
        for k, feature in enumerate(self.features):
            most = dims.symbol(named[feature.key]) if feature.key in named else fresh(2 * k + 1)
            for what, known in _outputs(feature, rows, fresh(2 * k), most).items():
                made[k, what] = known
        places = (self.place(output) for output in range(self.num_outputs))
        return Inferred(tuple(made[self.features.index(feature), what] for feature, what in places))

    def reference(self, *args: Value) -> Value | tuple[Value, ...]:
        """By the reader of one Example at a time."""
        read = read_examples(array(args[0]).tolist(), self.features)
        by_feature = {f: _values(lists, f) for f, lists in zip(self.features, read, strict=True)}
        places = (self.place(output) for output in range(self.num_outputs))
        found = tuple(by_feature[feature][what] for feature, what in places)
        return found[0] if len(found) == 1 else found


def _outputs(feature: Feature, rows: Dim, count: Dim, most: Dim) -> dict[str, Facts]:
    """The facts of a feature's outputs by what they are."""
    if feature.kind in DENSE:
        shape = (rows, most, *feature.shape) if feature.kind == "steps" else (rows, *feature.shape)
        return {"values": facts.facts(feature.dtype, shape)}
    values = facts.facts(feature.dtype, (count,))
    if feature.kind == "ragged":
        splits = facts.facts(feature.splits, (dims.add(rows, 1),), lo=0, order=Order.NONDECREASING)
        return {"values": values, "splits": splits}
    hi = rows - 1 if isinstance(rows, int) else None
    row = facts.facts("int64", (count,), lo=0, hi=hi, order=Order.NONDECREASING)
    packed = Packed(1, (row, facts.facts("int64", (count,), lo=0)))
    found = facts.facts("int64", (count, 2), lo=0, order=Order.STRICT, distinct=True, packed=packed)
    return {"indices": found, "values": values, "shape": facts.facts("int64", (2,), content=(rows, most))}


def _values(lists: Lists, feature: Feature) -> dict[str, Value]:
    """The values of a feature's outputs by what they are."""
    if feature.kind in DENSE:
        return {"values": tensor(dense(lists, feature))}
    if feature.kind == "ragged":
        return {"values": tensor(lists.values), "splits": torch.from_numpy(lists.offsets.astype(feature.splits))}
    found, shape = indices(lists)
    return {"indices": torch.from_numpy(found), "values": tensor(lists.values), "shape": torch.from_numpy(shape)}
