"""Replaces function calls by the bodies of the functions: one flat, sorted list of nodes with unique names."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from colonnade.errors import GraphError, ImportFailure, listed
from colonnade.frontends.tensorflow.protos import Arg, Attrs, FuncRef, Function, MetaGraph, Node, OpDef, Unbound

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")
BRANCH, EFFECTS = "_Branch", "_BranchEffects"
"""Ops of a flat graph: an output of an `If` or `Case`, and its effects; both read the predicate and every branch."""
_CONTROL = "input_control"
_BACK_EDGE = "NextIteration"  # a loop of TensorFlow 1 is a cycle through one of these
_MAX_NODES = 5_000_000


@dataclass(frozen=True, slots=True)
class FlatGraph:
    """A graph without calls.

    Facts: every input precedes its consumer (but for TensorFlow 1 loops); `tensors` maps each target that was asked for
    to its flat name; `effects` name the nodes that must run although no target reads them (assertions in bodies).
    """

    nodes: tuple[Node, ...]
    tensors: Mapping[str, str]
    effects: tuple[str, ...]
    within: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)


def inline(meta: MetaGraph, targets: Sequence[str], several: Container[str] | None = None) -> FlatGraph:
    """What `targets` (tensors 'a:0' or nodes 'a', also with '^') need, with every call replaced by its body.

    several: the ops that are understood and have several outputs: only those need a declaration, which models saved
    from a graph lack for ops inside functions. None: every op needs one.
    Facts: a body node is named 'call/node'; a call's own name stays as a NoOp behind the body's effects.
    Errors: GraphError for inputs that do not exist and for cycles; ImportFailure for recursive or undeclared functions.
    """
    flat = _Flattener(meta, several)
    roots = [target.removeprefix("^") for target in targets]
    flat.add_main(reachable({n.name: n for n in meta.nodes}, (node_of(r) for r in roots)))
    flat.check()
    tensors = {target: flat.resolve(canonical(root)) for target, root in zip(targets, roots, strict=True)}
    effects = tuple(flat.effects)
    by_name = {node.name: node for node in flat.resolved()}
    keep = reachable(by_name, (*(node_of(t) for t in tensors.values()), *effects))
    lost = [f"'{name}' is asked for" for name in tensors.values() if node_of(name) not in by_name]
    within = {name: tuple((flat.resolve(ref), k) for ref, k in around) for name, around in flat.within.items()}
    return FlatGraph(tuple(_sorted(keep, by_name, lost)), tensors, effects, within)


def node_of(ref: str) -> str:
    """The node of an input or tensor name: 'a' of 'a', 'a:1' and '^a'."""
    if ref[:1] == "^":
        return ref[1:]
    return ref.partition(":")[0] if ":" in ref else ref


def canonical(ref: str) -> str:
    """A tensor name without a redundant ':0'."""
    return ref.removesuffix(":0")


def reachable(nodes: Mapping[str, Node], roots: Iterable[str]) -> list[Node]:
    """The nodes that `roots` need, in the order of `nodes`; names that do not exist are left to the caller."""
    seen = {root for root in roots if root in nodes}
    stack = list(seen)
    while stack:
        for ref in nodes[stack.pop()].inputs:
            source = ref if ref in nodes else node_of(ref)
            if source not in seen and source in nodes:
                seen.add(source)
                stack.append(source)
    return [node for name, node in nodes.items() if name in seen]


def _sorted(nodes: Sequence[Node], by_name: Mapping[str, Node], lost: list[str]) -> list[Node]:
    """The nodes with inputs first: as they are where they are in order (most graphs), else depth-first."""
    seen: set[str] = set()
    ordered = True
    for node in nodes:
        seen.add(node.name)
        ordered = ordered and all(ref in seen or node_of(ref) in seen for ref in node.inputs)
    if ordered and not lost:
        return list(nodes)
    _check_inputs(nodes, by_name, lost)
    return _depth_first(nodes, by_name)


def _check_inputs(nodes: Sequence[Node], by_name: Mapping[str, Node], lost: list[str]) -> None:
    lost = lost + [
        f"'{node.name}' ({node.op}) reads '{ref}'"
        for node in nodes
        for ref in node.inputs
        if node_of(ref) not in by_name
    ]
    if lost:
        raise GraphError("nodes read inputs that do not exist", got=listed(lost), help="the model file is damaged")


def _depth_first(nodes: Sequence[Node], by_name: Mapping[str, Node]) -> list[Node]:
    done: dict[str, bool] = {}  # False while a node is on the path
    out = []
    for root in nodes:
        path = [] if root.name in done else [(root, iter(_sources(root)))]
        if path:
            done[root.name] = False
        while path:
            node, sources = path[-1]
            following = next((s for s in sources if not done.get(s, False)), None)
            if following is None:
                done[node.name] = True
                out.append(node)
                path.pop()
            elif following in done:
                names = [n.name for n, _ in path]
                loop = " <- ".join(reversed([*names[names.index(following) :], following]))
                raise GraphError("the graph has a cycle", got=loop, help="the model file is damaged")
            else:
                done[following] = False
                node = by_name[following]
                path.append((node, iter(_sources(node))))
    return out


def _sources(node: Node) -> Iterator[str]:
    return iter(()) if node.op == _BACK_EDGE else map(node_of, node.inputs)


class BoundAttrs(Mapping[str, Any]):
    """Attributes of a body node whose unbound ones come from the call."""

    __slots__ = ("_attrs", "_bound")

    def __init__(self, attrs: Mapping[str, Any], bound: Mapping[str, Any]) -> None:
        self._attrs = attrs
        self._bound = bound

    def __getitem__(self, key: str) -> Any:
        value = self._attrs[key]
        return self._bound[value.name] if isinstance(value, Unbound) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._attrs)

    def __len__(self) -> int:
        return len(self._attrs)

    def raw(self) -> bytes:
        """The body node's own bytes, and what the call binds."""
        return raw(self._attrs) + repr(sorted(self._bound.items(), key=str)).encode()


