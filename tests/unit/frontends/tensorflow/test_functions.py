from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from colonnade.errors import GraphError, ImportFailure
from colonnade.frontends.tensorflow.functions import inline
from colonnade.frontends.tensorflow.protos import Arg, FuncRef, Function, MetaGraph, Node, OpDef, Unbound


def node(name: str, op: str, *inputs: str, **attrs: Any) -> Node:
    return Node(name, op, inputs, attrs)


def call(name: str, function: str, *inputs: str, **bound: Any) -> Node:
    return node(name, "StatefulPartitionedCall", *inputs, f=FuncRef(function, bound))


def func(
    name: str, inputs: str, nodes: list[Node], ret: Mapping[str, str], control: tuple[str, ...] = (), attrs: str = ""
) -> Function:
    args = tuple(Arg(word, "float32") for word in inputs.split())
    outputs = tuple(Arg(word, "float32") for word in ret)
    return Function(
        name, args, outputs, tuple(nodes), ret, dict(zip(control, control, strict=True)), tuple(attrs.split())
    )


OPS = {
    "Neg": OpDef("Neg", (), (Arg("y", ""),), (), (), {}),
    "Split": OpDef("Split", (), (Arg("output", "", number_attr="n"), Arg("rest", "")), (), (), {}),
}


def meta(nodes: list[Node], *functions: Function) -> MetaGraph:
    named = {f.name: f for f in functions}
    return MetaGraph(("serve",), tuple(nodes), named, {}, {}, "", None, OPS, "2.0")


def shown(graph: MetaGraph, *targets: str) -> tuple[list[str], dict[str, str]]:
    flat = inline(graph, targets)
    return [f"{n.name} = {n.op}({', '.join(n.inputs)})" for n in flat.nodes], dict(flat.tensors)


def test_nested_calls() -> None:
    inner = func("inner", "a", [node("s", "Split", "a", n=2)], {"p": "s:output:1", "q": "s:rest:0", "r": "a"})
    outer = func(
        "outer", "x", [call("c", "inner", "x"), node("neg", "Neg", "c:output:1")], {"u": "neg:y:0", "v": "c:output:0"}
    )
    graph = meta([node("in", "Placeholder"), call("top", "outer", "in"), node("dead", "Neg", "top")], inner, outer)
    nodes, tensors = shown(graph, "top:0", "top:1")
    assert nodes == ["in = Placeholder()", "top/c/s = Split(in)", "top/neg = Neg(top/c/s:2)"]
    assert tensors == {"top:0": "top/neg", "top:1": "top/c/s:1"}


def test_an_op_named_like_a_function_is_a_call() -> None:
    inner = func("inner", "a", [], {"r": "a"})
    outer = func("outer", "x", [node("c", "inner", "x")], {"r": "c:r:0"})
    assert shown(meta([node("in", "P"), node("t", "outer", "in:0")], inner, outer), "t") == (["in = P()"], {"t": "in"})


def test_effects_of_a_body_are_kept_and_controls_are_passed_in() -> None:
    body = func(
        "f",
        "a",
        [node("check", "Assert", "a"), node("y", "Neg", "a"), node("no", "Neg", "a")],
        {"r": "y:y:0"},
        ("check",),
    )
    graph = meta(
        [node("in", "P"), node("first", "Q"), call("c", "f", "in", "^first"), node("after", "Neg", "in", "^c")], body
    )
    nodes, _ = shown(graph, "c:0")
    assert nodes == [
        "in = P()",
        "first = Q()",
        "c/input_control = NoOp(^first)",
        "c/check = Assert(in, ^c/input_control)",
        "c = NoOp(^c/check, ^c/input_control)",
        "c/y = Neg(in, ^c/input_control)",
    ]
    assert inline(graph, ["c:0"]).effects == ("c",)
    assert "after = Neg(in, ^c)" in shown(graph, "after")[0]


def test_names_stay_unique() -> None:
    body = func("f", "a", [node("y", "Neg", "a")], {"r": "y:y:0"})
    graph = meta([node("in", "P"), node("c/y", "Q"), call("c", "f", "in"), node("both", "Add", "c", "c/y")], body)
    nodes, _ = shown(graph, "both")
    assert nodes == ["in = P()", "c/y = Q()", "c_1/y = Neg(in)", "both = Add(c_1/y, c/y)"]


def test_attributes_that_the_call_binds() -> None:
    body = func("f", "a", [node("y", "Neg", "a", T=Unbound("T"), k=3)], {"r": "y:y:0"}, attrs="T")
    made = inline(meta([node("in", "P"), call("c", "f", "in", T="int64")], body), ["c"]).nodes[-1]
    assert dict(made.attrs) == {"T": "int64", "k": 3}


def test_nodes_are_sorted() -> None:
    graph = meta([node("c", "Neg", "b"), node("b", "Neg", "a"), node("a", "P")])
    assert shown(graph, "c")[0] == ["a = P()", "b = Neg(a)", "c = Neg(b)"]


def test_a_deep_chain_needs_no_recursion() -> None:
    nodes = [node(f"n{i}", "Neg", f"n{i + 1}") for i in range(5000)]
    assert len(inline(meta([*nodes, node("n5000", "P")]), ["n0"]).nodes) == 5001


def test_a_loop_of_tensorflow_1_is_no_cycle() -> None:
    graph = meta([node("enter", "Enter"), node("m", "Merge", "enter", "next"), node("next", "NextIteration", "m")])
    assert len(inline(graph, ["m"]).nodes) == 3


def test_cycles_and_lost_inputs() -> None:
    with pytest.raises(GraphError, match="cycle"):
        inline(meta([node("a", "Neg", "b"), node("b", "Neg", "a")]), ["a"])
    with pytest.raises(GraphError, match="cycle"):
        inline(meta([call("a", "f", "a")], func("f", "x", [], {"r": "x"})), ["a"])
    with pytest.raises(GraphError) as caught:
        inline(meta([node("a", "Neg", "b"), node("c", "Neg", "a", "^d")]), ["c", "e:0"])
    assert "'a' (Neg) reads 'b'" in str(caught.value) and "'^d'" in str(caught.value) and "'e'" in str(caught.value)


def test_calls_that_cannot_be_inlined() -> None:
    recursive = func("f", "a", [call("again", "f", "a")], {"r": "again:output:0"})
    with pytest.raises(ImportFailure, match="calls itself"):
        inline(meta([node("in", "P"), call("c", "f", "in")], recursive), ["c"])
    with pytest.raises(ImportFailure, match="does not hold"):
        inline(meta([call("c", "g")]), ["c"])
    with pytest.raises(GraphError, match="does not fit"):
        inline(meta([call("c", "f")], recursive), ["c"])
    strange = func("f", "", [node("a", "Odd"), node("b", "Neg", "a:z:0")], {"r": "b:y:0"})
    with pytest.raises(ImportFailure, match="output 'z' of Odd 'c/a'"):
        inline(meta([call("c", "f")], strange), ["c"])
