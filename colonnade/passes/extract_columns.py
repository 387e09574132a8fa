"""`extract-columns`: every lookup in a table whose ids are made of input fields becomes a column."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.core.examples import Feature
from colonnade.core.expr import Expr, fields_of
from colonnade.core.identity import is_identity
from colonnade.ir.column import Column, fields_read
from colonnade.ir.column_value import ColumnValue
from colonnade.ir.decoded import Names, decoded_names
from colonnade.ir.element_facts import element_facts, inside, keeps_all
from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of, source_of
from colonnade.ir.made_table import made_of, name_of
from colonnade.ir.padded import PADDING, padded
from colonnade.ops.graph.choices import Choices
from colonnade.ops.graph.clip_rows import ClipRows
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.weighted_bag import WeightedBag
from colonnade.passes.base import Editor, Pass, Reject
from colonnade.passes.chosen import chosen_name
from colonnade.passes.domains import Aligned, Chosen, Dense, Elements, Kept, Lists, Open, Padded, Tokens
from colonnade.passes.elements import Reader
from colonnade.passes.shorter import shorter
from colonnade.passes.single_elements import of_elements, shape_of, source_name, taken_reason


class ExtractColumns(Pass):
    """A gather or embedding bag on a variable, read back to input fields, is one `column_value`.

    Legal: the ids are an expression of column ops over the elements of fields, under column filters; the rows that an
    embedding bag pools by are proven to be the batch rows of those very elements; the row count is proven to be the
    batch. Columns are found by structure: any matrix variable that is looked up by rows is a table, whatever its name
    or what follows.
    """

    def run(self, editor: Editor) -> int:
        """Try every lookup."""
        return extract(editor, list(editor.graph.nodes()))


def extract(editor: Editor, nodes: Sequence[Node]) -> int:
    """Every lookup among these nodes that can be read back becomes a column; gives the number of changes."""
    decoded = decoded_names(editor.graph)
    dtypes = {key: facts_of(i).dtype for key, i in editor.graph.inputs.items()}
    dtypes |= {name: feature.dtype for (_, feature), name in decoded.items()}
    taken = frozenset(dtypes)
    dtypes |= {found.name: facts_of(node).dtype for node in editor.graph.nodes() if (found := padded(node, decoded))}
    plain = Reader(decoded, taken=dtypes)
    names = {node.target.column.name: 1 for node in editor.graph.nodes() if isinstance(node.target, ColumnValue)}
    changed = 0
    for node in nodes:
        table = _looked_up(node)
        if table is None:
            continue
        weighted = isinstance(node.target, WeightedBag)
        reader = Reader(decoded, _aligned(node), dtypes) if weighted else plain
        column = _column(reader, node, table, dtypes, taken)
        if isinstance(column, Reject):
            editor.record(node, False, column.reason)
            if isinstance(node.target, Gather) and isinstance(table.target, ClipRows):
                editor.graph.replace(node, _clipped(editor.at(node), node, table))
                changed += 1
            continue
        known = dtypes | reader.dtypes()
        column = shorter(replace(column, name=_unique(_name(column, reader, decoded), names)), known)
        value = _value(editor.at(node), column, table, reader, node)
        editor.record(node, True, f"column {column.name}: ids and rows are proven to be of the same elements")
        editor.graph.replace(node, _shaped(editor, node, value, (*_field_nodes(reader, column), args_of(node)[1])))
        changed += 1
    return changed


def _clipped(editor: Editor, gather: Node, table: Node) -> Node:
    """The gathered rows, clipped: what is no column does not clip a whole table in each request."""
    op = op_of(gather)
    assert op is not None and isinstance(table.target, ClipRows)
    return editor.add(table.target, editor.add(op, args_of(table)[0], *args_of(gather)[1:]))


def _shaped(editor: Editor, node: Node, value: Node, fields: Sequence[Node]) -> Node:
    """`[B, W * D]` in the shape that the lookup had, such as `[B, W, D]`; who joins W and D again reads it as it is."""
    shape = facts_of(node).shape
    assert shape is not None
    if shape == facts_of(value).shape:
        return value
    for user in list(node.users):
        if isinstance(user.target, Reshape | Squeeze) and facts_of(user).shape == facts_of(value).shape:
            editor.graph.replace(user, value)
    return editor.add(Reshape(), value, shape_of(editor, shape, fields))


def _in_rows(reader: Reader, node: Node, read: Elements) -> Elements | Reject:
    """The elements as a lookup has them in rows: those of a row of open width, where they are pooled, are choices."""
    pooled = isinstance(node.target, EmbeddingBag | WeightedBag)
    return reader.in_rows(read) if pooled and isinstance(_root(read), Open) else read


def _value(editor: Editor, column: Column, table: Node, reader: Reader, node: Node) -> Node:
    """The column as a node; where its fields are ragged, their index matrix and its shape say where each value lies."""
    fields = fields_read(column)
    root = _root(_known(reader, node))
    places: list[Node] = []
    if isinstance(root, Lists):
        places = [editor.item(root.source, k) for k in _places(root)]
    nodes = [reader.places[f].node(editor) if f in reader.places else x for f, x in _named(reader, column)]
    if isinstance(root, Chosen):
        chosen = [reader.chosen[name] for name in fields]
        numbered = tuple(dict.fromkeys(k for k, is_place in chosen if is_place))
        made = _choices(editor, root, reader, numbered)
        *items, last = [editor.item(made, k) for k in range(len(root.among) + len(numbered) + 2)]
        behind = 1 + len(root.among)
        nodes = [items[behind + numbered.index(k) if is_place else k + 1] for k, is_place in chosen]
        places = [items[0], last]
    if isinstance(root, Open):
        nodes = [editor.add(Reshape(), x, editor.constant(np.array([-1]))) for x in nodes]
    return editor.add(ColumnValue(column, fields, ragged=bool(places)), table, *nodes, *places)


def _choices(editor: Editor, root: Chosen, reader: Reader, numbered: tuple[int, ...]) -> Node:
    """Each choice of one element of each field; of some fields, also the places of what is chosen."""
    args: list[Node] = []
    sparse = []
    for k, name in enumerate(root.among):
        of, node = reader.roots[chosen_name(root.among, root.splits, k)], reader.fields[name]
        sparse.append(not isinstance(of, Dense | Open))
        if isinstance(of, Tokens):
            args += [editor.item(of.split, output) for output in range(3)]
        elif isinstance(of, Lists):
            first, last = _places(of)
            args += [editor.item(of.source, first), node, editor.item(of.source, last)]
        else:
            args.append(node)
    return editor.add(Choices(tuple(sparse), root.among, root.splits, numbered), *args)


def _known(reader: Reader, node: Node) -> Elements:
    read = reader.elements(args_of(node)[1])
    assert isinstance(read, Elements)
    found = _in_rows(reader, node, read)
    assert isinstance(found, Elements)
    return found


def _field_nodes(reader: Reader, column: Column) -> list[Node]:
    """What a column's fields are, or are made of."""
    return [node for _, node in _named(reader, column)]


