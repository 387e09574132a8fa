"""Reads what a tensor of ids is made of: an expression over the elements of input fields, and which elements.

Which they are a domain says: see `domains.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from types import UnionType

import numpy as np
import torch

from colonnade.core import dims, facts
from colonnade.core.consts import Const
from colonnade.core.dims import Dim
from colonnade.core.examples import Feature
from colonnade.core.expr import Apply, Expr, Field, fields_of, walk
from colonnade.core.facts import Shape, Term
from colonnade.ir.decoded import Names
from colonnade.ir.element_facts import element_facts
from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ir.padded import PADDING, padded
from colonnade.ops.add_position import AddPosition
from colonnade.ops.at_least import AtLeast
from colonnade.ops.at_most import AtMost
from colonnade.ops.cast import BOUNDS, DTYPES, Cast
from colonnade.ops.clip import Clip
from colonnade.ops.graph._on_host import OnHost
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.floor_mod import FloorMod
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.logical_and import LogicalAnd
from colonnade.ops.graph.logical_not import LogicalNot
from colonnade.ops.graph.logical_or import LogicalOr
from colonnade.ops.graph.maximum import Maximum
from colonnade.ops.graph.minimum import Minimum
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.rows_to_dense import RowsToDense
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.sparse_cross import SparseCross
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.string_split import StringSplit
from colonnade.ops.graph.where import Where
from colonnade.ops.greater import Greater
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.join_hash import JoinHash
from colonnade.ops.mod import Mod
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.op import ElementFacts, FilterOp, GraphOp, MapOp, PositionOp, Value
from colonnade.ops.or_else import OrElse
from colonnade.ops.replace_outside import ReplaceOutside
from colonnade.ops.seed_hash import SeedHash
from colonnade.ops.split import Split
from colonnade.ops.vocabulary import Vocabulary
from colonnade.ops.wrap_negative import WrapNegative
from colonnade.passes.base import Reject
from colonnade.passes.chosen import by_place, chosen_name, joins_deep, renamed
from colonnade.passes.domains import Aligned, Chosen, Dense, Domain, Elements, Kept, Lists, Open, Padded, Tokens
from colonnade.passes.host_strings import name_of, strings_of
from colonnade.passes.indices import column_of
from colonnade.passes.places import TAKING, Places, of_places, places_of
from colonnade.passes.splat import splat, whole

LEAST, MOST = -(2**63), 2**63 - 1
MOST_JOINS = 2
"""Operands within each other that every backend joins."""
_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True)
class _Outside:
    """`expr` lies outside lo .. hi."""

    expr: Expr
    domain: Domain
    lo: int
    hi: int


class Reader:
    """Reads nodes; remembers what it read."""

    def __init__(self, names: Names | None = None, aligned: Aligned | None = None, taken: Container[str] = ()) -> None:
        self.fields: dict[str, Node] = {}
        self.chosen: dict[str, tuple[int, bool]] = {}
        """Names of fields of choices -> which of the fields it is that are chosen among, and whether it is places."""
        self.roots: dict[str, Dense | Open | Lists | Tokens] = {}
        """Names of fields of choices -> how the elements that are chosen among lie in rows."""
        self.places: dict[str, Places] = {}
        self.made: dict[str, Expr] = {}
        self._names = names or {}
        self._aligned = aligned
        self._taken = taken
        self._read: dict[Node, Elements | Reject] = {}

    def elements(self, node: Node) -> Elements | Reject:
        """The elements of a tensor, or why it is not made of elements of input fields."""
        found = self._read.get(node)
        if found is None:
            found = self._read[node] = self._elements(node)
        return found

    def _elements(self, node: Node) -> Elements | Reject:
        base, output = item_of(node)
        op = op_of(base)
        if isinstance(op, (Placeholder, *PADDING)):
            return self._given(node, op)
        if isinstance(op, ParseExample) and (base, op.place(output)[0]) in self._names:
            return self._decoded(base, op, output, node)
        if isinstance(op, RaggedInput) and 0 < output <= op.num_values:
            return self._listed(base, op, output, node)
        if isinstance(op, StringSplit) and output == 1:
            return self._tokens(base, op)
        if isinstance(op, SparseCross) and output == 1:
            return self._crossed(base, op)
        if isinstance(op, OnHost):
            return self._made(node)
        if isinstance(op, TAKING) and (places := places_of(node)) is not None:
            return self._placed(places)
        return self._of_tensors(base)

    def _of_tensors(self, node: Node) -> Elements | Reject:
        """By the op, of those whose operands are tensors of elements."""
        kinds: tuple[tuple[type | UnionType, Callable[[Node], Elements | Reject]], ...] = (
            (Reshape | ExpandDims | Squeeze, self._reshaped),
            (StridedSlice, self._sliced),
            (Gather, self._retained),
            (GatherNd, self._gathered),
            (Select, self._selected),
            (Add, self._added),
            (FloorMod, self._remainder),
            (Maximum | Minimum, self._bounded),
            (SparseToDense, self._filled),
            (RowsToDense, self._padded),
        )
        read = next((read for kind, read in kinds if isinstance(node.target, kind)), self._applied)
        return read(node)

    def _decoded(self, parse: Node, op: ParseExample, output: int, node: Node) -> Elements | Reject:
        feature, what = op.place(output)
        name = self._names[parse, feature]
        if what != "values":
            return Reject(f"ids are the {what} of feature {feature.key!r}, not its values")
        if feature.kind == "sparse":
            rows = facts_of(args_of(parse)[0]).shape
            if not rows or not dims.is_symbol(rows[0]):
                return Reject(f"the number of Examples of feature {feature.key!r} is no batch")
            found: Elements | Reject = Elements(Field(name), Lists(rows[0], parse, self._leading(parse, feature)))
        else:
            found = _field(name, node)
        self.fields[name] = node
        return found

    def _listed(self, base: Node, op: RaggedInput, output: int, node: Node) -> Elements | Reject:
        source = args_of(base)[op.first_value + output - 1]
        rows = self._ragged_rows(base)
        if not isinstance(source.target, Placeholder):
            return Reject("values of rows that differ in length are no input")
        if rows is None:
            return Reject("the number of rows is not known from the request")
        self.fields[source.target.key] = node
        return Elements(Field(source.target.key), Lists(rows, base))

    def _given(self, node: Node, op: GraphOp) -> Elements | Reject:
        """An input, as it is or padded."""
        if isinstance(op, Placeholder):
            self.fields[op.key] = node
            return _field(op.key, node)
        found = padded(node, self._names)
        shape = facts_of(node).shape
        if found is None:
            return Reject("places are those of rows that are no input")
        if not shape or dims.from_data(shape[0]):
            return Reject("the number of places is not known from the request")
        self.fields[found.name] = node
        return Elements(Field(found.name), Dense(shape[0], 1))

    def _ragged_rows(self, base: Node) -> Dim | None:
        """The number of rows, where every request tells it."""
        known = base.meta["facts"][-1].values
        return known[0] if known is not None and dims.is_symbol(known[0]) and not dims.from_data(known[0]) else None

    def _leading(self, parse: Node, feature: Feature) -> Feature:
        """The feature that a feature's rows are as long as."""
        aligned = self._aligned
        follows = aligned is not None and aligned.parse is parse and aligned.follower == feature
        return aligned.leader if aligned is not None and follows else feature

    def _reshaped(self, node: Node) -> Elements | Reject:
        x = args_of(node)[0]
        if facts_of(x).size is None or facts_of(x).size != facts_of(node).size:
            return Reject(f"a reshape from {facts_of(x).shape} to {facts_of(node).shape} may fail: it stays")
        return self.elements(x)

    def _sliced(self, node: Node) -> Elements | Reject:
        """`x[:, None]`, and `x[:, 0]` of rows of one element: all of them, in order."""
        op, (x, begin, _, strides) = op_of(node), args_of(node)
        if isinstance(op, StridedSlice) and op.is_whole([facts_of(a).values for a in args_of(node)[1:]]):
            return self._reshaped(node)
        size, first, steps = facts_of(x).size, facts_of(begin).ints, facts_of(strides).ints
        if first is None or steps is None or any(s != 1 for s in steps) or size is None or size != facts_of(node).size:
            return Reject("ids are cut out of a tensor by a slice that does not provably keep all of it in order")
        return self.elements(x)

    def _made(self, node: Node) -> Elements | Reject:
        """Strings that the host makes of inputs."""
        expr = strings_of(node, _key)
        if isinstance(expr, Reject):
            return expr
        base = name_of(expr)
        name = next(
            n for k in itertools.count(1) if self.made.get(n := base if k == 1 else f"{base}#{k}", expr) is expr
        )
        if name in self._taken:
            return Reject(f"an input has the name {name!r} of strings that are made of others")
        read = _field(name, node)
        if isinstance(read, Reject):
            return read
        self.fields[name], self.made[name] = node, expr
        return read

    def _placed(self, places: Places) -> Elements | Reject:
        """Some places of each row: what the matrix is made of, over the same places of its fields."""
        read = self.elements(places.matrix)
        if isinstance(read, Reject):
            return read
        shape, domain = facts_of(places.matrix).shape, read.domain
        if shape is not None and (places.start, places.stop) == (0, shape[1]):
            return read
        fields = {name: self.fields[name] for name in fields_of(read.expr)}
        if not isinstance(domain, Dense) or (domain.rows, domain.width) != shape:
            return Reject("places are taken of rows that are not all places of a matrix")
        if any(facts_of(node).shape != shape or not isinstance(node.target, Placeholder) for node in fields.values()):
            return Reject("places are taken of what is made of other inputs than matrices of that shape")
        expr = of_places(read.expr, places)
        if expr is None:
            return Reject("places are taken of ids that depend on their places")
        made_names = [places.field(name) for name in fields]
        if taken := [name for name in made_names if name in self._taken]:
            return Reject(f"an input has the name {taken[0]!r} of places of another")
        for made, node in zip(made_names, fields.values(), strict=True):
            self.fields[made], self.places[made] = node, replace(places, matrix=node)
        return Elements(expr, Dense(domain.rows, places.stop - places.start))

    def _applied(self, node: Node) -> Elements | Reject:
        op = op_of(node)
        assert op is not None
        if op.num_outputs != 1:
            return Reject(f"ids go through {op.name}, which is no column op")
        read = []
        for arg in args_of(node):
            elements = self.elements(arg) if arg is not node else Reject("a cycle")
            if isinstance(elements, Reject):
                return elements
            if facts_of(arg).shape is None or facts_of(arg).shape != facts_of(node).shape:
                return Reject(f"an operand of {op.name} is broadcast")
            read.append(elements)
        if not read:
            return Reject(f"ids depend on {op.name}, which is not an input")
        expr = op.elementwise(*(e.expr for e in read))
        if expr is None:
            return Reject(f"ids go through {op.name}, which is no column op")
        if any(e.domain != read[0].domain for e in read[1:]):
            return Reject(f"the operands of {op.name} are not proven to line up element by element")
        return Elements(expr, read[0].domain)

    def _tokens(self, node: Node, op: StringSplit) -> Elements | Reject:
        parent = self.elements(args_of(node)[0])
        if isinstance(parent, Reject):
            return parent
        return Elements(Apply(Split(op.separator), parent.expr), _tokens(node, op, parent))

    def _padded(self, node: Node) -> Elements | Reject:
        """Values that say their rows, the batch's, and what stands behind them."""
        op, (rows, values, default, _) = op_of(node), args_of(node)
        assert isinstance(op, RowsToDense)
        read, height = self.elements(values), facts_of(node).shape
        if isinstance(read, Reject):
            return read
        if op.width is not None:
            return Reject("rows are cut to, or padded to, a number of places of their own: leave the shape open")
        root = read.domain
        while isinstance(root, Kept | Tokens):
            root = root.parent
        reason = self.rows_reason(rows, read.domain)
        if reason is not None or isinstance(root, Chosen | Padded) or not height or height[0] != root.rows:
            return Reject(reason or "padded rows are not proven to be the batch's")
        if whole(default) is None:
            return Reject("what stands behind rows is not one constant")
        return Elements(read.expr, Padded(read.domain, node))

    def padding(self, expr: Expr, domain: Padded) -> Value | None:
        """What an expression is behind a row, one element; None where that is not known."""
        _, values, default, _ = args_of(domain.source)
        read, value = self.elements(values), whole(default)
        if isinstance(read, Reject) or value is None:
            return None
        return at(expr, read.expr, one_of(value, facts_of(values).dtype))

    def kept_of(self, domain: Domain, masks: tuple[Expr, ...]) -> Kept | Reject:
        """The elements that masks keep; of padded rows, those without what is behind them."""
        if not isinstance(domain, Padded):
            return Kept(domain, masks)
        behind = [self.padding(mask, domain) for mask in masks]
        if not any(x is not None and not bool(x[0]) for x in behind):
            return Reject("the mask is not proven to drop what rows are padded with, as many as the longest row wants")
        return Kept(domain.parent, masks)

    def _retained(self, node: Node) -> Elements | Reject:
        """`gather(values, reshape(where(mask)), axis 0)`: the values that the mask keeps."""
        values, indices, axis = args_of(node)
        op = op_of(node)
        assert isinstance(op, Gather)
        if facts_of(values).rank != 1 or facts_of(axis).integer != 0 or op.batch_dims:
            return Reject("ids are gathered, but not from a vector by the indices of a mask")
        mask = _mask_behind(indices)
        if mask is None or facts_of(mask).rank != 1:
            return Reject("ids are gathered by something else than the indices of a mask")
        return self._kept(values, mask)

    def _gathered(self, node: Node) -> Elements | Reject:
        """`gather_nd(values, where(mask))` with a mask over every axis of the values."""
        values, indices = args_of(node)
        mask = _mask_behind(indices, through_reshape=False)
        if mask is None or facts_of(mask).shape is None or facts_of(mask).shape != facts_of(values).shape:
            return Reject("ids are gathered by something else than the indices of a mask over all their elements")
        return self._kept(values, mask)

    def _kept(self, values: Node, mask: Node) -> Elements | Reject:
        read = self.elements(values)
        if isinstance(read, Reject):
            return read
        masks = self.masks(mask)
        if isinstance(masks, Reject):
            return masks
        exprs, domain = masks
        if domain != read.domain:
            return Reject("the mask is not proven to be over the same elements as the values")
        kept = self.kept_of(read.domain, exprs)
        return kept if isinstance(kept, Reject) else Elements(read.expr, kept)

    def masks(self, mask: Node) -> tuple[tuple[Expr, ...], Domain] | Reject:
        """A bool tensor as predicates that must all hold, and their domain."""
        op = op_of(mask)
        if isinstance(op, LogicalAnd):
            return self._both(mask)
        if isinstance(op, Reshape | ExpandDims | Squeeze):
            x = args_of(mask)[0]
            same = facts_of(x).size is not None and facts_of(x).size == facts_of(mask).size
            return self.masks(x) if same else Reject("the mask is reshaped to what is not proven to be its size")
        if not isinstance(op, Compare):
            return Reject(f"the mask is made by {op.name if op else mask}, which is no column filter")
        x, other = args_of(mask)
        value = whole(other)
        if facts_of(x).dtype == "float32":
            return self._floats_above(mask, op)
        if value is None:
            return Reject("the mask compares with something that is not one constant")
        if facts_of(mask).shape != facts_of(x).shape:
            return Reject("the mask's comparison broadcasts its operand")
        read = self.elements(x)
        if isinstance(read, Reject):
            return read
        predicate = _predicate(op.kind, value, facts_of(x).dtype)
        return predicate if isinstance(predicate, Reject) else ((Apply(predicate, read.expr),), read.domain)

    def _both(self, mask: Node) -> tuple[tuple[Expr, ...], Domain] | Reject:
        """Two masks of which both must hold; one that is proven to is left out."""
        for part, rest in (args_of(mask), args_of(mask)[::-1]):
            if facts_of(part).lo == 1 and self._line_up(facts_of(part).shape, facts_of(rest).shape):
                read = self.masks(rest)
                if facts_of(rest).lo != 1 or not isinstance(read, Reject):
                    return read
        a, b = (self.masks(m) for m in args_of(mask))
        if isinstance(a, Reject) or isinstance(b, Reject):
            return a if isinstance(a, Reject) else b
        if a[1] != b[1]:
            return Reject("two parts of a mask are over different elements")
        return a[0] + b[0], a[1]

    def _line_up(self, a: Shape | None, b: Shape | None) -> bool:
        """Whether two vectors have one length, for certain or because their features are held to it."""
        if a is None or b is None or len(a) != 1 or len(b) != 1:
            return False
        return a == b or (self._aligned is not None and {a[0], b[0]} <= self._aligned.lengths)

    def _floats_above(self, mask: Node, op: Compare) -> tuple[tuple[Expr, ...], Domain] | Reject:
        """`x > bound` on floats."""
        x, other = args_of(mask)
        bound = splat(other)
        if op.kind != "gt" or bound is None or facts_of(mask).shape != facts_of(x).shape:
            return Reject(f"the mask compares floats by {op.kind}, which is no column filter")
        read = self.elements(x)
        if isinstance(read, Reject):
            return read
        return (Apply(Greater(float(bound), op.flush_denormals), read.expr),), read.domain

    def _selected(self, node: Node) -> Elements | Reject:
        """`select(x outside an interval, default, x)` or `select(x inside it, x, default)`, or one value set apart."""
        cond, default, x = args_of(node)
        if isinstance(compare := op_of(cond), Compare) and compare.kind in ("eq", "ne"):
            return self._set_apart(node, compare.kind)
        negated = whole(default) is None and whole(x) is not None
        if negated:
            default, x = x, default
        if facts_of(x).shape is None or facts_of(x).shape != facts_of(node).shape:
            return Reject("the operands of a select are broadcast")
        read = self.elements(x)
        outside = read if isinstance(read, Reject) else self._outside(cond, facts_of(x).shape, negated)
        if isinstance(read, Reject) or isinstance(outside, Reject):
            return outside  # type: ignore[return-value]
        if (outside.expr, outside.domain) != (read.expr, read.domain):
            return Reject("the condition of a select is not proven to be about the ids that it keeps")
        if isinstance(default.target, Add) and not negated:
            return self._wrapped(node, read, outside)
        value = whole(default)
        if not isinstance(value, int):
            return Reject("a select puts something else than one integer in the place of ids")
        return Elements(Apply(ReplaceOutside(outside.lo, outside.hi, value), read.expr), read.domain)

    def _set_apart(self, node: Node, kind: str) -> Elements | Reject:
        """`select(x == key, value, ids + added)`, the ids of the same elements as x."""
        cond, yes, no = args_of(node)
        x, marker = args_of(cond)
        hit, ids = (yes, no) if kind == "eq" else (no, yes)
        key, value = whole(marker), whole(hit)
        shape = facts_of(node).shape
        if ids is x and key == -1 and shape is not None and facts_of(hit).shape == facts_of(x).shape == shape:
            read = self.elements(x)
            return read if isinstance(read, Reject) else self._or_else(read, hit)
        if key is None or not isinstance(value, int) or value < 0 or facts_of(ids).dtype != "int64":
            return Reject("a select on equality sets no value apart")
        if shape is None or any(facts_of(n).shape != shape for n in (x, ids)):
            return Reject("the operands of a select are broadcast")
        keyed = self.elements(x)
        if isinstance(keyed, Reject):
            return keyed
        keys, values = np.array([key], object if isinstance(key, bytes) else np.int64), np.array([value])
        looked_up = keyed.expr if facts_of(x).dtype in ("string", "int64") else Apply(Cast("int64"), keyed.expr)
        apart = Apply(Vocabulary(Const(keys), Const(values), -1), looked_up)
        return self._or_else(Elements(apart, keyed.domain), ids)

    def _or_else(self, first: Elements, other: Node) -> Elements | Reject:
        """What is not -1, else the other ids, `ids + added`, of the same elements."""
        ids, added = other, 0
        if isinstance(other.target, Add) and isinstance(moved := whole(args_of(other)[1]), int):
            ids, added = args_of(other)[0], moved
        read = self.elements(ids)
        if isinstance(read, Reject):
            return read
        if read.domain != first.domain or facts_of(ids).shape != facts_of(other).shape or _joins(read.expr):
            return Reject("a value is set apart of what is not proven to be the same elements of one field")
        known, others = self._known(first), self._known(read)
        if (known.dtype, others.dtype, known.lo) != ("int64", "int64", -1) or not _sum_fits(others, added):
            return Reject("a value is set apart of ids that may be negative, or whose sum may not fit int64")
        return Elements(Apply(OrElse(added), first.expr, read.expr), read.domain)

    def _element_facts(self, expr: Expr) -> ElementFacts:
        return element_facts(expr, self.dtypes())

    def _known(self, read: Elements) -> ElementFacts:
        """What is known of elements, of what is behind rows too where they are padded."""
        known = self._element_facts(read.expr)
        if not isinstance(read.domain, Padded) or known.dtype == "string":
            return known
        behind = self.padding(read.expr, read.domain)
        if behind is None or known.lo is None or known.hi is None:
            return replace(known, lo=None, hi=None)
        return replace(known, lo=min(known.lo, int(behind[0])), hi=max(known.hi, int(behind[0])))

    def _wrapped(self, node: Node, read: Elements, outside: _Outside) -> Elements | Reject:
        """`select(x < 0, x + size, x)`: a negative id counts from the end."""
        _, moved, x = args_of(node)
        one, other = args_of(moved)
        size = whole(other) if one is x else whole(one) if other is x else None
        most = BOUNDS.get(facts_of(x).dtype, (0, -1))[1]
        if not isinstance(size, int) or (outside.lo, outside.hi) != (0, MOST) or not 0 <= size <= most:
            return Reject("a select puts something else than a default or ids from the end in the place of ids")
        known = self._known(read)
        proven = known.lo is not None and known.lo >= 0
        return read if proven else Elements(Apply(WrapNegative(size), read.expr), read.domain)

    def _crossed(self, node: Node, op: SparseCross) -> Elements | Reject:
        """Hashes of at most one feature a row of each operand; a row that lacks one has none."""
        sparse, dense = op.split(args_of(node))
        reads = [self._of_matrix(*parts) for parts in sparse] + [self.elements(x) for x in dense]
        found: list[Elements] = []
        for read in reads:
            if isinstance(read, Reject):
                return read
            found.append(read)
        together = self._together(found)
        if isinstance(together, Reject):
            return together
        exprs, domain = together
        words: list[Expr] = [
            Apply(HashBytes(), expr) if facts_of(x).dtype == "string" else expr
            for expr, x in zip(exprs, [*(values for _, values, _ in sparse), *dense], strict=True)
        ]
        first, *others = words
        if joins_deep(first) > MOST_JOINS or any(joins_deep(word) >= MOST_JOINS for word in others):
            return Reject("a cross combines what is made of several features itself")
        expr: Expr = Apply(SeedHash(op.hash_key), first)
        for word in others:
            expr = Apply(JoinHash(), expr, word)
        return Elements(Apply(Mod(op.num_buckets), expr), domain)

    def _together(self, reads: list[Elements]) -> tuple[list[Expr], Domain] | Reject:
        """Values of each operand for each choice of one of each in a row, and the domain of the choices."""
        roots: list[Dense | Lists | Tokens] = []
        masks: list[list[Expr]] = []
        for read in reads:
            domain = read.domain
            found: list[Expr] = []
            while isinstance(domain, Kept):
                found[:0] = domain.masks
                domain = domain.parent
            if not isinstance(domain, Dense | Lists) and not (isinstance(domain, Tokens) and _by_row(domain)):
                return Reject("a cross combines features that are neither dense, nor lists or tokens of a row")
            roots.append(domain)
            masks.append(found)
        if len(set(map(_row_count, roots))) != 1:
            return Reject("the operands of a cross are not proven to be of the same rows")
        if len(set(roots)) == 1 and isinstance(roots[0], Dense) and roots[0].width == 1:
            kept = tuple(dict.fromkeys(m for some in masks for m in some))
            return [read.expr for read in reads], Kept(roots[0], kept) if kept else roots[0]
        return self._choices(reads, roots, masks)

    def _choices(
        self, reads: list[Elements], roots: list[Dense | Lists | Tokens], masks: list[list[Expr]]
    ) -> tuple[list[Expr], Domain] | Reject:
        """The same where an operand may have several values a row."""
        made = [(read.expr, *found) for read, found in zip(reads, masks, strict=True)]
        fields = [{name for e in parts for name in fields_of(e)} for parts in made]
        if any(len(names) != 1 for names in fields):
            return Reject("a feature of a cross is made of several inputs")
        placed = [any(map(by_place, parts)) for parts in made]
        if any(p and not isinstance(root, Dense) for p, root in zip(placed, roots, strict=True)):
            return Reject("a feature of a cross depends on places in rows that differ in length")
        among = tuple(name for names in fields for name in names)
        if any(name in self.made or name in self.places for name in among):
            return Reject("a feature of a cross is made of what is no input")
        splits = tuple(_separator(root) for root in roots)
        splits = splits if any(splits) else ()
        kept: list[Expr] = []
        exprs: list[Expr] = []
        for k, (read, root, found) in enumerate(zip(reads, roots, masks, strict=True)):
            name, number = chosen_name(among, splits, k), chosen_name(among, splits, k, numbered=True)
            self._choose(name, k, among[k], root)
            if placed[k]:
                self.fields[number], self.chosen[number] = self.fields[among[k]], (k, True)
            exprs.append(renamed(read.expr, name, number))
            kept += [renamed(mask, name, number) for mask in found]
        domain = Chosen(_row_count(roots[0]), among, splits)
        return exprs, Kept(domain, tuple(dict.fromkeys(kept))) if kept else domain

    def _choose(self, name: str, place: int, of: str, root: Dense | Open | Lists | Tokens) -> None:
        self.fields[name], self.roots[name], self.chosen[name] = self.fields[of], root, (place, False)

    def dtypes(self) -> dict[str, str]:
        """The dtype of each field that was read."""
        places = {name for name, (_, is_place) in self.chosen.items() if is_place}
        return {name: "int64" if name in places else facts_of(field).dtype for name, field in self.fields.items()}

    def in_rows(self, read: Elements) -> Elements | Reject:
        """The same of rows whose width a request tells, to be pooled: each element is a choice among its row's."""
        masks: list[Expr] = []
        domain = read.domain
        while isinstance(domain, Kept):
            masks[:0] = domain.masks
            domain = domain.parent
        parts = (read.expr, *masks)
        fields = tuple(dict.fromkeys(name for e in parts for name in fields_of(e)))
        if not isinstance(domain, Open) or len(fields) != 1 or any(map(by_place, parts)):
            return Reject("rows of no fixed width are pooled that are not all elements of one field")
        if not isinstance(self.fields[fields[0]].target, Placeholder):
            return Reject("rows of no fixed width are pooled that are no input")
        name = chosen_name(fields, (), 0)
        self._choose(name, 0, fields[0], domain)
        made: Domain = Chosen(domain.rows, fields)
        if masks:
            made = Kept(made, tuple(renamed(mask, name, "") for mask in masks))
        return Elements(renamed(read.expr, name, ""), made)

    def _of_matrix(self, indices: Node, values: Node, shape: Node) -> Elements | Reject:
        """The values of a sparse matrix, whose rows are proven to be the batch's."""
        read, domain = self.elements(values), self._matrix_domain(indices)
        if isinstance(read, Reject):
            return read
        if isinstance(domain, Reject):
            return domain
        sizes, root = facts_of(shape).values, domain
        while isinstance(root, Kept | Tokens):
            root = root.parent
        if isinstance(root, Chosen | Padded):
            return Reject("a cross of crosses, or of padded rows, is not understood")
        if domain != read.domain or not sizes or sizes[0] != root.rows:
            return Reject("row numbers and features are not proven to be of the same elements")
        return read

    def _added(self, node: Node) -> Elements | Reject:
        """`x + stride * place`: ids of several elements a row, each with its own part of the table."""
        reason = "ids are added to what is not known to count the places in a row"
        for x, other in (args_of(node), reversed(args_of(node))):
            content = facts.as_indexed(facts_of(other))
            if content is None or facts_of(x).shape != facts_of(node).shape or facts_of(x).dtype not in facts.INTEGER:
                continue
            read = self.elements(x)
            if isinstance(read, Reject):
                return read
            if not isinstance(read.domain, Dense) or facts_of(x).size != read.domain.size:
                return Reject("places are added to ids of which some were dropped")
            stride = _stride(content, read.domain, facts_of(x).size)
            if stride is None or not self._fits(facts_of(x), stride, read.domain.width):
                return Reject(f"{reason}, or the sum may not fit {facts_of(x).dtype}")
            return Elements(Apply(AddPosition(stride, read.domain.width), read.expr), read.domain)
        return Reject(reason)

    def _remainder(self, node: Node) -> Elements | Reject:
        """`ids % n`, n one positive integer: never negative."""
        x, other = args_of(node)
        divisor, dtype = whole(other), facts_of(x).dtype
        if not isinstance(divisor, int) or divisor < 1 or dtype not in ("int32", "int64"):
            return Reject("ids are a remainder by what is not one positive integer")
        if facts_of(x).shape is None or facts_of(x).shape != facts_of(node).shape:
            return Reject("the ids of a remainder are broadcast")
        read = self.elements(x)
        if isinstance(read, Reject):
            return read
        expr = read.expr if dtype == "int64" else Apply(Cast("int64"), read.expr)
        lo, none = self._known(Elements(expr, read.domain)).lo, Const(np.zeros(0, np.int64))
        signed = lo is None or lo < 0
        op = Vocabulary(none, none, 0, divisor, "floor_mod") if signed else Mod(divisor)
        made = Apply(op, expr)
        return Elements(made if dtype == "int64" else Apply(Cast("int32"), made), read.domain)

    def _bounded(self, node: Node) -> Elements | Reject:
        """`maximum(ids, n)` or `minimum(ids, n)`, n one integer."""
        op = op_of(node)
        for x, other in (args_of(node), args_of(node)[::-1]):
            bound, dtype = whole(other), facts_of(x).dtype
            if not isinstance(bound, int) or dtype not in ("int32", "int64"):
                continue
            if facts_of(x).shape is None or facts_of(x).shape != facts_of(node).shape:
                return Reject("the ids that are held to a bound are broadcast")
            read = self.elements(x)
            if isinstance(read, Reject):
                return read
            expr = read.expr if dtype == "int64" else Apply(Cast("int64"), read.expr)
            made = Apply(Clip(bound, MOST) if isinstance(op, Maximum) else Clip(LEAST, bound), expr)
            return Elements(made if dtype == "int64" else Apply(Cast("int32"), made), read.domain)
        return Reject("ids are held to what is not one integer")

    def _filled(self, node: Node) -> Elements | Reject:
        """`sparse_to_dense(where(x != key), shape, ids, default)`: the ids of the elements kept, else the default."""
        indices, shape, values, default = args_of(node)
        if not isinstance(indices.target, Where) or facts_of(shape).values is None:
            return Reject("ids are put in places that are not those of a mask")
        (mask,), fill, dtype = args_of(indices), whole(default), facts_of(values).dtype
        if facts_of(mask).shape != facts_of(shape).values:
            return Reject("ids are spread over another shape than that of the mask which kept them")
        if not isinstance(fill, int) or fill < 0 or dtype not in ("int32", "int64"):
            return Reject("places without an id are filled with what is no id")
        read, found = self.elements(values), self.masks(mask)
        if isinstance(read, Reject) or isinstance(found, Reject):
            return read if isinstance(read, Reject) else found  # type: ignore[return-value]
        masks, domain = found
        if read.domain != Kept(domain, masks):
            return Reject("the ids are not proven to be those of the elements that the mask keeps")
        (first, *others) = masks
        if others or not isinstance(first, Apply) or not isinstance(first.op, NotEqual) or _joins(read.expr):
            return Reject("places without an id are not those of one value, or ids are made of several fields")
        key, (x,) = first.op.value, first.args
        keys = np.array([key], object if isinstance(key, bytes) else np.int64)
        looked_up = x if self._element_facts(x).dtype in ("string", "int64") else Apply(Cast("int64"), x)
        apart = Apply(Vocabulary(Const(keys), Const(np.array([fill])), -1), looked_up)
        ids = read.expr if dtype == "int64" else Apply(Cast("int64"), read.expr)
        made: Expr = Apply(OrElse(0), apart, ids)
        return Elements(made if dtype == "int64" else Apply(Cast("int32"), made), domain)

    def _fits(self, known: facts.Facts, stride: int, width: int) -> bool:
        """Whether a sum does not wrap."""
        least, most = BOUNDS.get(known.dtype, (0, 0))
        if known.lo is None or known.hi is None:
            return False
        farthest = stride * (width - 1)
        return least <= known.lo + min(farthest, 0) and known.hi + max(farthest, 0) <= most

    def _outside(self, cond: Node, shape: Shape | None, negated: bool) -> _Outside | Reject:
        """The interval outside of which a condition holds, or its opposite does."""
        op = op_of(cond)
        if isinstance(op, LogicalNot):
            return self._outside(args_of(cond)[0], shape, not negated)
        if isinstance(op, LogicalAnd if negated else LogicalOr):
            a, b = (self._outside(c, shape, negated) for c in args_of(cond))
            if isinstance(a, Reject) or isinstance(b, Reject):
                return a if isinstance(a, Reject) else b
            if (a.expr, a.domain) != (b.expr, b.domain):
                return Reject("two parts of a select's condition are about different elements")
            return _Outside(a.expr, a.domain, max(a.lo, b.lo), min(a.hi, b.hi))
        if not isinstance(op, Compare) or facts_of(cond).shape != shape:
            return Reject("the condition of a select is not that ids lie outside an interval")
        x, other = args_of(cond)
        bound = whole(other)
        read = self.elements(x)
        if isinstance(read, Reject):
            return read
        if not isinstance(bound, int) or facts_of(x).dtype not in facts.INTEGER or facts_of(x).shape != shape:
            return Reject("the condition of a select does not compare ids with one integer")
        interval = _inside(_OPPOSITE[op.kind] if negated else op.kind, bound)
        return interval if isinstance(interval, Reject) else _Outside(read.expr, read.domain, *interval)

    # -- rows ----------------------------------------------------------------------------------------------------------
    def rows_reason(self, rows: Node, domain: Domain) -> str | None:
        """None where `rows` is proven to be the batch row of each element of `domain`, else why it is not."""
        if isinstance(domain, Dense):
            length = domain.size
            expected = facts.indexed((Term(1, domain.width, None),), 0, length)
            known = facts_of(rows)
            if known.shape == (length,) and facts.as_indexed(known) == expected:
                return None
            return f"row numbers are not proven to be i // {domain.width} over all elements"
        if isinstance(domain, Open):
            width = dims.prod(domain.shape[1:])
            expected, known = facts.indexed((Term(1, width, None),), 0, domain.size), facts_of(rows)
            if known.shape == (domain.size,) and facts.as_indexed(known) == expected:
                return None
            return f"row numbers are not proven to be i // {width} over all elements"
        found = column_of(rows)
        if found is None or found[1] != 0:
            return "row numbers are not column 0 of an index matrix"
        got = self._matrix_domain(found[0])
        if isinstance(got, Reject):
            return got.reason
        return None if got == domain else "row numbers and ids are not proven to be of the same elements"

    def _matrix_domain(self, matrix: Node) -> Domain | Reject:
        """The domain for whose elements column 0 of an index matrix is the batch row."""
        base, output = item_of(matrix)
        op = op_of(base)
        if isinstance(op, StringSplit) and output == 0:
            return self._token_rows(base)
        if isinstance(op, Where):
            return self._mask_rows(base)
        if isinstance(op, SparseCross) and output == 0:
            crossed = self._crossed(base, op)
            return crossed if isinstance(crossed, Reject) else crossed.domain
        if isinstance(op, ParseExample) and op.place(output)[1] == "indices":
            return _lists(base, self._leading(base, op.place(output)[0]))
        if isinstance(op, RaggedInput) and output == 0:
            rows = self._ragged_rows(base)
            return Reject("the number of rows is not known from the request") if rows is None else Lists(rows, base)
        if isinstance(op, Gather):
            return self._retained_rows(base)
        known = facts_of(matrix)
        if known.packed is not None and known.packed.axis == 1:
            return _enumerated(known.packed.parts[0])
        return Reject(f"the index matrix is made by {op.name if op else base}, which is not understood")

    def _token_rows(self, node: Node) -> Domain | Reject:
        parent = self.elements(args_of(node)[0])
        if isinstance(parent, Reject):
            return parent
        if not isinstance(parent.domain, Dense) or parent.domain.width != 1:
            return Reject("tokens are numbered by the string they come from, which is not proven to be the batch row")
        op = op_of(node)
        assert isinstance(op, StringSplit)
        return _tokens(node, op, parent)

    def _mask_rows(self, node: Node) -> Domain | Reject:
        (mask,) = args_of(node)
        masks = self.masks(mask)
        if isinstance(masks, Reject):
            return masks
        exprs, domain = masks
        shape = facts_of(mask).shape
        if isinstance(domain, Padded):
            known = facts_of(domain.source).shape
            return self.kept_of(domain, exprs) if known == shape else Reject("the mask is of another shape")
        if not isinstance(domain, Dense | Open) or shape is None or not shape or shape[0] != domain.rows:
            return Reject("the mask's first axis is not proven to be the batch")
        return Kept(domain, exprs)

    def _retained_rows(self, node: Node) -> Domain | Reject:
        matrix, indices, axis = args_of(node)
        mask = _mask_behind(indices)
        if mask is None or facts_of(axis).integer != 0 or facts_of(mask).rank != 1:
            return Reject("index rows are gathered by something else than the indices of a mask")
        domain = self._matrix_domain(matrix)
        if isinstance(domain, Reject):
            return domain
        masks = self.masks(mask)
        if isinstance(masks, Reject):
            return masks
        if masks[1] != domain:
            return Reject("the mask is over other elements than the index rows")
        return Kept(domain, masks[0])