def raw(attrs: Mapping[str, Any]) -> bytes:
    """Bytes that are equal exactly when the attributes are."""
    if isinstance(attrs, BoundAttrs | Attrs):
        return attrs.raw()
    return repr(sorted(attrs.items(), key=str)).encode()


_Around = tuple[tuple[str, int], ...]
"""The predicate and the branch of each `If` and `Case` around a node."""


@dataclass(slots=True)
class _Body:
    """One call being expanded: its name in the flat graph, its function and what its nodes are called by."""

    name: str
    function: Function
    bound: Mapping[str, Any]
    controls: tuple[str, ...]
    chain: tuple[str, ...]
    around: _Around
    nodes: dict[str, Node] = field(default_factory=dict)
    arguments: frozenset[str] = frozenset()


class _Flattener:
    """Collects flat nodes, and aliases for what calls and arguments stand for; aliases are resolved at the end."""

    def __init__(self, meta: MetaGraph, several: Container[str] | None) -> None:
        self._several = several
        self._functions = meta.functions
        self._ops = meta.ops
        self._taken = {node.name for node in meta.nodes}
        self._alias: dict[str, str] = {}
        self._pending: list[_Body] = []
        self._undeclared: dict[str, str] = {}
        self.nodes: list[Node] = []
        self.effects: list[str] = []
        self.within: dict[str, _Around] = {}

    def add_main(self, nodes: Iterable[Node]) -> None:
        """The main graph's nodes, then every body that they call."""
        for node in nodes:
            if any(ref.endswith(":0") for ref in node.inputs):
                node = Node(node.name, node.op, tuple(map(canonical, node.inputs)), node.attrs)
            self._add(node, (), ())
        while self._pending:
            self._expand(self._pending.pop())

    def check(self) -> None:
        """Every output of a body node that is read is one that its op declares."""
        if self._undeclared:
            got = listed([f"{what}: read by '{reader}'" for what, reader in self._undeclared.items()])
            hint = "the model file lacks the declarations of these ops: save the model again with tf.saved_model.save"
            raise ImportFailure("outputs of ops inside functions cannot be resolved", got=got, help=hint)

    def resolve(self, ref: str) -> str:
        """The flat tensor that a tensor name stands for, through calls and arguments."""
        seen = {ref}
        while ref in self._alias:
            ref = self._alias[ref]
            if ref in seen:
                raise GraphError("the graph has a cycle through a function call", got=ref)
            seen.add(ref)
        return ref

    def resolved(self) -> list[Node]:
        """The flat nodes, their inputs resolved."""
        alias = self._alias
        out = []
        for node in self.nodes:
            if alias and any(ref in alias for ref in node.inputs):
                node = Node(node.name, node.op, tuple(map(self.resolve, node.inputs)), node.attrs)
            out.append(node)
        return out

    def _add(self, node: Node, chain: tuple[str, ...], around: _Around) -> None:
        if node.op in _BRANCHES:
            self._branch(node, chain, around)
            return
        function, bound = self._called(node)
        if function is not None:
            if function.name in chain:
                raise ImportFailure(
                    "a function calls itself", where=node.name, got=" -> ".join((*chain, function.name))
                )
            if self._call(node, function, bound, chain, around):
                self.effects.append(node.name)
            return
        self.nodes.append(node)
        if around and node.op == "Assert":
            self.within[node.name] = around
        if len(self.nodes) > _MAX_NODES:
            raise ImportFailure("the functions expand to too many nodes", got=f"more than {_MAX_NODES}")

    def _branch(self, node: Node, chain: tuple[str, ...], around: _Around) -> None:
        """Every branch as a call of its own, and a node an output that reads the predicate and all of them."""
        named = node.attrs.get("branches") or [node.attrs.get("else_branch"), node.attrs.get("then_branch")]
        predicate, *data = (ref for ref in node.inputs if not ref.startswith("^"))
        controls = tuple(ref for ref in node.inputs if ref.startswith("^"))
        calls = [
            Node(f"{node.name}/branch_{k}", "PartitionedCall", (*data, *controls), {"f": ref})
            for k, ref in enumerate(named)
        ]
        effect = False
        for k, call in enumerate(calls):
            function, bound = self._called(call)
            assert function is not None
            if function.name in chain:
                raise ImportFailure(
                    "a function calls itself", where=node.name, got=" -> ".join((*chain, function.name))
                )
            effect |= self._call(call, function, bound, chain, (*around, (predicate, k)))
            count = len(function.outputs)
        for k in range(count):
            merged = f"{node.name}/output_{k}"
            self._alias[f"{node.name}:{k}" if k else node.name] = merged
            given = (f"{call.name}:{k}" if k else call.name for call in calls)
            self.nodes.append(Node(merged, BRANCH, (predicate, *given), {}))
        self.nodes.append(Node(node.name, EFFECTS, (predicate, *(f"^{call.name}" for call in calls)), {}))
        if effect:
            self.effects.append(node.name)

    def _called(self, node: Node) -> tuple[Function | None, Mapping[str, Any]]:
        """The function that a node calls, and the attributes that it binds."""
        if node.op in self._functions:
            return self._functions[node.op], node.attrs
        if node.op not in _CALLS:
            return None, {}
        ref = node.attrs.get("f")
        if not isinstance(ref, FuncRef) or ref.name not in self._functions:
            name = ref.name if isinstance(ref, FuncRef) else repr(ref)
            raise ImportFailure("a call of a function that the model does not hold", where=node.name, got=name)
        return self._functions[ref.name], ref.attrs

    def _call(
        self, node: Node, function: Function, bound: Mapping[str, Any], chain: tuple[str, ...], around: _Around
    ) -> bool:
        """Put a body in the place of a call; whether it has effects."""
        data = [ref for ref in node.inputs if not ref.startswith("^")]
        controls = tuple(ref for ref in node.inputs if ref.startswith("^"))
        if len(data) != len(function.inputs):
            got, want = f"{len(data)} inputs", f"{len(function.inputs)} of '{function.name}'"
            raise GraphError("a call does not fit its function", where=node.name, got=got, want=want)
        prefix = self._prefix(node.name, function)
        for arg, ref in zip(function.inputs, data, strict=True):
            self._alias[f"{prefix}/{arg.name}"] = ref
        if controls:
            self.nodes.append(Node(f"{prefix}/{_CONTROL}", "NoOp", controls, {}))
            controls = (f"^{prefix}/{_CONTROL}",)
        body = _Body(prefix, function, bound, controls, (*chain, function.name), around)
        body.nodes = {inner.name: inner for inner in function.nodes}
        body.arguments = frozenset(arg.name for arg in function.inputs)
        for position, output in enumerate(function.outputs):
            outer = f"{node.name}:{position}" if position else node.name
            self._alias[outer] = self._ref(body, function.ret.get(output.name, ""), f"output {output.name}")
        effects = tuple(f"^{prefix}/{name}" for name in function.control_ret.values())
        self.nodes.append(Node(node.name, "NoOp", effects + controls, {}))
        self._pending.append(body)
        return bool(effects)

    def _prefix(self, name: str, function: Function) -> str:
        """A scope under the call's name in which no body node's name is taken."""
        inner = [*(n.name for n in function.nodes), *(a.name for a in function.inputs), _CONTROL]
        prefix = name
        attempt = 0
        while any(f"{prefix}/{n}" in self._taken for n in inner):
            attempt += 1
            prefix = f"{name}_{attempt}"
        self._taken.update(f"{prefix}/{n}" for n in inner)
        return prefix

    def _expand(self, body: _Body) -> None:
        """A body's nodes that its results and effects need."""
        function = body.function
        for node in reachable(body.nodes, (*map(node_of, function.ret.values()), *function.control_ret.values())):
            inputs = tuple(self._ref(body, ref, node.name) for ref in node.inputs)
            attrs = BoundAttrs(node.attrs, body.bound) if function.attr_names else node.attrs
            self._add(Node(f"{body.name}/{node.name}", node.op, inputs + body.controls, attrs), body.chain, body.around)

    def _ref(self, body: _Body, ref: str, reader: str) -> str:
        """A reference inside a body ('node:output:index', 'argument', '^node') as a name in the flat graph."""
        if ref.startswith("^"):
            return f"^{body.name}/{ref[1:]}"
        name, _, rest = ref.partition(":")
        inner = f"{body.name}/{name}"
        node = body.nodes.get(name)
        if node is None or name in body.arguments:
            return inner
        output, _, number = rest.partition(":")
        position = self._position(node, output, int(number) if number.isdecimal() and len(number) < 10 else 0)
        if position is None:
            self._undeclared.setdefault(f"output '{output}' of {node.op} '{inner}'", reader)
        return f"{inner}:{position}" if position else inner

    def _position(self, node: Node, output: str, index: int) -> int | None:
        """The flat number of element `index` of a declared output."""
        function, _ = self._called(node)
        declared: OpDef | Function | None = function or self._ops.get(node.op)
        if declared is None and self._several is not None and node.op not in self._several:
            return 0
        if node.op in (*_CALLS, *_BRANCHES):
            return index if output == "output" else None
        position = 0
        for arg in declared.outputs if declared is not None else ():
            if arg.name == output:
                return position + index
            position += _width(arg, node)
        return None


def _width(arg: Arg, node: Node) -> int:
    try:
        return arg.width(node.attrs)
    except (KeyError, TypeError, ValueError):
        raise GraphError("a node lacks the attribute that counts its outputs", where=node.name, got=str(arg)) from None