def _named(reader: Reader, column: Column) -> list[tuple[str, Node]]:
    names = fields_read(column)
    return [(name, reader.fields[name if name in reader.fields else source_name(name)]) for name in names]


def _places(root: Lists) -> tuple[int, int]:
    """Which outputs of the op that makes the rows are their index matrix and its shape."""
    op = op_of(root.source)
    if isinstance(op, RaggedInput):
        return 0, op.num_outputs - 1
    assert isinstance(op, ParseExample)
    outputs = {op.place(k): k for k in range(op.num_outputs)}
    assert root.feature is not None
    return outputs[root.feature, "indices"], outputs[root.feature, "shape"]


def _looked_up(node: Node) -> Node | None:
    """The table, of variables or a constant, that the node looks rows up in."""
    if not isinstance(node.target, Gather | EmbeddingBag | WeightedBag):
        return None
    table = args_of(node)[0]
    return table if is_table(table) else None


def _aligned(bag: Node) -> Aligned | None:
    """The features that a weighted bag reads its ids and weights of, where those are two of the same Examples."""
    _, ids, _, _, weights = args_of(bag)
    leader, follower = _listed(ids), _listed(weights)
    if leader is None or follower is None or leader[0] is not follower[0]:
        return None
    lengths = frozenset(d for _, _, values in (leader, follower) for d in (facts_of(values).shape or ()))
    return Aligned(leader[0], leader[1], follower[1], lengths)


