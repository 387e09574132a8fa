"""A graph as text, a line a node: what `--print-after` shows and what pass tests compare."""

from __future__ import annotations

import operator
from collections.abc import Iterator

from colonnade.core import facts as facts_
from colonnade.core.consts import Const
from colonnade.core.facts import Facts, Indexed, Order
from colonnade.ir.column import Column
from colonnade.ir.graph import Graph, Node, op_of, source_of
from colonnade.ir.text import print_column

INLINE = 8


def print_graph(graph: Graph, *, sources: bool = False, facts: bool = True) -> str:
    """Every node in order: `%v3 : int64[B, 1] 0..99 = op[attributes](%v1, %v2)`, then the outputs."""
    lines = [_line(node, sources, facts) for node in graph.nodes()]
    lines += [f"output {key} = %{node.name}" for key, node in graph.outputs.items()]
    return "\n".join(lines) + "\n"


def _line(node: Node, sources: bool, with_facts: bool) -> str:
    known = node.meta.get("facts") if with_facts else None
    typed = f" : {print_facts(known)}" if isinstance(known, Facts) else ""
    line = f"%{node.name}{typed} = {_call(node)}"
    return f"{line}  # {source_of(node)}" if sources else line


def _call(node: Node) -> str:
    if node.target is operator.getitem:
        base, index = node.args
        return f"%{base}.{index}"
    op = op_of(node)
    assert op is not None
    attributes = ", ".join(f"{k}={_attribute(v)}" for k, v in op.attributes())
    operands = ", ".join(f"%{a}" for a in node.args)
    return f"{op.name}[{attributes}]({operands})" if attributes else f"{op.name}({operands})"


def _attribute(value: object) -> str:
    if isinstance(value, Const):
        if value.array.size <= INLINE:
            return f"{value.array.tolist()}"
        return f"{value.array.dtype}{list(value.array.shape)}@{value.digest}"
    if isinstance(value, Column):
        return "{" + print_column(value).partition("  # ")[0].removeprefix("column ") + "}"
    return repr(value)


def print_facts(f: Facts) -> str:
    """dtype[shape], then what else is proven."""
    return " ".join(_parts(f))


def _parts(f: Facts) -> Iterator[str]:
    yield f.dtype + ("[?]" if f.shape is None else "[" + ", ".join(map(str, f.shape)) + "]")
    if f.content is not None:
        yield f"= {_content(f)}"
    elif (f.lo is not None or f.hi is not None) and (f.dtype in facts_.INTEGER or (f.lo, f.hi) != (0, 1)):
        yield f"{'' if f.lo is None else f.lo}..{'' if f.hi is None else f.hi}"
    if f.order != Order.NONE and f.content is None:
        yield {Order.NONDECREASING: "sorted", Order.STRICT: "rising"}[f.order]
    if f.packed is not None:
        yield "{" + "; ".join(print_facts(p) for p in f.packed.parts) + "}"


def _content(f: Facts) -> str:
    if isinstance(f.content, tuple):
        shown = ", ".join(map(str, f.content[:INLINE]))
        return f"({shown}, ...)" if len(f.content) > INLINE else f"({shown})"
    assert isinstance(f.content, Indexed)
    terms = []
    for t in f.content.terms:
        term = "i" if t.divisor == 1 else f"i//({t.divisor})"
        term = term if t.modulus is None else f"{term}%({t.modulus})"
        terms.append(term if t.coefficient == 1 else f"({t.coefficient})*({term})")
    if f.content.constant != 0 or not terms:
        terms.append(str(f.content.constant))
    return " + ".join(terms)