def _tokens(node: Node, op: StringSplit, parent: Elements) -> Domain:
    """The tokens of each string, or those that are not empty."""
    made = Tokens(parent.domain, node)
    token = Apply(Split(op.separator), parent.expr)
    return Kept(made, (Apply(NotEqual(b""), token),)) if op.skip_empty else made


def one_of(value: int | bytes, dtype: str) -> Value:
    """A vector of one value."""
    if isinstance(value, bytes):
        made = np.empty(1, object)
        made[0] = value
        return made
    return torch.from_numpy(np.array([value], dtype))


def at(expr: Expr, leaf: Expr, value: Value) -> Value | None:
    """An expression of a leaf where that is one value; None where it reads anything else."""
    if expr == leaf:
        return value
    if not isinstance(expr, Apply) or not isinstance(expr.op, MapOp | FilterOp) or isinstance(expr.op, PositionOp):
        return None
    args = [at(arg, leaf, value) for arg in expr.args]
    known = [x for x in args if x is not None]
    return expr.op.reference(*known) if len(known) == len(args) else None


def _sum_fits(known: ElementFacts, added: int) -> bool:
    """Whether a sum fits int64."""
    lo, hi = LEAST if known.lo is None else known.lo, MOST if known.hi is None else known.hi
    return lo + added >= LEAST and hi + added <= MOST