def _listed(node: Node) -> tuple[Node, Feature, Node] | None:
    """The sparse feature that values are made of, its op and its own values."""
    while True:
        base, output = item_of(node)
        op = op_of(base)
        if isinstance(op, ParseExample):
            feature, what = op.place(output)
            return (base, feature, node) if what == "values" and feature.kind == "sparse" else None
        if not args_of(base):
            return None
        node = args_of(base)[0]


def is_table(node: Node) -> bool:
    """Whether a node is a matrix made of variables or a constant."""
    known = isinstance(node.target, Constant) or made_of(node) is not None
    return known and facts_of(node).rank == 2


def table_name(node: Node) -> str:
    """The name of a table: that of its variables, or one that says what its constant holds."""
    op, made = op_of(node), made_of(node)
    if made is not None:
        return name_of(made)
    assert isinstance(op, Constant)
    array = op.value.array
    return f"identity[{len(array)}]" if is_identity(array) else f"const_{op.value.digest}"


def _ids(reader: Reader, ids: Node) -> Elements | Reject:
    """What ids are made of; no padded rows."""
    given = reader.elements(ids)
    if isinstance(given, Reject) or not isinstance(given.domain, Padded):
        return given
    return Reject("how many places there are depends on the longest row: mask what rows are padded with")


def _column(
    reader: Reader, node: Node, table: Node, dtypes: Mapping[str, str], taken: Container[str]
) -> Column | Reject:
    op = op_of(node)
    given = _ids(reader, args_of(node)[1])
    read = given if isinstance(given, Reject) else _in_rows(reader, node, given)
    if isinstance(read, Reject) or isinstance(given, Reject):
        return read  # type: ignore[return-value]
    root = _root(read)
    if isinstance(root, Chosen):
        names = {chosen_name(root.among, root.splits, k): name for k, name in enumerate(root.among)}
        places = [chosen_name(root.among, root.splits, k, numbered=True) for k in range(len(names))]
        if not dtypes.keys().isdisjoint((*names, *places, chosen_name(root.among, root.splits, None))):
            return Reject(f"an input has the name of choices among {', '.join(root.among)}")
        dtypes = {**dtypes, **{made: dtypes[name] for made, name in names.items()}}
    rows = facts_of(table).shape
    assert rows is not None
    if facts_of(table).dtype != "float32":
        return Reject(f"the table is {facts_of(table).dtype}: a column's vectors are float32")
    weights = None
    if isinstance(op, WeightedBag):
        factors = reader.elements(args_of(node)[4])
        if isinstance(factors, Reject):
            return factors
        if factors.domain != read.domain:
            return Reject("ids and weights are not proven to be of the same elements")
        weights = factors.expr
    pooling: str
    if isinstance(op, EmbeddingBag | WeightedBag):
        pooling, default_row = op.pooling, op.default_row
        reason = _pooled(reader, node, given)
    else:
        pooling, default_row = "none" if isinstance(read.domain, Dense) and read.domain.width > 1 else "sum", None
        reason = _unpooled(node, read, {d for f in fields_of(read.expr) for d in _known_dims(reader.fields[f])})
    dtypes = {**dtypes, **reader.dtypes()}
    if reason is None and isinstance(_root(read), Open):
        reason = taken_reason(fields_of(read.expr), dtypes)
    reason = reason or _name_taken(reader, fields_of(read.expr), taken)
    if reason is not None:
        return Reject(reason)
    assert isinstance(rows[0], int)
    filters = tuple(f for f in _filters(read) if not keeps_all(f, dtypes))
    column = Column(
        name="",
        ids=read.expr,
        table=table_name(table),
        pooling=pooling,
        weights=weights,
        filters=filters,
        default_row=default_row,
        ids_proven=inside(read.expr, element_facts(read.expr, dtypes), filters, rows[0]),
        source=source_of(node),
    )
    if isinstance(_root(read), Open):
        column = of_elements(column)
    fields = dict.fromkeys(root.among) if isinstance(root, Chosen) else fields_read(column)
    return replace(column, name="+".join(fields))


