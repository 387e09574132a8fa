"""TensorFlow nodes that make strings of strings, whose operands become attributes."""

from __future__ import annotations

import re
from typing import Protocol

from colonnade.errors import ImportFailure
from colonnade.frontends.tensorflow.protos import Node as Source
from colonnade.ir.graph import Node, op_of
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.regex_replace import RegexReplace
from colonnade.ops.graph.string_join import StringJoin
from colonnade.ops.graph.string_lower import StringLower
from colonnade.ops.graph.string_upper import StringUpper
from colonnade.ops.graph.substr import Substr
from colonnade.ops.op import GraphOp

_SET = rb"\[(?:[^\\\]\[^]|\\[^A-Za-z0-9])(?:[^\\\]\[]|\\[^A-Za-z0-9])*\]"
_BYTE = rb"[^\\.*+?{}\[\]()|^$]|\\[^A-Za-z0-9]"
_SET_OPS = re.compile(rb"--|&&|~~|\|\|")
SIMPLE = re.compile(rb"(?:(?:" + _SET + rb"|" + _BYTE + rb")\+?)+")
"""Bytes and sets of bytes, or runs of them: what TensorFlow's and Python's expressions say alike."""


class Importer(Protocol):
    """What these rules use of the importer."""

    def operands(self, source: Source) -> tuple[Node, ...]:
        """All data operands."""

    def add(self, op: GraphOp, *args: Node, source: Source) -> Node:
        """Append an op."""


def _constant(node: Node, what: str) -> Constant:
    op = op_of(node)
    if not isinstance(op, Constant):
        raise ImportFailure(f"{what} that is computed is not supported")
    return op


def string_lower(importer: Importer, source: Source) -> Node:
    """StringLower of bytes or of UTF-8."""
    return importer.add(StringLower(_is_utf8(source)), *importer.operands(source), source=source)


def string_upper(importer: Importer, source: Source) -> Node:
    """StringUpper of bytes or of UTF-8."""
    return importer.add(StringUpper(_is_utf8(source)), *importer.operands(source), source=source)


def _is_utf8(source: Source) -> bool:
    encoding = _bytes(source.attrs.get("encoding", b""))
    if encoding not in (b"", b"utf-8"):
        raise ImportFailure(f"{source.op} of another encoding than UTF-8 is not supported", got=encoding.decode())
    return encoding != b""


def string_join(importer: Importer, source: Source) -> Node:
    """StringJoin; scalar constants are parts of their own."""
    parts: list[bytes | None] = []
    args = []
    for node in importer.operands(source):
        op = op_of(node)
        if isinstance(op, Constant) and op.value.array.size == 1 and op.value.array.ndim == 0:
            parts.append(bytes(op.value.array.reshape(-1)[0]))
        else:
            parts.append(None)
            args.append(node)
    if not args:
        raise ImportFailure("StringJoin of constants alone is not supported")
    made = StringJoin(tuple(parts), _bytes(source.attrs.get("separator", b"")))
    return importer.add(made, *args, source=source)


def regex_replace(importer: Importer, source: Source) -> Node:
    """RegexReplace and StaticRegexReplace by simple patterns."""
    text, *rest = importer.operands(source)
    if rest:
        pattern, rewrite = (bytes(_constant(n, "a pattern").value.array.reshape(-1)[0]) for n in rest)
    else:
        pattern, rewrite = (_bytes(source.attrs.get(name, b"")) for name in ("pattern", "rewrite"))
    if not pattern.isascii() or not SIMPLE.fullmatch(pattern) or b"\\" in rewrite or _SET_OPS.search(pattern):
        raise ImportFailure(
            "a regular expression of more than bytes, sets of bytes and runs of them is not supported",
            got=repr(pattern),
        )
    return importer.add(
        RegexReplace(pattern, rewrite, bool(source.attrs.get("replace_global", True))), text, source=source
    )


def _bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def substr(importer: Importer, source: Source) -> Node:
    """Substr of bytes from one place on, for all strings."""
    text, start, length = importer.operands(source)
    if _bytes(source.attrs.get("unit", b"BYTE")) != b"BYTE":
        raise ImportFailure("Substr of characters is not supported")
    numbers = [_constant(n, "a place or length of Substr").value.array for n in (start, length)]
    if any(n.size != 1 for n in numbers):
        raise ImportFailure("Substr of a place for each string is not supported")
    return importer.add(Substr(*(int(n.reshape(-1)[0]) for n in numbers)), text, source=source)