def _joins(expr: Expr) -> bool:
    """Whether it has an op of several operands, or of places in rows."""
    return any(isinstance(e, Apply) and (e.op.arity > 1 or isinstance(e.op, PositionOp)) for e in walk(expr))


def _lists(parse: Node, feature: Feature) -> Domain | Reject:
    rows = facts_of(args_of(parse)[0]).shape
    return Lists(rows[0], parse, feature) if rows else Reject("the number of Examples is not known")


def _by_row(tokens: Tokens) -> bool:
    """Whether they are those of one string a row."""
    return isinstance(tokens.parent, Dense) and tokens.parent.width == 1


def _row_count(root: Dense | Lists | Tokens) -> Dim:
    if isinstance(root, Tokens):
        assert isinstance(root.parent, Dense)
        return root.parent.rows
    return root.rows


def _separator(root: Dense | Lists | Tokens) -> bytes:
    """What tokens are split by."""
    op = op_of(root.split) if isinstance(root, Tokens) else None
    return op.separator if isinstance(op, StringSplit) else b""


def _key(node: Node) -> str:
    op = op_of(node)
    assert isinstance(op, Placeholder)
    return op.key


def _field(name: str, node: Node) -> Elements | Reject:
    shape = facts_of(node).shape
    if not shape:
        return Reject(f"input {name!r} is a scalar or of unknown rank")
    if facts_of(node).dtype not in (*DTYPES, "string"):
        return Reject(f"input {name!r} has a dtype that no column reads: {facts_of(node).dtype}")
    width = dims.prod(shape[1:])
    return Elements(Field(name), Dense(shape[0], width) if isinstance(width, int) else Open(shape))