def _name(column: Column, reader: Reader, decoded: Names) -> str:
    """The names of the fields that it reads, or that these are made of."""
    names = fields_read(column)
    found = {name: padded(reader.fields[name], decoded) for name in names if name in reader.fields}
    if not any(found.values()):
        return column.name
    return "+".join(dict.fromkeys(of.of if (of := found.get(name)) else name for name in names))


def _pooled(reader: Reader, node: Node, read: Elements) -> str | None:
    """Why an embedding bag is not a column's pooling."""
    _, _, rows, count, *_ = args_of(node)
    reason = reader.rows_reason(rows, read.domain)
    if reason is not None:
        return reason
    total = facts_of(count).values
    batch = _batch(read)
    if total is None or total[0] != batch:
        return f"the number of rows is not proven to be the batch {batch}"
    return None


def _unpooled(node: Node, read: Elements, known: Set[Dim]) -> str | None:
    """Why a gather is not a column with a vector for each element of a row.   known: dims of the fields."""
    op = op_of(node)
    assert isinstance(op, Gather)
    if op.batch_dims or facts_of(args_of(node)[2]).integer != 0:
        return "rows are gathered along another axis than 0"
    if not isinstance(read.domain, Dense | Open):
        return "the gather keeps the vectors of some elements of a row: their places are not known"
    shape, size = facts_of(node).shape, read.domain.size
    if size == 0:
        return "rows of no elements have no vectors"
    if shape is None or dims.prod(shape[:-1]) != size:
        return f"the gather's result is not proven to be one vector an element of {size}, but {shape}"
    if any(dims.symbols_of(d) - known for d in shape):
        return f"the gather's result has the shape {shape}, which the dims of its fields do not tell"
    return None


def _known_dims(field: Node) -> Sequence[Dim]:
    """The dims that a request tells by a field."""
    if isinstance(field.target, PADDING):
        return facts_of(args_of(field)[1]).values or ()
    return facts_of(field).shape or ()


def _name_taken(reader: Reader, names: Sequence[str], taken: Container[str]) -> str | None:
    """Why fields of padded rows can have no names."""
    for name in names:
        if name in taken and isinstance(reader.fields[name].target, PADDING):
            return f"an input has the name {name!r} of padded rows"
    return None


def _batch(read: Elements) -> Dim:
    return _root(read).rows


def _root(read: Elements) -> Dense | Open | Lists | Chosen:
    domain = read.domain
    while not isinstance(domain, Dense | Open | Lists | Chosen):
        domain = domain.parent
    return domain


def _filters(read: Elements) -> tuple[Expr, ...]:
    found: list[Expr] = []
    domain = read.domain
    while isinstance(domain, Kept | Tokens):
        if isinstance(domain, Kept):
            found[:0] = domain.masks
        domain = domain.parent
    return tuple(dict.fromkeys(found))


def _unique(base: str, names: dict[str, int]) -> str:
    """The name; a number behind it where several columns have it."""
    count = names.get(base, 0) + 1
    while count > 1 and f"{base}#{count}" in names:
        count += 1
    made = base if count == 1 else f"{base}#{count}"
    names[base] = count
    names.setdefault(made, 1)
    return made