def _enumerated(first: facts.Facts) -> Domain | Reject:
    """The dense domain whose elements an index column enumerates as `i // width`."""
    content = facts.as_indexed(first)
    if content is None or first.shape is None or content.constant != 0 or len(content.terms) != 1:
        return Reject("the row indices are not known to enumerate a dense tensor")
    (term,) = content.terms
    if term.coefficient != 1 or term.modulus is not None or not isinstance(term.divisor, int):
        return Reject("the row indices are not i // width")
    rows = dims.div_exact(first.shape[0], term.divisor)
    return (
        Dense(rows, term.divisor)
        if rows is not None
        else Reject("the number of index rows is no multiple of the width")
    )


def _mask_behind(indices: Node, *, through_reshape: bool = True) -> Node | None:
    """The mask whose `where` the indices are."""
    node = indices
    while through_reshape and isinstance(node.target, Reshape | Squeeze):
        node = args_of(node)[0]
    return args_of(node)[0] if isinstance(node.target, Where) else None


def _stride(content: facts.Indexed, domain: Dense, size: Dim) -> int | None:
    """The factor where the content is `factor * place` for each element of a dense domain."""
    for term in content.terms[:1] if len(content.terms) == 1 else ():
        if isinstance(term.coefficient, int) and content.constant == 0:
            expected = facts.indexed((Term(term.coefficient, 1, domain.width),), 0, size)
            return term.coefficient if content == expected else None
    return None


def _inside(kind: str, bound: int) -> tuple[int, int] | Reject:
    """The integers of which `x kind bound` is not true, where they are an interval."""
    below = {"lt": bound, "le": bound + 1}.get(kind)
    above = {"gt": bound, "ge": bound - 1}.get(kind)
    if below is None and above is None:
        return Reject(f"the condition of a select compares by {kind}")
    return LEAST if below is None else below, MOST if above is None else above


def _predicate(kind: str, value: bytes | int, dtype: str) -> NotEqual | AtLeast | AtMost | Reject:
    if kind == "ne" and (isinstance(value, bytes) or dtype in facts.INTEGER):
        return NotEqual(value)
    if isinstance(value, int) and dtype in facts.INTEGER and kind in ("ge", "gt", "le", "lt"):
        shifted = value + {"gt": 1, "lt": -1}.get(kind, 0)
        return AtLeast(shifted) if kind in ("ge", "gt") else AtMost(shifted)
    return Reject(f"the mask compares by {kind} on {dtype}, which is no column filter")
